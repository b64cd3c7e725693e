"""``calcli decide``."""

from __future__ import annotations

from calcli.cli import decision_options, options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli decide valid.parquet --with train.platt --cost-fp 1 --cost-fn 20
calcli decide valid.parquet --with train.platt --target 'precision >= 0.9'
calcli decide valid.parquet --with train.platt --budget 500
calcli decide valid.parquet --cost-fp 1 --cost-fn 20 --abstain 0.3
calcli decide valid.parquet --with train.ccl --costs costs.csv
calcli decide valid.parquet --with train.ccl --top 3
calcli decide valid.parquet --with train.ccl --sets 0.95 --by-class
calcli decide valid.parquet --intervals 0.9 --prediction forecast --spread sd
calcli apply valid.policy new.parquet -o decided.parquet"""


@command(
    *options.READING,
    *options.COLUMNS,
    decision_options.CALIBRATOR,
    decision_options.COST_FP,
    decision_options.COST_FN,
    decision_options.COST_TP,
    decision_options.COST_TN,
    decision_options.COST,
    decision_options.COSTS,
    decision_options.TARGET,
    decision_options.BUDGET_ROWS,
    decision_options.CONFIDENCE,
    decision_options.ABSTAIN,
    decision_options.COVERAGE,
    decision_options.UNCERTAINTY,
    decision_options.TOP,
    decision_options.SETS,
    decision_options.SET_SCORE,
    decision_options.BY_CLASS,
    decision_options.INTERVALS,
    decision_options.PREDICTION,
    decision_options.QUANTILES,
    decision_options.SPREAD,
    decision_options.VARIANCE,
    decision_options.SIDE,
    decision_options.SETS_BY,
    decision_options.THRESHOLD,
    options.RESAMPLE_BY,
    options.FOLDS,
    decision_options.DECISION_BOOTSTRAP,
    options.SEED,
    options.POLICY_OUTPUT,
    options.POLICY_PICTURE,
    options.HTML,
    options.FORMAT,
    *options.GENERAL,
)
def decide(arguments: Arguments) -> None:
    """Choose a threshold by costs or by a target, and save it as a policy.

    DATA needs labels, and must not be rows that the calibrator was fitted on. The policy is an artifact that holds its
    calibrator: `calcli apply` adds `decision` and `decision_reason`, `calcli evaluate --with` measures it. If nothing
    meets the target, nothing is saved and the exit code is 1.
    """
    from calcli.verbs.decide import DecideRequest
    from calcli.verbs.decide import decide as run

    output.check_picture(arguments["picture"])
    console = arguments.console()
    result = run(arguments.request(DecideRequest), console)
    output.drawn(result, arguments["picture"], console)
    output.decision_page(result, arguments["html"], console)
    output.decided(result, arguments["form"], console)
