"""``calcli decide``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli decide valid.parquet --with train.platt --cost-fp 1 --cost-fn 20
calcli decide valid.parquet --with train.platt --target 'precision >= 0.9'
calcli decide valid.parquet --with train.platt --budget 500
calcli decide valid.parquet --cost-fp 1 --cost-fn 20 --abstain 0.3
calcli decide valid.parquet --with train.ccl --costs costs.csv
calcli decide valid.parquet --with train.ccl --sets 0.95 --by-class
calcli decide valid.parquet --intervals 0.9 --prediction forecast --spread sd
calcli apply valid.policy new.parquet -o decided.parquet"""


@command(
    *options.READING,
    *options.COLUMNS,
    options.CALIBRATOR,
    options.COST_FP,
    options.COST_FN,
    options.COST_TP,
    options.COST_TN,
    options.COST,
    options.COSTS,
    options.TARGET,
    options.BUDGET_ROWS,
    options.CONFIDENCE,
    options.ABSTAIN,
    options.COVERAGE,
    options.UNCERTAINTY,
    options.SETS,
    options.SET_SCORE,
    options.BY_CLASS,
    options.INTERVALS,
    options.PREDICTION,
    options.QUANTILES,
    options.SPREAD,
    options.VARIANCE,
    options.SIDE,
    options.SETS_BY,
    options.THRESHOLD,
    options.RESAMPLE_BY,
    options.FOLDS,
    options.DECISION_BOOTSTRAP,
    options.SEED,
    options.POLICY_OUTPUT,
    options.POLICY_PICTURE,
    options.FORMAT,
    *options.GENERAL,
)
def decide(arguments: Arguments) -> None:
    """Choose a threshold by costs or by a target, and save it as a policy.

    DATA has labels, and its rows must not be those of the fit. The policy is an artifact that holds its calibrator:
    `calcli apply` adds `decision` and `decision_reason`, `calcli evaluate --with` measures it. If nothing meets the
    target, nothing is saved and the exit code is 1.
    """
    from calcli.verbs.decide import DecideRequest
    from calcli.verbs.decide import decide as run

    output.check_picture(arguments["picture"])
    console = arguments.console()
    result = run(arguments.request(DecideRequest), console)
    output.drawn(result, arguments["picture"], console)
    output.decided(result, arguments["form"], console)
