"""The options of ``calcli decide`` that no other command has: what is decided, and for what."""

from __future__ import annotations

from functools import partial
from typing import Literal

from calcli.cli.arguments import names
from calcli.cli.signature import option

decision = partial(option, "Decision")
amount = partial(decision, kind=float, min=0, max=1e15)
share = partial(decision, kind=float, min=0, max=1)


def number_or_column(text: str | None) -> float | str | None:
    """A cost, or the name of the column that has it."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


cost = partial(decision, convert=number_or_column)

CALIBRATOR = decision(
    "--with DIR",
    "The calibrator; by default the score is taken as it is.",
    field="artifact",
    variable="CALCLI_DECIDE_WITH",
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
BUDGET_ROWS = decision(
    "--budget ROWS",
    "The maximum number of positive decisions in a new table of the size of DATA.",
    kind=int,
    min=1,
    max=2**63 - 1,
    variable="CALCLI_DECIDE_BUDGET",
)
CONFIDENCE = share("--confidence SHARE", "The probability that targets and bounds hold on new rows.", 0.95)
ABSTAIN = amount("--abstain COST", "Abstain where the best decision has an expected cost above this.")
COVERAGE = share("--coverage SHARE", "Decide this share of the rows, the most certain ones; abstain on the others.")
TOP = decision(
    "--top K",
    "With more than two classes: decide on at most the K most probable ones; 1 by default.",
    kind=int | None,
    min=1,
    max=2**31 - 1,
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
    kind=Literal["lac", "aps", "aps-randomised"],
)
BY_CLASS = decision("--by-class", "With --sets: reach this share within each class.", False)
INTERVALS = share("--intervals SHARE", "Predict intervals that contain the true value for this share of new rows.")
PREDICTION = decision("--prediction COLUMN", "With --intervals: the predicted value; uncertainty_mean by default.")
QUANTILES = decision(
    "--quantiles LOW,HIGH",
    "With --intervals: two columns of predicted quantiles, instead of --prediction.",
    convert=names,
)
SPREAD = decision("--spread COLUMN", "With --intervals: the predicted standard deviation, to scale them by.")
VARIANCE = decision("--variance COLUMN", "Instead of --spread: the predicted variance, such as uncertainty_total.")
SIDE = decision(
    "--side both|lower|upper",
    "With --intervals: both ends, or only one.",
    "both",
    kind=Literal["both", "lower", "upper"],
)
SETS_BY = decision(
    "--by COLUMN",
    "With --sets or --intervals: reach the share within each group of this column.",
    variable="CALCLI_DECIDE_BY",
)
THRESHOLD = share("--threshold P", "The threshold in use today, for comparison.", 0.5)
DECISION_BOOTSTRAP = decision(
    "--bootstrap N",
    "The number of bootstrap samples for 95 % intervals of costs; 0 is none.",
    1000,
    min=0,
    max=1_000_000,
    variable="CALCLI_DECIDE_BOOTSTRAP",
)
