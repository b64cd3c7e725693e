"""Every option of the command line, once. Commands pick theirs by annotating a parameter.

Each option can also be given as ``CALCLI_<OPTION>`` in the environment; the command line wins.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, Literal

import typer

from calcli.cli import complete
from calcli.cli.help import CHECK, COLUMNS, INPUT, METHOD, OUTPUT
from calcli.cli.screen import is_terminal
from calcli.errors import UsageError


def _option(*names: str, **more: Any) -> Any:
    """An option that the environment can give too."""
    variable = names[-1].removeprefix("--").replace("-", "_").upper()
    return typer.Option(*names, envvar=f"CALCLI_{variable}", **more)


def _piped(data: list[str] | None) -> list[str]:
    """The same paths. A terminal is no table: waiting for somebody to type one looks like hanging."""
    if data and "-" in data and is_terminal(sys.stdin):
        raise UsageError("- is standard input, which is a terminal here", hint="pipe a table into it, or name a file")
    return data or []


def _limit_threads(count: int | None) -> int | None:
    """The same number; polars, OpenMP and numba read it from the environment when they are imported, which is later."""
    if count is not None:
        for name in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
            os.environ[name] = str(count)
    return count


# Input

_DATA = typer.Argument(
    metavar="DATA...",
    help="Files, globs, directories; - is stdin. Parquet, CSV, TSV, Arrow IPC or NDJSON; .gz and .zst are unpacked.",
    callback=_piped,
    rich_help_panel=INPUT,
)
Data = Annotated[list[str], _DATA]
DataOrNone = Annotated[list[str] | None, _DATA]
Artifact = Annotated[
    str,
    typer.Argument(metavar="ARTIFACT", help="The directory that `calcli fit` made.", rich_help_panel=INPUT),
]
InputFormat = Annotated[
    str | None,
    _option(
        "--input-format",
        metavar="FORMAT",
        help="parquet, csv, tsv, ipc or ndjson, where suffixes do not tell.",
        autocompletion=complete.tables,
        rich_help_panel=INPUT,
    ),
]
BadRows = Annotated[
    Literal["fail", "null"],
    _option(
        "--bad-rows",
        metavar="fail|null",
        help="Rows without a finite score, or without a label or weight: refuse the table, or go on without them.",
        rich_help_panel=INPUT,
    ),
]

# Columns

Label = Annotated[
    str | None,
    _option("--label", metavar="COLUMN", help="The class that each row turned out to have.", rich_help_panel=COLUMNS),
]
Prob = Annotated[
    str | None,
    _option(
        "--prob",
        metavar="COLUMN",
        help="The score as a probability; of more than two classes, the stem of COLUMN_<class>.",
        rich_help_panel=COLUMNS,
    ),
]
Logit = Annotated[
    str | None,
    _option("--logit", metavar="COLUMN", help="The score as log-odds or logits, likewise.", rich_help_panel=COLUMNS),
]
Features = Annotated[
    str | None,
    _option("--features", metavar="A,B,...", help="What the method may look at.", rich_help_panel=COLUMNS),
]
Ignore = Annotated[
    str | None,
    _option("--ignore", metavar="A,B,...", help="Columns to leave out of everything.", rich_help_panel=COLUMNS),
]
Weight = Annotated[
    str | None,
    _option("--weight", metavar="COLUMN", help="How much each row counts.", rich_help_panel=COLUMNS),
]
Positive = Annotated[
    str | None,
    _option("--positive", metavar="LABEL", help="The class that the score speaks of.", rich_help_panel=COLUMNS),
]
Classes = Annotated[
    str | None,
    _option("--classes", metavar="A,B,...", help="All classes, in order.", rich_help_panel=COLUMNS),
]

NodeId = Annotated[
    str | None,
    _option("--node-id", metavar="COLUMN", help="The id by which --edges knows the row.", rich_help_panel=COLUMNS),
]

# Method

Method = Annotated[
    str,
    _option(
        "-m",
        "--method",
        metavar="NAME",
        help="How to calibrate; `calcli methods` lists them. auto compares several, no calibration among them.",
        autocompletion=complete.methods,
        rich_help_panel=METHOD,
    ),
]
Set = Annotated[
    list[str] | None,
    _option(
        "--set",
        metavar="KEY=VALUE",
        help="A parameter of the method; can be given several times. `calcli methods NAME` lists them.",
        autocompletion=complete.settings,
        rich_help_panel=METHOD,
    ),
]
Preset = Annotated[
    str | None,
    _option(
        "--preset",
        metavar="NAME",
        help="Parameters that were chosen together.",
        autocompletion=complete.presets,
        rich_help_panel=METHOD,
    ),
]

Methods = Annotated[
    str,
    _option(
        "--methods",
        metavar="A,B,...",
        help="all, or names; `calcli methods` lists them.",
        autocompletion=complete.method_list,
        rich_help_panel=METHOD,
    ),
]
Budget = Annotated[
    float,
    _option(
        "--budget",
        metavar="SECONDS",
        min=0,
        help="How long methods may be compared; those that have not finished are left out.",
        rich_help_panel=METHOD,
    ),
]
Criterion = Annotated[
    str,
    _option(
        "--criterion",
        metavar="METRIC",
        help="The metric by which a method is chosen: nll or brier, never a calibration error.",
        autocompletion=complete.metric,
        rich_help_panel=METHOD,
    ),
]
Model = Annotated[
    str | None,
    _option(
        "--model",
        metavar="FILE",
        help="The model that made the scores, as CatBoost, XGBoost or LightGBM wrote it, for methods that look inside.",
        rich_help_panel=METHOD,
    ),
]
PartitionData = Annotated[
    str | None,
    _option(
        "--partition-data",
        metavar="FILE",
        help="Rows with labels to learn a partition from: those that the model was trained on, as a rule.",
        rich_help_panel=METHOD,
    ),
]
EmbeddingData = Annotated[
    str | None,
    _option(
        "--embedding-data",
        metavar="FILE",
        help="Rows to cluster together with DATA: those that the model was trained on, as a rule.",
        rich_help_panel=METHOD,
    ),
]
Edges = Annotated[
    str | None,
    _option(
        "--edges",
        metavar="FILE",
        help="Pairs of ids, of rows that are linked, for methods that relate rows; needs --node-id.",
        rich_help_panel=METHOD,
    ),
]
NewEdges = Annotated[
    str | None,
    _option(
        "--edges",
        metavar="FILE",
        help="The edges of these rows, if the artifact was fitted with --edges that did not know them.",
        rich_help_panel=METHOD,
    ),
]
EvaluatedEdges = Annotated[
    str | None,
    _option(
        "--edges",
        metavar="FILE",
        help="Pairs of ids, of rows that are linked: for the metric tv, and for artifacts that were fitted with edges.",
        rich_help_panel=CHECK,
    ),
]
Exact = Annotated[
    bool,
    _option("--exact", help="Let outputs be exactly 0 or 1 where the method says so.", rich_help_panel=METHOD),
]
PriorShift = Annotated[
    str | None,
    _option(
        "--prior-shift",
        metavar="RATE",
        help="The share of positives where the scores will be used, if it differs; else a=RATE,b=RATE,...",
        rich_help_panel=METHOD,
    ),
]

# Check

With = Annotated[
    list[str] | None,
    _option(
        "--with",
        metavar="[NAME=]DIR",
        help="An artifact to measure beside the raw score; can be given several times.",
        rich_help_panel=CHECK,
    ),
]
Scores = Annotated[
    list[str] | None,
    _option(
        "--score",
        metavar="[NAME=]COLUMN",
        help="A column of calibrated probabilities to measure beside the raw score; can be given several times. Of "
        "more than two classes, the stem of COLUMN_<class>.",
        rich_help_panel=CHECK,
    ),
]
Holdout = Annotated[
    str | None,
    _option(
        "--holdout",
        metavar="SCHEME",
        help="cv:5 (folds), 0.1 (a share of the rows) or none. By default cv:5 up to a million rows, 0.1 above.",
        rich_help_panel=CHECK,
    ),
]
Guard = Annotated[
    str | None,
    _option(
        "--guard",
        metavar="METRIC",
        help="A metric that must not get worse on held-out rows; if it does, nothing is kept and the exit code is 1.",
        autocompletion=complete.metric,
        rich_help_panel=CHECK,
    ),
]
Strict = Annotated[
    bool,
    _option(
        "--strict",
        help="Replace only if the difference's 95 % interval shows that it is not worse.",
        rich_help_panel=CHECK,
    ),
]
Folds = Annotated[
    int,
    _option(
        "--folds",
        metavar="N",
        min=2,
        help="In how many parts rows are predicted from the others.",
        rich_help_panel=CHECK,
    ),
]
ResampleBy = Annotated[
    str | None,
    _option(
        "--resample-by",
        metavar="COLUMN",
        help="Rows that agree in it belong together: they are drawn together, and never on both sides of a split.",
        rich_help_panel=CHECK,
    ),
]
OrderBy = Annotated[
    str | None,
    _option(
        "--order-by",
        metavar="COLUMN",
        help="A time: rows are predicted from those before them.",
        rich_help_panel=CHECK,
    ),
]
Metrics = Annotated[
    str,
    _option(
        "--metrics",
        metavar="A,B,...",
        help="default, all, or names; `calcli metrics` lists them.",
        show_default=False,
        autocompletion=complete.metrics,
        rich_help_panel=CHECK,
    ),
]
Bins = Annotated[
    int,
    _option("--bins", metavar="N", min=1, help="How many bins there are.", rich_help_panel=CHECK),
]
Binning = Annotated[
    Literal["width", "mass"],
    _option("--binning", metavar="width|mass", help="Bins of equal width, or of equal weight.", rich_help_panel=CHECK),
]
Kind = Annotated[
    Literal["reliability", "smooth", "rejection"],
    _option(
        "--kind",
        metavar="KIND",
        help="reliability: bars; smooth: a curve in their place; rejection: how often the rest is wrong when the least "
        "sure rows are left out.",
        rich_help_panel=CHECK,
    ),
]
Class = Annotated[
    list[str] | None,
    _option(
        "--class",
        metavar="NAME|top|all",
        help="Whose probability: a class, top for the predicted one, all for each; can be given several times. By "
        "default the positive class of two, top of more.",
        rich_help_panel=CHECK,
    ),
]
Bands = Annotated[
    Literal["consistency", "bootstrap", "none"],
    _option(
        "--bands",
        metavar="KIND",
        help="consistency: where 95 % of a calibrated score's points would be; bootstrap: where those of as many rows "
        "drawn anew would be; none.",
        rich_help_panel=CHECK,
    ),
]
Html = Annotated[
    str | None,
    _option(
        "--html",
        metavar="FILE",
        help="Write the report as one page too, with its pictures; it needs nothing else.",
        rich_help_panel=OUTPUT,
    ),
]
Rejection = Annotated[
    bool,
    _option(
        "--rejection",
        help="Say how often the rest is wrong when the least sure rows are left out.",
        rich_help_panel=CHECK,
    ),
]
Convention = Annotated[
    str,
    _option(
        "--convention",
        metavar="NAME",
        help="Whose bins the ECE family has: sklearn, netcal, torchmetrics, mcgrad, relplot, mapie, ...",
        rich_help_panel=CHECK,
    ),
]
Mvce = Annotated[
    Literal["closed", "sampled"],
    _option(
        "--mvce",
        metavar="closed|sampled",
        help="MVCE in closed form where that holds, or by shuffling.",
        rich_help_panel=CHECK,
    ),
]
InSample = Annotated[
    bool,
    _option("--in-sample", help="The score was fitted on these very rows: tests allow for it.", rich_help_panel=CHECK),
]
Bootstrap = Annotated[
    int,
    _option(
        "--bootstrap",
        metavar="N",
        min=0,
        help="Draw the rows anew so often, for 95 % intervals of every metric; 0 is never.",
        rich_help_panel=CHECK,
    ),
]
By = Annotated[
    str | None,
    _option(
        "--by", metavar="A,B,...", help="Columns; the metrics are shown within each group too.", rich_help_panel=CHECK
    ),
]
Baseline = Annotated[
    str | None,
    _option(
        "--baseline",
        metavar="FILE",
        help="A report that was written before with --format json: every number is shown beside it.",
        rich_help_panel=CHECK,
    ),
]
Drift = Annotated[
    str | None,
    _option(
        "--drift",
        metavar="ARTIFACT",
        help="Has its calibration moved since the fit? If it has, exit with 1; to be asked every night.",
        rich_help_panel=CHECK,
    ),
]
DriftState = Annotated[
    str | None,
    _option(
        "--state",
        metavar="FILE",
        help="Where --drift keeps what it knows between the nights; ARTIFACT.drift.json by default.",
        rich_help_panel=CHECK,
    ),
]
ClustersFrom = Annotated[
    str | None,
    _option(
        "--clusters-from",
        metavar="COLUMN",
        help="What CECE has for bins; else the clusters of a CCL artifact, or clusters of the features.",
        rich_help_panel=CHECK,
    ),
]
FailIf = Annotated[
    list[str] | None,
    _option(
        "--fail-if",
        metavar="EXPR",
        help="Exit with 1 if it is true, as in 'nll > 0.31', 'ece.diff > 0' (beside the raw score) or 'nll.change > 0' "
        "(since the baseline); can be given several times.",
        autocompletion=complete.gate,
        rich_help_panel=CHECK,
    ),
]
AllowNull = Annotated[
    bool,
    _option("--allow-null", help="Let --fail-if pass over a number that is not defined.", rich_help_panel=CHECK),
]
Seed = Annotated[
    int,
    _option("--seed", metavar="N", help="Of all that is drawn by chance.", rich_help_panel=CHECK),
]

# Output

Keep = Annotated[
    str | None,
    _option(
        "--keep",
        metavar="A,B,...|none",
        help="The input columns to pass through; all of them by default.",
        rich_help_panel=OUTPUT,
    ),
]
ArtifactOutput = Annotated[
    str | None,
    _option(
        "-o",
        "--output",
        metavar="DIR",
        help="Where to keep the artifact; <name of DATA>.<method> by default.",
        rich_help_panel=OUTPUT,
    ),
]
TableOutput = Annotated[
    str,
    _option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write the table; - is stdout.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
PictureOutput = Annotated[
    str | None,
    _option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to draw, by its suffix a .png, .svg, .pdf or .html; - is stdout. By default on the terminal.",
        rich_help_panel=OUTPUT,
    ),
]
PictureFormat = Annotated[
    str | None,
    _option(
        "--output-format",
        metavar="FORMAT",
        help="png, svg, pdf or html, where the suffix does not tell.",
        autocompletion=complete.pictures,
        rich_help_panel=OUTPUT,
    ),
]
OutputFormat = Annotated[
    str | None,
    _option(
        "--output-format",
        metavar="FORMAT",
        help="parquet, csv, tsv, ipc or ndjson, where the suffix does not tell.",
        autocompletion=complete.tables,
        rich_help_panel=OUTPUT,
    ),
]
Select = Annotated[
    str | None,
    _option(
        "--select",
        metavar="DIR",
        help="Fit the chosen method on all rows, and keep it here.",
        rich_help_panel=OUTPUT,
    ),
]
Rollback = Annotated[
    bool,
    _option("--rollback", help="Put the previous generation back, and stop.", rich_help_panel=OUTPUT),
]
Scale = Annotated[
    Literal["prob", "logit"],
    _option(
        "--as",
        metavar="prob|logit",
        help="What the added column holds: a probability, or its log-odds.",
        rich_help_panel=OUTPUT,
    ),
]
Extra = Annotated[
    bool,
    _option(
        "--extra",
        help="Add the log-odds too, and an interval or the cluster where the method has one.",
        rich_help_panel=OUTPUT,
    ),
]
Column = Annotated[
    str,
    _option("--column", metavar="NAME", help="The name of the column that is added.", rich_help_panel=OUTPUT),
]
Format = Annotated[
    Literal["table", "json", "csv", "markdown"],
    _option(
        "--format",
        metavar="FORMAT",
        help="How to answer: table, json, csv or markdown.",
        rich_help_panel=OUTPUT,
    ),
]
TableOrJson = Annotated[
    Literal["table", "json"],
    _option(
        "--format",
        metavar="FORMAT",
        help="How to answer: table or json.",
        rich_help_panel=OUTPUT,
    ),
]
To = Annotated[
    Literal["sql", "json"],
    _option("--to", metavar="sql|json", help="The language.", rich_help_panel=OUTPUT),
]
Dialect = Annotated[
    str,
    _option(
        "--dialect",
        metavar="NAME",
        help="Of SQL: duckdb, postgres, spark, bigquery, snowflake, and what else sqlglot knows.",
        autocompletion=complete.dialects,
        rich_help_panel=OUTPUT,
    ),
]
Shape = Annotated[
    Literal["expression", "query"],
    _option(
        "--shape",
        metavar="expression|query",
        help="An expression for each added column, or a SELECT from --table that computes no part of it twice.",
        rich_help_panel=OUTPUT,
    ),
]
Table = Annotated[
    str | None,
    _option("--table", metavar="NAME", help="Where a query finds the rows.", rich_help_panel=OUTPUT),
]
Rules = Annotated[
    bool,
    _option("--rules", help="Show all that was learned: rules, leaves, clusters.", rich_help_panel=OUTPUT),
]
DryRun = Annotated[
    bool,
    _option("--dry-run", help="Show which column plays which part, and stop.", rich_help_panel=OUTPUT),
]

# Where the work is done

Engine = Annotated[
    Literal["local", "spark"],
    _option(
        "--engine",
        metavar="local|spark",
        help="This machine, or a Spark cluster over a directory of Parquet files.",
        rich_help_panel=OUTPUT,
    ),
]
Master = Annotated[
    str | None,
    _option("--master", metavar="URL", help="Of the Spark cluster, as spark://HOST:7077.", rich_help_panel=OUTPUT),
]

# Uncertainty

EnsembleDir = Annotated[
    str,
    typer.Argument(metavar="ENSEMBLE", help="The directory that `calcli uncertainty fit` made.", rich_help_panel=INPUT),
]
Outcome = Annotated[
    str | None,
    _option(
        "--label",
        metavar="COLUMN",
        help="The class or the amount that each row turned out to have.",
        rich_help_panel=COLUMNS,
    ),
]
Task = Annotated[
    Literal["class", "regression"] | None,
    _option(
        "--task",
        metavar="class|regression",
        help="What the label is; whole numbers of at most 50 different values are classes by default.",
        rich_help_panel=COLUMNS,
    ),
]
EnsembleKind = Annotated[
    Literal["sglb", "sgb", "virtual"] | None,
    _option(
        "--ensemble",
        metavar="KIND",
        help="sglb: models sampled from the posterior; sgb: models on random halves of the rows; virtual: one sglb "
        "model, cut at several numbers of trees. sglb by default.",
        rich_help_panel=METHOD,
    ),
]
MemberCount = Annotated[
    int, _option("--members", metavar="N", help="How many members the ensemble has.", rich_help_panel=METHOD)
]
Trees = Annotated[
    int | None,
    _option("--trees", metavar="N", min=1, help="Of each model; 1000 by default.", rich_help_panel=METHOD),
]
Depth = Annotated[
    int | None,
    _option("--depth", metavar="N", help="Of each tree, up to 16; 6 by default.", rich_help_panel=METHOD),
]
LearningRate = Annotated[
    float | None,
    _option(
        "--learning-rate",
        metavar="RATE",
        help="By how much each tree moves the prediction; CatBoost's choice by default.",
        rich_help_panel=METHOD,
    ),
]
Tune = Annotated[
    bool,
    _option(
        "--tune",
        help="Choose learning rate (0.001, 0.01, 0.1) and depth (3 to 6) by the log-loss on held-out rows.",
        rich_help_panel=METHOD,
    ),
]
OwnModel = Annotated[
    str | None,
    _option(
        "--model",
        metavar="FILE",
        help="A CatBoost model of yours (.cbm), to take as a virtual ensemble: nothing is trained.",
        rich_help_panel=METHOD,
    ),
]
EnsembleOutput = Annotated[
    str | None,
    _option(
        "-o",
        "--output",
        metavar="DIR",
        help="Where to keep the ensemble; <name of DATA>.<kind> by default.",
        rich_help_panel=OUTPUT,
    ),
]
MoreMeasures = Annotated[
    bool,
    _option(
        "--extra",
        help="Add two more measures of disagreement: epkl, and for classes rmi.",
        rich_help_panel=OUTPUT,
    ),
]
WithEnsemble = Annotated[
    list[str] | None,
    _option(
        "--with",
        metavar="[NAME=]DIR",
        help="An ensemble to measure; can be given several times.",
        rich_help_panel=INPUT,
    ),
]
Ood = Annotated[
    str | None,
    _option(
        "--ood",
        metavar="FILE",
        help="Rows from out of the domain, with the same features: are they found?",
        rich_help_panel=CHECK,
    ),
]
MakeOod = Annotated[
    str | None,
    _option(
        "--make-ood",
        metavar="FILE",
        help="Make such rows: the numbers of this other table, at the scale of the rows trained on.",
        rich_help_panel=CHECK,
    ),
]
OodPreset = Annotated[
    Literal["paper"] | None,
    _option(
        "--preset",
        metavar="paper",
        help="With --make-ood: its first rows, at the scale of DATA, as in the authors' code.",
        rich_help_panel=CHECK,
    ),
]
RejectionPicture = Annotated[
    str | None,
    _option(
        "-o",
        "--output",
        metavar="FILE",
        help="Draw what is left of the errors as rows are rejected, by its suffix a .png, .svg or .pdf.",
        rich_help_panel=OUTPUT,
    ),
]
MemberStem = Annotated[
    str,
    _option(
        "--members",
        metavar="STEM",
        help="The columns STEM_<m>, a probability or a mean, or STEM_<m>_<class>.",
        show_default=False,
        rich_help_panel=COLUMNS,
    ),
]
Variances = Annotated[
    str | None,
    _option(
        "--variances",
        metavar="STEM",
        help="The columns STEM_<m> with each member's variance, where amounts are predicted.",
        rich_help_panel=COLUMNS,
    ),
]

# What every command has

Threads = Annotated[
    int | None,
    _option("--threads", metavar="N", min=1, help="At most so many; all by default.", callback=_limit_threads),
]
Quiet = Annotated[bool, _option("-q", "--quiet", help="Only warnings and errors on stderr.")]
Debug = Annotated[bool, _option("--debug", help="Show where an error comes from.")]
NoColor = Annotated[bool, _option("--no-color", help="No colours; NO_COLOR does the same everywhere.")]
