"""Every option of the command line, once, and the groups of options that commands share.

Each option can also be given as ``CALCLI_<OPTION>`` in the environment; the command line wins.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Literal

from calcli.cli import complete
from calcli.cli.arguments import names, names_or_empty, names_or_none, settings
from calcli.cli.environment import THREAD_VARIABLES
from calcli.cli.screen import is_terminal
from calcli.cli.signature import REQUIRED, argument, option
from calcli.errors import UsageError
from calcli.numeric.threads import processors

source = partial(option, "Input")
column = partial(option, "Columns")
method = partial(option, "Method")
check = partial(option, "Check")
output = partial(option, "Output")
general = partial(option, None)


def _piped(data: list[str] | None) -> list[str]:
    """The same paths; refuses a terminal as standard input, because waiting for a typed table looks like hanging."""
    if data and "-" in data and is_terminal(sys.stdin):
        raise UsageError("- is standard input, which is a terminal here", hint="pipe a table into it, or name a file")
    return data or []


def _limit_threads(count: int | None) -> int | None:
    """The same number, set in the environment, where polars, OpenMP and numba read it when they are imported.

    More threads than processors only wait for each other: `Arguments.console` says that there are fewer.
    """
    if count is not None:
        for name in THREAD_VARIABLES:
            os.environ[name] = str(min(count, processors()))
    return count


# Input
DATA = argument(
    "DATA...",
    "Files, globs, directories; - is stdin. Parquet, CSV, TSV, Arrow IPC, NDJSON or JSON; .gz and .zst are unpacked.",
    kind=list[str],
    callback=_piped,
)
DATA_OR_NONE = DATA._replace(kind=list[str] | None, default=None)
ARTIFACT = argument("ARTIFACT", "The directory that `calcli fit` made.")
ARTIFACT_OR_NONE = ARTIFACT._replace(kind=str | None, default=None)
INPUT_FORMAT = source(
    "--input-format FORMAT",
    "parquet, csv, tsv, ipc, ndjson or json, where suffixes do not tell.",
    complete=complete.tables,
)
DELIMITER = source("--delimiter LETTER", "What stands between the fields of CSV, where the first line does not tell.")
BAD_ROWS = source(
    "--bad-rows fail|null",
    "Rows without a finite score, or without a label or weight: refuse the table, or go on without them.",
    "fail",
    kind=Literal["fail", "null"],
)

# Columns
LABEL = column("--label COLUMN", "The class that each row turned out to have.")
PROB = column("--prob COLUMN", "The score as a probability; of more than two classes, the stem of COLUMN_<class>.")
LOGIT = column("--logit COLUMN", "The score as log-odds or logits, likewise.")
FEATURES = column("--features A,B,...", "What the method may look at.", convert=names)
IGNORE = column("--ignore A,B,...", "Columns to leave out of everything.", convert=names_or_empty)
WEIGHT = column("--weight COLUMN", "How much each row counts; none is found by its name.")
WEIGHT_KIND = column(
    "--weight-kind KIND",
    "counts: how many rows each stands for, as if it were there so often; importance: how much it matters beside "
    "others. By default that of the artifact, or importance.",
    kind=Literal["counts", "importance"] | None,
)
POSITIVE = column("--positive LABEL", "The class that the score speaks of.")
CLASSES = column("--classes A,B,...", "All classes, in order.", convert=names)
NODE_ID = column("--node-id COLUMN", "The id by which --edges knows the row.")

# Method
METHOD = method(
    "-m --method NAME",
    "How to calibrate; `calcli methods` lists them. auto compares several, no calibration among them.",
    "auto",
    complete=complete.methods,
)
SET = method(
    "--set KEY=VALUE",
    "A parameter of the method; can be given several times. `calcli methods NAME` lists them.",
    field="params",
    kind=list,
    convert=settings,
    complete=complete.settings,
)
PRESET = method("--preset NAME", "Parameters that were chosen together.", complete=complete.presets)
METHODS = method(
    "--methods A,B,...", "all, or names; `calcli methods` lists them.", "all", complete=complete.method_list
)
BUDGET = method(
    "--budget SECONDS",
    "Leave out the methods that are not compared by then; no limit by default.",
    kind=float,
    min=0,
    max=10**9,
)
CRITERION = method(
    "--criterion METRIC",
    "The metric by which a method is chosen: nll or brier, never a calibration error.",
    "nll",
    complete=complete.metric,
)
MODEL = method(
    "--model FILE",
    "The model that made the scores, as CatBoost, XGBoost or LightGBM wrote it, for methods that look inside.",
)
PARTITION_DATA = method(
    "--partition-data FILE",
    "Rows with labels to learn a partition from: those that the model was trained on, as a rule.",
)
EMBEDDING_DATA = method(
    "--embedding-data FILE", "Rows to cluster together with DATA: those that the model was trained on, as a rule."
)
EDGES = method("--edges FILE", "Pairs of ids, of rows that are linked, for methods that relate rows; needs --node-id.")
NEW_EDGES = method(
    "--edges FILE", "The edges of these rows, if the artifact was fitted with --edges that did not know them."
)
EVALUATED_EDGES = check(
    "--edges FILE",
    "Pairs of ids, of rows that are linked: for the metric tv, and for artifacts that were fitted with edges.",
)
EXACT = method("--exact", "Let outputs be exactly 0 or 1 where the method says so.", False)
PRIOR_SHIFT = method(
    "--prior-shift RATE", "The share of positives where the scores will be used, if it differs; else a=RATE,b=RATE,..."
)

# Check
WITH = check(
    "--with [NAME=]DIR",
    "An artifact to measure beside the raw score; can be given several times.",
    field="artifacts",
    kind=list,
)
SCORES = check(
    "--score [NAME=]COLUMN",
    "A column of calibrated probabilities to measure beside the raw score; can be given several times. Of more than "
    "two classes, the stem of COLUMN_<class>.",
    field="scores",
    kind=list,
)
VERSUS = check(
    "--versus NAME", "One of these scores: the differences of the others from it are shown too, with their intervals."
)
HOLDOUT = check(
    "--holdout SCHEME",
    "cv:5 (folds), 0.1 (a share of the rows) or none. By default cv:5 up to a million rows, 0.1 above.",
)
GUARD = check(
    "--guard METRIC",
    "A metric that must not get worse on held-out rows; if it does, nothing is kept and the exit code is 1.",
    complete=complete.metric,
)
REFIT_GUARD = GUARD._replace(default="nll")
STRICT = check("--strict", "Replace only if the difference's 95 % interval shows that it is not worse.", False)
FOLDS = check("--folds N", "In how many parts rows are predicted from the others.", 5, min=2, max=10_000)
RESAMPLE_BY = check(
    "--resample-by COLUMN",
    "Rows that agree in it belong together: they are drawn together, and never on both sides of a split.",
)
ORDER_BY = check("--order-by COLUMN", "A time: rows are predicted from those before them.")
METRICS = check(
    "--metrics A,B,...",
    "default, all, or names; `calcli metrics` lists them.",
    "default",
    complete=complete.metrics,
    show_default=False,
)
BINS = check("--bins N", "How many bins there are.", 15, min=1, max=100_000)
BINNING = check(
    "--binning width|mass", "Bins of equal width, or of equal weight.", "width", kind=Literal["width", "mass"]
)
KIND = check(
    "--kind KIND",
    "reliability: bars; smooth: a curve in their place; rejection: how often the rest is wrong when the least sure "
    "rows are left out.",
    "reliability",
    kind=Literal["reliability", "smooth", "rejection"],
)
CLASS = check(
    "--class NAME|top|all",
    "Whose probability: a class, top for the predicted one, all for each; can be given several times. By default the "
    "positive class of two, top of more.",
    field="chosen",
    kind=list,
)
BANDS = check(
    "--bands KIND",
    "consistency: where 95 % of a calibrated score's points would be; bootstrap: where those of as many rows drawn "
    "anew would be; none.",
    "consistency",
    kind=Literal["consistency", "bootstrap", "none"],
)
HTML = output("--html FILE", "Write the report as one page too, with its pictures; it needs nothing else.")
REJECTION = check("--rejection", "Say how often the rest is wrong when the least sure rows are left out.", False)
CONVENTION = check(
    "--convention NAME",
    "Whose bins the ECE family has: sklearn, netcal, torchmetrics, mcgrad, relplot, mapie, ...",
    "sklearn",
)
MVCE = check(
    "--mvce closed|sampled",
    "MVCE in closed form where that holds, or by shuffling.",
    "closed",
    kind=Literal["closed", "sampled"],
)
IN_SAMPLE = check("--in-sample", "The score was fitted on these very rows: tests allow for it.", False)
BOOTSTRAP = check(
    "--bootstrap N",
    "Draw the rows anew so often, for 95 % intervals of every metric; 0 is never.",
    0,
    min=0,
    max=1_000_000,
)
BY = check(
    "--by A,B,...", "Columns; the rows with each of their values are shown by themselves.", convert=names_or_empty
)
BASELINE = check(
    "--baseline FILE", "A report that was written before with --format json: every number is shown beside it."
)
DRIFT = check(
    "--drift ARTIFACT", "Has its calibration moved since the fit? If it has, exit with 1; to be asked every night."
)
DRIFT_STATE = check(
    "--state FILE", "Where --drift keeps what it knows between the nights; ARTIFACT.drift.json by default."
)
CLUSTERS_FROM = check(
    "--clusters-from COLUMN",
    "What CECE has for bins; else the clusters of a CCL artifact, or clusters of the features.",
)
FAIL_IF = check(
    "--fail-if EXPR",
    "Exit with 1 if it is true, as in 'nll > 0.31', 'ece.diff > 0' (beside the raw score) or 'nll.change > 0' (since "
    "the baseline); can be given several times.",
    kind=list,
    complete=complete.gate,
)
ALLOW_NULL = check("--allow-null", "Let --fail-if pass over a number that is not defined.", False)
SEED = check("--seed N", "Of all that is drawn by chance.", 0, min=0, max=2**63 - 1)

# Output
KEEP = output(
    "--keep A,B,...|none", "The input columns to pass through; all of them by default.", convert=names_or_none
)
ARTIFACT_OUTPUT = output("-o --output DIR", "Where to keep the artifact; <name of DATA>.<method> by default.")
TABLE_OUTPUT = output("-o --output FILE", "Where to write the table; - is stdout.", REQUIRED)
PICTURE_OUTPUT = output(
    "-o --output FILE",
    "Where to draw, by its suffix a .png, .svg, .pdf or .html; - is stdout. By default on the terminal.",
)
PICTURE_FORMAT = output(
    "--output-format FORMAT",
    "png, svg, pdf or html, where the suffix does not tell.",
    variable="CALCLI_DIAGRAM_OUTPUT_FORMAT",
    complete=complete.pictures,
)
OUTPUT_FORMAT = output(
    "--output-format FORMAT",
    "parquet, csv, tsv, ipc, ndjson or json, where the suffix does not tell; on stdout that of DATA by default.",
    complete=complete.tables,
)
SELECT = output("--select DIR", "Fit the chosen method on all rows, and keep it here.")
ROLLBACK = output("--rollback", "Put the previous generation back, and stop.", False)
SCALE = output(
    "--as prob|logit",
    "What the added column holds: a probability, or its log-odds.",
    "prob",
    field="scale",
    kind=Literal["prob", "logit"],
)
EXTRA = output("--extra", "Add the log-odds too, and an interval or the cluster where the method has one.", False)
COLUMN = output("--column NAME", "The name of the column that is added.", "calibrated")
FORMAT = output(
    "--format FORMAT",
    "How to answer: table, json, csv or markdown.",
    "table",
    field="form",
    kind=Literal["table", "json", "csv", "markdown"],
)
TABLE_OR_JSON = output(
    "--format FORMAT", "How to answer: table or json.", "table", field="form", kind=Literal["table", "json"]
)
TO = output("--to sql|json|onnx", "The language.", "sql", kind=Literal["sql", "json", "onnx"])
DIALECT = output(
    "--dialect NAME",
    "Of SQL: duckdb, postgres, spark, bigquery, snowflake, and what else --dialects lists.",
    "duckdb",
    complete=complete.dialects,
)
SHAPE = output(
    "--shape auto|expression|query",
    "An expression for each added column, or a SELECT from --table that computes no part of it twice. By default a "
    "query where --table names one.",
    "auto",
    kind=Literal["auto", "expression", "query"],
)
DIALECTS = output("--dialects", "List the dialects, and on which engines their statements are tested.", False)
CHECK_ROWS = output(
    "--check N",
    "Write a statement that brings N rows and gives those that are not as expected.",
    field="check",
    kind=int | None,
    min=1,
    max=10_000,
)
TABLE = output("--table NAME", "Where a query finds the rows.")
RULES = output("--rules", "Show all that was learned: rules, leaves, clusters.", False)
DRY_RUN = output("--dry-run", "Show which column plays which part, and stop.", False)
ENGINE = output(
    "--engine local|spark",
    "This machine, or a Spark cluster over a directory of Parquet files.",
    "local",
    kind=Literal["local", "spark"],
)
MASTER = output("--master URL", "Of the Spark cluster, as spark://HOST:7077.")

# Uncertainty
ENSEMBLE_DIR = argument("ENSEMBLE", "The directory that `calcli uncertainty fit` made.")
OUTCOME = column("--label COLUMN", "The class or the amount that each row turned out to have.")
TASK = column(
    "--task class|regression",
    "What the label is; whole numbers of at most 50 different values are classes by default.",
    kind=Literal["class", "regression"] | None,
)
ENSEMBLE_KIND = method(
    "--ensemble KIND",
    "sglb: models sampled from the posterior; sgb: models on random halves of the rows; virtual: one sglb model, cut "
    "at several numbers of trees. sglb by default.",
    kind=Literal["sglb", "sgb", "virtual"] | None,
)
MEMBER_COUNT = method(
    "--members N",
    "How many members the ensemble has.",
    10,
    min=2,
    max=10_000,
    variable="CALCLI_UNCERTAINTY_FIT_MEMBERS",
)
TREES = method("--trees N", "Of each model; 1000 by default.", kind=int | None, min=1, max=1_000_000)
DEPTH = method("--depth N", "Of each tree, up to 16; 6 by default.", kind=int | None, min=1, max=16)
LEARNING_RATE = method(
    "--learning-rate RATE",
    "By how much each tree moves the prediction; CatBoost's choice by default.",
    kind=float | None,
    min=0,
    max=1,
)
TUNE = method(
    "--tune", "Choose learning rate (0.001, 0.01, 0.1) and depth (3 to 6) by the log-loss on held-out rows.", False
)
OWN_MODEL = method(
    "--model FILE",
    "A CatBoost model of yours (.cbm), to take as a virtual ensemble: nothing is trained.",
    variable="CALCLI_UNCERTAINTY_FIT_MODEL",
)
ENSEMBLE_OUTPUT = output("-o --output DIR", "Where to keep the ensemble; <name of DATA>.<kind> by default.")
MORE_MEASURES = output("--extra", "Add two more measures of disagreement: epkl, and for classes rmi.", False)
WITH_ENSEMBLE = source(
    "--with [NAME=]DIR",
    "An ensemble to measure; can be given several times.",
    field="ensembles",
    variable="CALCLI_UNCERTAINTY_EVALUATE_WITH",
    kind=list,
)
OOD = check("--ood FILE", "Rows from out of the domain, with the same features: are they found?")
MAKE_OOD = check(
    "--make-ood FILE", "Make such rows: the numbers of this other table, at the scale of the rows trained on."
)
OOD_PRESET = check(
    "--preset paper",
    "With --make-ood: its first rows, at the scale of DATA, as in the authors' code.",
    variable="CALCLI_UNCERTAINTY_EVALUATE_PRESET",
    kind=Literal["paper"] | None,
)
REJECTION_PICTURE = output(
    "-o --output FILE", "Draw what is left of the errors as rows are rejected, by its suffix a .png, .svg or .pdf."
)
MEMBER_STEM = column(
    "--members STEM",
    "The columns STEM_<m>, a probability or a mean, or STEM_<m>_<class>.",
    REQUIRED,
    variable="CALCLI_UNCERTAINTY_DECOMPOSE_MEMBERS",
)
VARIANCES = column("--variances STEM", "The columns STEM_<m> with each member's variance, where amounts are predicted.")

# What every command has
THREADS = general(
    "--threads N",
    "At most so many; all by default.",
    kind=int | None,
    min=1,
    max=1_000_000,
    callback=_limit_threads,
)
QUIET = general("-q --quiet", "Only warnings and errors on stderr.", False)
DEBUG = general("--debug", "Show where an error comes from.", False)
NO_COLOR = general("--no-color", "No colours; NO_COLOR does the same everywhere.", False)

# Groups

READING = (DATA, INPUT_FORMAT, DELIMITER, BAD_ROWS)
COLUMNS = (LABEL, PROB, LOGIT, WEIGHT, WEIGHT_KIND, POSITIVE, CLASSES, FEATURES, IGNORE)
SIDES = (MODEL, PARTITION_DATA, EMBEDDING_DATA, EDGES)
BINNED = (BINS, BINNING)
CLUSTER = (ENGINE, MASTER)
GENERAL = (THREADS, QUIET, NO_COLOR, DEBUG)
