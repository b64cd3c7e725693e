"""The options of commands, each once, and the groups of options that commands share.

Each option can also be given as ``CALCLI_<OPTION>`` in the environment; the command line wins.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from calcli.cli import arguments as to
from calcli.cli import complete
from calcli.cli.arguments import REQUIRED, Command, Option, argument, option, with_options

source = partial(option, "Input")
column = partial(option, "Columns")
method = partial(option, "Method")
check = partial(option, "Check")
output = partial(option, "Output")
general = partial(option, None)
decision = partial(option, "Decision")
share = partial(decision, kind=float, bounds=(0, 1))
cost = partial(decision, convert=to.number_or_column)


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
    "--query SQL", "Read the rows of this SQL query; DATA is postgresql://…, sqlite:///FILE or duckdb:///FILE."
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
RANK = column("--rank COLUMN", "A number on no scale that only ranks, such as a grade; larger is likelier.")
DESCENDING = column("--descending", "With --rank: smaller is likelier, as with a distance.", False)
POSITIVES = column("--positives COLUMN", "How many of the --trials of a row were positive, in place of --label.")
TRIALS = column("--trials COLUMN", "How many trials a row stands for, such as impressions.")
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
    "What the choice of auto must be able to do: be a formula in sql or onnx, be fitted on all rows with spark, keep "
    "the order of scores (monotone), have rules that inspect shows. It is said what that costs.",
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
LEAST = check(
    "--from THRESHOLD",
    "The least threshold of benefit and murphy.",
    field="least",
    kind=float,
    bounds=(0.0, 1.0),
    only="diagram",
)
MOST = check(
    "--to THRESHOLD",
    "The greatest threshold of benefit and murphy.",
    field="most",
    kind=float,
    bounds=(0.0, 1.0),
    only="diagram",
)
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
    "consistency: where 95 % of the points of a calibrated score would lie; bootstrap: 95 % bootstrap intervals; none.",
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
    "With --engine spark: the number of rows to fit on; all others measure the fit. By default a million; methods that "
    "need only sums over the rows (`calcli methods NAME`) use all rows.",
    bounds=(1, 2**31 - 1),
)

# Decision
CALIBRATOR = decision(
    "--with DIR", "The calibrator; by default the score is taken as it is.", field="artifact", only="decide"
)
COST_FP = cost("--cost-fp COST|COLUMN", "The cost of a false positive: a number, or a column with one for each row.")
COST_FN = cost("--cost-fn COST|COLUMN", "The cost of a false negative.")
COST_TP = cost("--cost-tp COST|COLUMN", "The cost of a true positive; 0 by default.")
COST_TN = cost("--cost-tn COST|COLUMN", "The cost of a true negative; 0 by default.")
COST = decision(
    "--cost COLUMN",
    "A column, such as an amount, that multiplies --cost-fn and --cost-tp: each row gets its own threshold.",
)
COSTS = decision(
    "--costs FILE",
    "A CSV file with the cost of each action (columns) by class (rows), for any number of classes.",
    field="cost_file",
)
TARGET = decision(
    "--target EXPR",
    "What must hold on new rows: 'precision >= 0.9', recall >=, accuracy >=, fpr <=, or positive-rate <= or >=.",
)
MAXIMIZE = decision(
    "--maximize FIGURE",
    "What a threshold is to make as large as it can: f1, mcc, balanced-accuracy or youden; beside --target also "
    "recall, precision, accuracy or positive-rate.",
)
BUDGET_ROWS = decision(
    "--budget ROWS",
    "The maximum number of positive decisions in a new table of the size of DATA.",
    bounds=(1, 2**63 - 1),
    only="decide",
)
CONFIDENCE = share("--confidence SHARE", "The probability that targets and bounds hold on new rows.", 0.95)
ABSTAIN = decision(
    "--abstain COST", "Abstain where the best decision has an expected cost above this.", kind=float, bounds=(0, 1e15)
)
COVERAGE = share("--coverage SHARE", "Decide this share of the rows, the most certain ones; abstain on the others.")
TOP = decision(
    "--top K",
    "With more than two classes: decide on at most the K most probable ones; 1 by default.",
    bounds=(1, 2**31 - 1),
)
UNCERTAINTY = decision(
    "--uncertainty COLUMN",
    "With --coverage: abstain on the rows with the largest values of this column, such as uncertainty_knowledge.",
)
SETS = share("--sets SHARE", "Predict sets of classes that contain the true class for this share of new rows.")
SET_SCORE = decision(
    "--set-score lac|aps|aps-randomised",
    "lac: the smallest sets on average; aps: larger sets for uncertain rows; aps-randomised: aps with randomisation, "
    "which makes sets smaller.",
    "lac",
)
BY_CLASS = decision("--by-class", "With --sets: reach this share within each class.", False)
INTERVALS = share("--intervals SHARE", "Predict intervals that contain the true value for this share of new rows.")
PREDICTION = decision("--prediction COLUMN", "With --intervals: the predicted value; uncertainty_mean by default.")
QUANTILES = decision(
    "--quantiles LOW,HIGH",
    "With --intervals: two columns of predicted quantiles, instead of --prediction.",
    convert=to.names,
)
SPREAD = decision("--spread COLUMN", "With --intervals: the predicted standard deviation, to scale them by.")
VARIANCE = decision("--variance COLUMN", "Instead of --spread: the predicted variance, such as uncertainty_total.")
SIDE = decision("--side both|lower|upper", "With --intervals: both ends, or only one.", "both")
SETS_BY = decision(
    "--by COLUMN",
    "With --sets, --intervals or --target: reach the share, or the target, within each group of this column.",
    only="decide",
)
THRESHOLD = share("--threshold P", "The threshold in use today, for comparison.", 0.5)
DECISION_BOOTSTRAP = decision(
    "--bootstrap N",
    "The number of bootstrap samples for 95 % intervals of costs; 0 is none.",
    1000,
    bounds=(0, 1_000_000),
    only="decide",
)

# Estimate
CALIBRATED_BY = method(
    "--with DIR", "The calibrator whose probabilities stand in for labels.", field="artifact", only="estimate"
)
LABEL_PROB = column(
    "--label-prob COLUMN", "The probability with which each labelled row was drawn; by default all have the same."
)
STRATA = column("--strata COLUMN", "Labels were drawn at random within each value, at rates that may differ.")
OTHER_SYSTEM = check(
    "--versus COLUMN|FILE",
    "Also estimate the difference of two systems: the column that says whose each row is, or the table of the other "
    "system.",
    only="estimate",
)
ITEM = column("--id COLUMN", "The item that both systems of --versus were judged on.", field="item")
ESTIMATE_TASK = column(
    "--task class|regression",
    "class: the rate of a class; regression: the mean of a label that is a number, with a score on any scale (--prob).",
    "class",
    only="estimate",
)
rates_of_these = partial(
    method,
    "--prior-shift estimate",
    "Find the class rates of these rows, without labels, if nothing but these rates has moved since the fit.",
    kind=Literal["estimate"] | None,
)
MOVED_RATES, ESTIMATED_RATES = rates_of_these(only="apply"), rates_of_these(only="estimate")
WIDTH = check("--width W", "Say how many more labels give an interval of this width.", kind=float, bounds=(1e-9, 10**9))
CHOOSE = check(
    "--choose N",
    "Draw N rows to label next, more of those whose score is unsure, into -o FILE with their probabilities "
    "(label_prob).",
    bounds=(1, 10**9),
)
CHOSEN_OUTPUT = output("-o --output FILE", "The table of the rows that --choose drew, and of those that have labels.")
FAIL_IF_RATE = FAIL_IF._replace(
    more=FAIL_IF.more
    | {"help": "Exit with 1 if this is true, such as 'rate.lo < 0.9' or 'rate.hi@task > 0.2'; repeatable."}
)

# Uncertainty
ENSEMBLE_DIR = argument("ENSEMBLE", "The directory that `calcli uncertainty fit` made.")
OUTCOME = column("--label COLUMN", "The observed class or value of each row.")
TASK = column(
    "--task class|regression",
    "Whether the label is a class or a number; integers of at most 50 distinct values are classes by default.",
)
ENSEMBLE_KIND = method(
    "--ensemble KIND",
    "sglb: models sampled from the posterior; sgb: models on random halves of the rows; virtual: one sglb model, "
    "truncated at several numbers of trees. sglb by default.",
    kind=Literal["sglb", "sgb", "virtual"] | None,
)
MEMBER_COUNT = method("--members N", "The number of ensemble members.", 10, bounds=(2, 10_000), only="uncertainty fit")
TREES = method("--trees N", "Trees of each model; 1000 by default.", bounds=(1, 1_000_000))
DEPTH = method("--depth N", "Depth of each tree, up to 16; 6 by default.", bounds=(1, 16))
LEARNING_RATE = method(
    "--learning-rate RATE", "The learning rate; CatBoost's choice by default.", kind=float | None, bounds=(0, 1)
)
TUNE = method(
    "--tune", "Choose learning rate (0.001, 0.01, 0.1) and depth (3 to 6) by the log-loss on held-out rows.", False
)
OWN_MODEL = method(
    "--model FILE",
    "Your own CatBoost model (.cbm), used as a virtual ensemble without training.",
    only="uncertainty fit",
)
ENSEMBLE_OUTPUT = output("-o --output DIR", "Where to save the ensemble; <name of DATA>.<kind> by default.")
MORE_MEASURES = output("--extra", "Also add two more measures of disagreement: epkl and, for classes, rmi.", False)
WITH_ENSEMBLE = source(
    "--with [NAME=]DIR",
    "An ensemble to measure; repeatable.",
    field="ensembles",
    only="uncertainty evaluate",
    kind=list,
)
OOD = check("--ood FILE", "Out-of-domain rows with the same features; report how well uncertainty detects them.")
MAKE_OOD = check(
    "--make-ood FILE",
    "Make out-of-domain rows from the numbers of this other table, at the scale of the training rows.",
)
OOD_PRESET = check(
    "--preset paper",
    "With --make-ood: its first rows, at the scale of DATA, as in the authors' code.",
    only="uncertainty evaluate",
    kind=Literal["paper"] | None,
)
REJECTION_PICTURE = output(
    "-o --output FILE", "A .png, .svg or .pdf file that shows the remaining error as uncertain rows are rejected."
)
MEMBER_STEM = column(
    "--members STEM",
    "The columns of the members: STEM_<m> (a probability or a mean) or STEM_<m>_<class>.",
    REQUIRED,
    only="uncertainty decompose",
)
VARIANCES = column("--variances STEM", "The columns STEM_<m> with each member's variance, for regression.")

# What every command has
THREADS = general(
    "--threads N", "The maximum number of threads; all by default.", bounds=(1, 1_000_000), callback=to.limit_threads
)
QUIET = general("-q --quiet", "Only warnings and errors on stderr.", False)
DEBUG = general("--debug", "Show the traceback of an error.", False)
NO_COLOR = general("--no-color", "No colours; NO_COLOR does the same everywhere.", False)

# Groups that commands share
PLACES = (QUERY, DATA_TABLE, STORAGE_OPTION)
READING = (DATA, INPUT_FORMAT, DELIMITER, *PLACES, BAD_ROWS)
COLUMNS = (
    LABEL,
    PROB,
    LOGPROB,
    PERCENT,
    LOGIT,
    RANK,
    DESCENDING,
    NORMALISE,
    WEIGHT,
    WEIGHT_KIND,
    POSITIVE,
    CLASSES,
    POSITIVES,
    TRIALS,
    FEATURES,
    IGNORE,
)
ROLES = (CATEGORIES, NUMBERS)
SIDES = (MODEL, PARTITION_DATA, EMBEDDING_DATA, EDGES)
BINNED = (BINS, BINNING)
CLUSTER = (ENGINE, MASTER)
SAMPLED = (ENGINE, MASTER, SAMPLE)
GENERAL = (THREADS, QUIET, NO_COLOR, DEBUG)


def command(names: str) -> Callable[[Command], Callable[..., None]]:
    """Declare a command with the options and groups of these names, which help lists in this order."""
    options: list[Option] = []
    for found in (globals()[name] for name in names.split()):
        options += [found] if isinstance(found, Option) else found
    return with_options(options)
