"""``calcli compare``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli compare train.parquet
calcli compare train.parquet --methods platt,beta --resample-by user_id
calcli compare train.parquet --html report.html
calcli compare train.parquet --budget 60 --select best"""


@command(
    *options.READING,
    *options.COLUMNS,
    options.NODE_ID,
    options.METHODS,
    options.SET,
    *options.SIDES,
    options.CRITERION,
    options.BUDGET,
    options.FOLDS,
    options.RESAMPLE_BY,
    options.ORDER_BY,
    options.METRICS,
    *options.BINNED,
    options.SEED,
    options.SELECT,
    options.HTML,
    options.FORMAT,
    *options.SAMPLED,
    *options.GENERAL,
)
def compare(arguments: Arguments) -> None:
    """Compare methods, and no calibration, on held-out rows.

    All methods are cross-validated on the same folds. The choice is the simplest method whose log-loss is within half a
    standard error of the lowest. Methods that fail, or that --budget leaves no time for, are listed with the reason.
    """
    from calcli.verbs.compare import CompareRequest
    from calcli.verbs.compare import compare as run

    console = arguments.console()
    result = run(arguments.request(CompareRequest, every_curve=arguments["html"] is not None), console)
    output.page(result.report, arguments["html"], console)
    output.compared(result, arguments["form"], console)
