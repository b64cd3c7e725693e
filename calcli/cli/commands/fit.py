"""``calcli fit``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli fit train.parquet
calcli fit train.parquet --method platt --guard nll
calcli fit train.csv -m histogram --set bins=20 -o clicks.histogram
calcli fit 'days/*.parquet' -m isotonic -o nightly --label clicked
calcli fit days/ -m platt -o nightly --engine spark"""


@command(
    *options.READING,
    *options.COLUMNS,
    options.NODE_ID,
    options.METHOD,
    options.SET,
    options.PRESET,
    *options.SIDES,
    options.EXACT,
    options.PRIOR_SHIFT,
    options.CRITERION,
    options.BUDGET,
    options.HOLDOUT,
    options.RESAMPLE_BY,
    options.ORDER_BY,
    options.GUARD,
    options.METRICS,
    *options.BINNED,
    options.SEED,
    options.ARTIFACT_OUTPUT,
    options.FORMAT,
    *options.SAMPLED,
    options.DRY_RUN,
    *options.GENERAL,
)
def fit(arguments: Arguments) -> None:
    """Fit a calibrator, check it on held-out rows, and save it.

    Prints the path of the artifact to stdout, for scripts, and the held-out performance before and after calibration to
    stderr. With --format json, csv or markdown the report goes to stdout instead.
    """
    from calcli.models.requests import FitRequest
    from calcli.verbs.fit import fit as run

    console = arguments.console()
    output.fitted(run(arguments.request(FitRequest), console), arguments["form"], console)
