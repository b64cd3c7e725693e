"""``calcli evaluate``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli evaluate test.parquet
calcli evaluate test.parquet --with train.platt --with new=train.isotonic
calcli evaluate test.parquet --with a.platt --with b.beta --versus a.platt
calcli evaluate test.parquet --with train.platt --bootstrap 1000 --by country
calcli evaluate test.parquet --with train.platt --fail-if 'nll.diff > 0'
calcli evaluate test.parquet --with train.ccl --rejection --html report.html
calcli evaluate scored.parquet --score calibrated --score old=calibrated_2025
calcli evaluate test.csv --metrics nll,ece --format json > old.json
calcli evaluate yesterday.parquet --drift train.platt
calcli evaluate test.csv --baseline old.json --fail-if 'nll.change > 0.002'
calcli evaluate days/ --with nightly --engine spark"""


@command(
    *options.READING,
    *options.COLUMNS,
    options.NODE_ID,
    options.EVALUATED_EDGES,
    options.WITH,
    options.SCORES,
    options.VERSUS,
    options.METRICS,
    *options.BINNED,
    options.CONVENTION,
    options.MVCE,
    options.IN_SAMPLE,
    options.BOOTSTRAP,
    options.RESAMPLE_BY,
    options.BY,
    options.CLUSTERS_FROM,
    options.REJECTION,
    options.BASELINE,
    options.DRIFT,
    options.DRIFT_STATE,
    options.FAIL_IF,
    options.ALLOW_NULL,
    options.SEED,
    options.HTML,
    options.FORMAT,
    *options.CLUSTER,
    *options.GENERAL,
)
def evaluate(arguments: Arguments) -> None:
    """Measure scores before and after calibration.

    Measures the raw score, each artifact (--with) and each calibrated column (--score) on the same rows. Use rows that
    no calibrator was fitted on.
    """
    from calcli.evaluation.request import EvaluateRequest
    from calcli.verbs.evaluate import evaluate as run

    console = arguments.console()
    report = run(arguments.request(EvaluateRequest, every_curve=arguments["html"] is not None), console)
    output.page(report, arguments["html"], console)
    output.evaluated(report, arguments["form"], console)
