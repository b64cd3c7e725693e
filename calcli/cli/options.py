"""The options that several commands share, and those of calibrators: each once; and groups of options.

Each option can also be given as ``CALCLI_<OPTION>`` in the environment; the command line wins.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from calcli.cli import arguments as to
from calcli.cli import complete
from calcli.cli.arguments import REQUIRED, argument, option

source = partial(option, "Input")
column = partial(option, "Columns")
method = partial(option, "Method")
check = partial(option, "Check")
output = partial(option, "Output")
general = partial(option, None)


# Input
DATA = argument(
    "DATA...",
    "Files, globs, directories, URLs; - is stdin. Parquet, CSV, TSV, Arrow IPC, NDJSON, JSON; .gz, .zst are unpacked.",
    kind=list[str],
    callback=to.piped,
)
DATA_OR_NONE = DATA._replace(kind=list[str] | None, default=None)
ARTIFACT = argument("ARTIFACT", "The directory that `calcli fit` made.")
ARTIFACT_OR_NONE = ARTIFACT._replace(kind=str | None, default=None)
INPUT_FORMAT = source(
    "--input-format FORMAT",
    "parquet, csv, tsv, ipc, ndjson or json, if the suffix does not say.",
    complete=complete.tables,
)
DELIMITER = source("--delimiter LETTER", "The field separator of CSV; by default found in the first line.")
QUERY = source(
    "--query SQL",
    "Read the rows of this SQL query; DATA is postgresql://…, sqlite:///FILE, duckdb:///FILE, or the URL of a database "
    "that ADBC has a driver for, such as snowflake://….",
)
DATA_TABLE = source(
    "--table NAME", "A table of a database: the one to read or, where -o is a database, the one to write."
)
STORAGE_OPTION = source(
    "--storage-option KEY=VALUE",
    "A setting of an object store, beside its environment variables and files; repeatable.",
    kind=list,
    convert=to.storage,
)
BAD_ROWS = source(
    "--bad-rows fail|null",
    "Rows without a finite score, a label or a weight: fail refuses the table; null leaves them out (apply: writes "
    "null for them).",
    "fail",
)
REFIT_BAD_ROWS = source(
    "--bad-rows fail|null",
    "Rows without a finite score, a label or a weight: fail refuses the table; null leaves them out. By default as in "
    "the fit.",
)
METHOD_OR_NONE = argument(
    "[NAME]", "One method, with its parameters.", None, kind=str | None, autocompletion=complete.methods
)
METRIC_OR_NONE = argument("[NAME]", "One metric.", None, kind=str | None, autocompletion=complete.metric)

# Columns
LABEL = column("--label COLUMN", "The observed class of each row; of two classes also shares between 0 and 1.")
PROB = column(
    "--prob COLUMN",
    "The predicted probability; for more than two classes, what the column names have before _<class>, or a column of "
    "lists, arrays or structs.",
)
LOGIT = column(
    "--logit COLUMN",
    "The predicted log-odds; for more than two classes, the logits: what the column names have before _<class>, or a "
    "column of lists, arrays or structs.",
)
LOGPROB = column("--logprob COLUMN", "The natural logarithm of the predicted probability.")
PERCENT = column("--percent COLUMN", "The predicted probability in percent: 87, or the text 87 %.")
RANK = column("--rank COLUMN", "A number that only ranks, such as a grade; larger is likelier.")
DESCENDING = column("--descending", "With --rank: smaller is likelier, as with a distance.", False)
POSITIVES = column("--positives COLUMN", "How many of the --trials of a row were positive, in place of --label.")
TRIALS = column("--trials COLUMN", "How many trials a row stands for, such as impressions.")
MULTI = column(
    "--multi LABELS SCORES",
    "Several labels, each with a score: patterns with one *, 'label_*' 'score_*', that stands for the same in both. "
    "Scores below 0 are log-odds.",
    kind=tuple[str, str] | None,
)
FEATURES = column("--features A,B,...", "The features that the method may use.", convert=to.names)
IGNORE = column("--ignore A,B,...", "Columns to ignore.", convert=to.names_or_empty)
CATEGORIES = column(
    "--categories A,B,...",
    "Features whose numbers are names, as ids are; patterns too: 'site_*'. By default text, and integers whose values "
    "say more than their order does.",
    convert=to.names_or_empty,
)
NUMBERS = column("--numbers A,B,...", "Features that are quantities; patterns too.", convert=to.names_or_empty)
WEIGHT = column("--weight COLUMN", "The weight of each row; never found by its name.")
WEIGHT_KIND = column(
    "--weight-kind KIND",
    "counts: the row stands for that many identical rows; importance: only the ratios of weights matter. By default "
    "as in the artifact, or importance.",
    kind=Literal["importance", "counts"] | None,
)
POSITIVE = column("--positive LABEL", "The positive class; the score is its probability.")
CLASSES = column("--classes A,B,...", "All classes, in order.", convert=to.names)
NORMALISE = column(
    "--normalise", "Divide the probabilities of the classes by their sum where it is more than 1 % from 1 too.", False
)
NODE_ID = column("--node-id COLUMN", "The row ids that --edges refers to.")

# Method
METHOD = method(
    "-m --method NAME",
    "The calibration method; `calcli methods` lists them. auto compares several, and no calibration.",
    "auto",
    complete=complete.methods,
)
SET = method(
    "--set KEY=VALUE",
    "A parameter of the method; repeatable. `calcli methods NAME` lists them.",
    field="params",
    kind=list,
    convert=to.settings,
    complete=complete.settings,
)
PRESET = method("--preset NAME", "A named set of parameters.", complete=complete.presets)
METHODS = method(
    "--methods A,B,...", "all, or a list of names; `calcli methods` shows them.", "all", complete=complete.method_list
)
BUDGET = method(
    "--budget SECONDS",
    "Skip the methods that have not finished after this many seconds; no limit by default.",
    kind=float,
    bounds=(0, 10**9),
)
CRITERION = method(
    "--criterion METRIC",
    "The metric that chooses the method: nll, brier, brier_sum, rps or accuracy.",
    "nll",
    complete=complete.metric,
)
FOR = method(
    "--for PURPOSE",
    "What auto must choose by: a formula for sql or onnx, a fit on all rows with spark, the order of the scores kept "
    "(monotone), rules that inspect shows. A line says what that costs.",
    field="purpose",
    kind=Literal["sql", "onnx", "spark", "monotone", "rules"] | None,
)
SIMPLE = method("--simple", "Let auto choose a single method, not a pool of several.", False)
MODEL = method(
    "--model FILE",
    "The model that made the scores, saved by CatBoost, XGBoost or LightGBM, for methods that use its SHAP values or "
    "leaves (ccl).",
)
PARTITION_DATA = method(
    "--partition-data FILE",
    "Labelled rows from which to learn a partition, usually those that the model was trained on.",
)
EMBEDDING_DATA = method(
    "--embedding-data FILE", "Rows to cluster together with DATA, usually those that the model was trained on."
)
EDGES = method("--edges FILE", "Pairs of ids of linked rows, for methods that relate rows; needs --node-id.")
NEW_EDGES = method("--edges FILE", "The edges of these rows, if they were not in the --edges of the fit.")
EVALUATED_EDGES = check(
    "--edges FILE", "Pairs of ids of linked rows, for the metric tv and for artifacts that were fitted with edges."
)
EXACT = method("--exact", "Allow outputs of exactly 0 and 1.", False)
PRIOR_SHIFT = method(
    "--prior-shift RATE", "The base rate in use, if it differs from that of DATA; for more classes a=RATE,b=RATE,..."
)

# Check
WITH = check(
    "--with [NAME=]DIR", "An artifact to compare with the raw score; repeatable.", field="artifacts", kind=list
)
SCORES = check(
    "--score [NAME=]COLUMN",
    "A column of calibrated probabilities to compare with the raw score; repeatable. For more than two classes, the "
    "stem of COLUMN_<class>.",
    field="scores",
    kind=list,
)
VERSUS = check("--versus NAME", "Also show how the other scores differ from this one, with intervals.")
HOLDOUT = check(
    "--holdout SCHEME",
    "How to hold out rows: cv:5 (folds), 0.1 (a share) or none. By default cv:5, but 0.1 above a million rows; for "
    "auto, pool, boost, forest, mbct and ccl cv:5, cv:3 above 20,000 rows and 0.2 above 50,000.",
)
GUARD = check(
    "--guard METRIC",
    "A metric that must not get worse on held-out rows; if it does, nothing is saved and the exit code is 1.",
    complete=complete.metric,
)
REFIT_GUARD = check(
    "--guard METRIC",
    "A metric that must not get worse by more than 0.1 %, against no calibration and the artifact in place.",
    "nll",
    complete=complete.metric,
)
POOL_NIGHTS = check(
    "--pool-nights N",
    "Use only the last N files of DATA, in the order of their names: one file a night.",
    bounds=(1, 10_000),
)
FOLDS = check("--folds N", "The number of cross-validation folds.", 5, bounds=(2, 10_000))
RESAMPLE_BY = check(
    "--resample-by COLUMN",
    "Rows with the same value, such as a user, count as one in intervals and p-values, and stay together in folds.",
)
ORDER_BY = check("--order-by COLUMN", "A time column: each row is predicted only from earlier rows.")
METRICS = check(
    "--metrics A,B,...",
    "default, clinical, all, or a list of names; `calcli metrics` shows them.",
    "default",
    complete=complete.metrics,
    show_default=False,
)
BINS = check(
    "--bins N|auto", "The number of bins; auto is the cube root of the number of rows.", "15", convert=to.count_or_auto
)
BINNING = check("--binning width|mass", "Bins of equal width, or of equal mass.", "width")
KIND = check(
    "--kind KIND",
    "reliability: bars; corp: an isotonic curve, without bins; smooth: a smoothed curve; rejection: the error rate "
    "when the least certain rows are left out; benefit: the net benefit of decisions by each threshold; murphy: the "
    "cost of their mistakes.",
    "reliability",
    kind=Literal["reliability", "corp", "smooth", "rejection", "benefit", "murphy"],
)
of_curves = partial(check, kind=float, only="diagram")
LEAST = of_curves("--from THRESHOLD", "The least threshold of benefit and murphy.", field="least", bounds=(0.0, 1.0))
MOST = of_curves("--to THRESHOLD", "The greatest threshold of benefit and murphy.", field="most", bounds=(0.0, 1.0))
CURVE_COST_FP = of_curves(
    "--cost-fp COST",
    "With --kind benefit: what a false positive costs; the curve is then in money, around the threshold that follows "
    "from both costs.",
    bounds=(0, 1e15),
)
CURVE_COST_FN = of_curves("--cost-fn COST", "What a false negative costs.", bounds=(0, 1e15))
AXIS = check(
    "--axis auto|prob|logit|log",
    "The scale of the axes; auto takes log where nearly all scores are small, and logit where they are near 1.",
    "auto",
)
OVERLAY = check("--overlay", "Draw up to six scores on one axis, each with its name at its line.", False)
CLASS = check(
    "--class NAME|top|all",
    "The class whose probability to draw, or top (the predicted class), or all; repeatable. By default the positive "
    "class of two, top of more.",
    field="chosen",
    kind=list,
)
BANDS = check(
    "--bands KIND",
    "consistency: where 95 % of the points of a calibrated score would lie; bootstrap: 95 % intervals of the observed "
    "rates; none.",
    "consistency",
    kind=Literal["consistency", "bootstrap", "none"],
)
HTML = output("--html FILE", "Also write the report and its diagrams as one self-contained HTML page.")
ORDERED = check("--ordered", "The classes have an order, as severities do: add rps and cumulative_ece.", False)
REJECTION = check("--rejection", "Report the error rate when the least certain rows are left out.", False)
CONVENTION = check(
    "--convention NAME",
    "The package whose binning ECE and related metrics follow: sklearn, netcal, torchmetrics, mcgrad, relplot, mapie, "
    "...",
    "sklearn",
)
MVCE = check(
    "--mvce closed|sampled",
    "Compute MVCE (multi-view calibration error) in closed form where that is exact, or from sampled shuffles.",
    "closed",
)
BIN_SIZE = check(
    "--bin-size ROWS",
    "The rows in a group of MVCE; by default 1000, or a 32nd of fewer than 32,000 rows.",
    bounds=(1, 10**15),
)
IN_SAMPLE = check("--in-sample", "The score was fitted on these rows: adjust the tests for that, or omit them.", False)
BOOTSTRAP = check(
    "--bootstrap N",
    "The number of bootstrap samples for 95 % intervals of every metric; 0 is none.",
    0,
    bounds=(0, 1_000_000),
)
BY = check(
    "--by A,B,...",
    "Columns whose groups are reported separately; numbers in bins (age:10), dates by hour, day, week, month or year "
    "(when:month), and crosses (device*country).",
    convert=to.names_or_empty,
)
FIND_SEGMENTS = check(
    "--find-segments N",
    "Find up to N segments of each score, such as 'device = tablet and age > 54', in which it is wrong; 5 where no N "
    "is given.",
    0,
    bounds=(0, 50),
    show_default=False,
)
AUDIT = check(
    "--audit",
    "Find segments, trace every curve, and measure on held-out rows what a fit by the default method would gain; with "
    "--html, the page for a review.",
    False,
)
OF_CLASS = check(
    "--class NAME",
    "The class whose segments are found; by default the positive one of two, the predicted one of more.",
    field="of_class",
    only="evaluate",
)
BASELINE = check("--baseline FILE", "An earlier report (--format json) to compare every number with.")
DRIFT = check(
    "--drift ARTIFACT",
    "Test whether the calibration of ARTIFACT has drifted since the fit; if it has, exit with 1. The test stays valid "
    "if it is run every night.",
)
DRIFT_STATE = check(
    "--state FILE", "The file in which --drift keeps its evidence between runs; ARTIFACT.drift.json by default."
)
CLUSTERS_FROM = check(
    "--clusters-from COLUMN", "The clusters of CECE; by default those of a CCL artifact, or clusters of the features."
)
FAIL_IF = check(
    "--fail-if EXPR",
    "Exit with 1 if this is true, such as 'nll > 0.31', 'ece.diff > 0' (against the raw score) or 'nll.change > 0' "
    "(against the baseline); repeatable.",
    kind=list,
    complete=complete.gate,
)
ALLOW_NULL = check("--allow-null", "Let --fail-if ignore numbers that are undefined.", False)
SEED = check("--seed N", "The random seed.", 0, bounds=(0, 2**63 - 1))

# Output
KEEP = output("--keep A,B,...|none", "The input columns to keep; all by default.", convert=to.names_or_none)
LOCK_TIMEOUT = output(
    "--lock-timeout SECONDS",
    "How long to wait where another process is writing.",
    60.0,
    kind=float,
    bounds=(0, 86_400),
)
ARTIFACT_OUTPUT = output("-o --output DIR", "Where to save the artifact; <name of DATA>.<method> by default.")
POLICY_OUTPUT = output("-o --output DIR", "Where to save the policy; <name of DATA>.policy by default.")
POLICY_PICTURE = output(
    "--picture FILE",
    "Also draw costs, net benefit and rates by threshold: a .png, .svg, .pdf or .html file; - is the terminal.",
)
TABLE_OUTPUT = output("-o --output FILE", "Where to write the table; - is stdout.", REQUIRED)
PICTURE_OUTPUT = output(
    "-o --output FILE", "A .png, .svg, .pdf or .html file to draw; - is stdout. By default the terminal."
)
PICTURE_FORMAT = output(
    "--output-format FORMAT",
    "png, svg, pdf or html, if the suffix does not say.",
    only="diagram",
    complete=complete.pictures,
)
REPORT_FILE = output(
    "-o --output FILE",
    "Write the answer here and not to stdout; .json, .csv and .md choose its --format.",
    field="report_file",
)
REPLACE = output("--replace", "Replace the table in the database instead of appending to it.", False)
OUTPUT_FORMAT = output(
    "--output-format FORMAT",
    "parquet, csv, tsv, ipc, ndjson or json, if the suffix does not say; on stdout that of DATA by default.",
    complete=complete.tables,
)
SELECT = output("--select DIR", "Fit the chosen method on all rows, and save it here.")
ROLLBACK = output("--rollback", "Restore the previous version of the artifact, and stop.", False)
SCALE = output("--as prob|logit", "Write a probability, or its log-odds.", "prob", field="scale")
EXTRA = output("--extra", "Also add the log-odds and, where the method has one, an interval or the cluster.", False)
COLUMN = output("--column NAME", "The name of the added column.", "calibrated")
FORMAT = output(
    "--format FORMAT",
    "The output format: table, json, csv or markdown.",
    "table",
    field="form",
    kind=Literal["table", "json", "csv", "markdown"],
)
TABLE_OR_JSON = output(
    "--format FORMAT", "The output format: table or json.", "table", field="form", kind=Literal["table", "json"]
)
TO = output("--to sql|json|onnx", "The language.", "sql")
DIALECT = output(
    "--dialect NAME",
    "Of SQL: duckdb, postgres, spark, bigquery, snowflake, and what else --dialects lists.",
    "duckdb",
    complete=complete.dialects,
)
SHAPE = output(
    "--shape auto|expression|query|view|tables|function|dbt",
    "An expression for each column; a SELECT from --table that computes no part of it twice, a view of that, or that "
    "with its large trees in tables of their own; a function of the columns; a macro of dbt. What is created is called "
    "as the added column. By default a query where --table names one, else an expression.",
    "auto",
)
DIALECTS = output("--dialects", "List the dialects, and on which engines their statements are tested.", False)
CHECK_ROWS = output(
    "--check N",
    "Write a statement that checks the export: it has N rows with expected values, and returns the rows that differ.",
    field="check",
    bounds=(1, 10_000),
)
FLOAT32 = output("--float32", "Of ONNX: inputs and outputs in single precision; in double by default.", False)
TABLE = output("--table NAME", "Where a query finds the rows.", only="export")
RULES = output(
    "--rules N",
    "Show the fitted rules, leaves or clusters: of each long table the N rows that move most, 20 where no N is given; "
    "--format json has all.",
    bounds=(1, 2**31 - 1),
)
EXPLAIN = output(
    "--explain DATA", "Show which features of these rows move the calibrated score away from the raw score (SHAP)."
)
ROW = output("--row N", "Explain this row only, counted from 1.", None, bounds=(1, 2**63 - 1))
EXPLANATION_OUTPUT = output(
    "-o --output FILE",
    "A .png, .svg or .pdf file to draw the explanation to; or effects with --rules, also .html.",
    only="inspect",
)
STREAM = output(
    "--stream",
    "On stdout and pipes, write rows as they are computed; by default after the last, so that a bad row leaves none.",
    False,
)
DRY_RUN = output("--dry-run", "Show how the columns would be used, and stop.", False)
ENGINE = output(
    "--engine local|spark", "Run on this machine, or on a Spark cluster over a directory of Parquet files.", "local"
)
MASTER = output("--master URL", "The URL of the Spark cluster, such as spark://HOST:7077 or sc://HOST:15002.")
SAMPLE = output(
    "--sample ROWS",
    "With --engine spark: the number of rows to fit on; all others measure the fit. By default a million, to fit "
    "effects ten; methods that need only sums over the rows (`calcli methods NAME`) use all rows.",
    bounds=(1, 2**31 - 1),
)

# What every command has
THREADS = general(
    "--threads N", "The maximum number of threads; all by default.", bounds=(1, 1_000_000), callback=to.limit_threads
)
QUIET = general("-q --quiet", "Only warnings and errors on stderr.", False)
DEBUG = general("--debug", "Show the traceback of an error.", False)
NO_COLOR = general("--no-color", "No colours, as with NO_COLOR; FORCE_COLOR asks for them in a log.", False)

# Groups that commands share
PLACES = (QUERY, DATA_TABLE, STORAGE_OPTION)
READING = (DATA, INPUT_FORMAT, DELIMITER, *PLACES, BAD_ROWS)
SCORE = (PROB, LOGPROB, PERCENT, LOGIT, RANK, DESCENDING, NORMALISE)
WEIGHTS = (WEIGHT, WEIGHT_KIND)
CLASS_NAMES = (POSITIVE, CLASSES)
COLUMNS = (LABEL, *SCORE, *WEIGHTS, *CLASS_NAMES, POSITIVES, TRIALS, FEATURES, IGNORE)
ROLES = (CATEGORIES, NUMBERS)
SIDES = (MODEL, PARTITION_DATA, EMBEDDING_DATA, EDGES)
BINNED = (BINS, BINNING)
CLUSTER = (ENGINE, MASTER)
SAMPLED = (ENGINE, MASTER, SAMPLE)
GENERAL = (THREADS, QUIET, NO_COLOR, DEBUG)
