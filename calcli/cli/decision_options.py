"""The options of `decide`, of `estimate` and of the `uncertainty` commands alone."""

from __future__ import annotations

from functools import partial
from typing import Literal

from calcli.cli import arguments as to
from calcli.cli.arguments import REQUIRED, argument, option
from calcli.cli.options import FAIL_IF, check, column, method, output, source

decision = partial(option, "Decision")
share = partial(decision, kind=float, bounds=(0, 1))
cost = partial(decision, convert=to.number_or_column)

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
