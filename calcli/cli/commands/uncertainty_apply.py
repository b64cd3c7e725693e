"""``calcli uncertainty apply``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli uncertainty apply train.sglb new.parquet -o scored.parquet
calcli uncertainty apply train.sglb new.csv -o - --output-format csv --keep id"""


@command(
    options.ENSEMBLE_DIR,
    options.DATA,
    options.TABLE_OUTPUT,
    options.INPUT_FORMAT,
    options.DELIMITER,
    *options.PLACES,
    options.OUTPUT_FORMAT,
    options.REPLACE,
    options.MORE_MEASURES,
    options.KEEP,
    options.DRY_RUN,
    *options.GENERAL,
)
def apply(arguments: Arguments) -> None:
    """Add predictions and their uncertainty to a table.

    Writes all rows in the same order and all columns unchanged, followed by `uncertainty_mean` (for more than two
    classes `uncertainty_mean_<class>`), `uncertainty_total`, and its parts `uncertainty_data` and
    `uncertainty_knowledge`: in nats for classes, as variances for numbers. A virtual ensemble adds the prediction of
    the whole model, `uncertainty_model`.
    """
    from calcli.verbs.apply import EnsembleApplyRequest
    from calcli.verbs.apply import apply_ensemble as run

    request = arguments.request(EnsembleApplyRequest)
    console = arguments.console(quiet=request.output == "-")
    output.applied(run(request, console), console, dry_run=request.dry_run)
