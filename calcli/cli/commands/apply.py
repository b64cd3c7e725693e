"""``calcli apply``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli apply train.platt new.parquet -o scored.parquet
calcli apply train.platt new.csv -o - --keep id | head
calcli apply train.platt days/ -o scored/ --engine spark
cat new.csv | calcli apply train.platt - --input-format csv -o scored.csv"""


@command(
    options.ARTIFACT,
    options.DATA,
    options.TABLE_OUTPUT,
    options.INPUT_FORMAT,
    options.DELIMITER,
    *options.PLACES,
    options.BAD_ROWS,
    *options.COLUMNS,
    options.NODE_ID,
    options.NEW_EDGES,
    options.OUTPUT_FORMAT,
    options.REPLACE,
    options.COLUMN,
    options.SCALE,
    options.EXTRA,
    options.KEEP,
    *options.CLUSTER,
    options.DRY_RUN,
    *options.GENERAL,
)
def apply(arguments: Arguments) -> None:
    """Add calibrated probabilities to a table.

    Writes all rows in the same order and all columns unchanged, followed by `calibrated` (for more than two classes
    `calibrated_<class>`). Needs no label. Writes either the whole table or nothing.
    """
    from calcli.verbs.apply import ApplyRequest
    from calcli.verbs.apply import apply as run

    request = arguments.request(ApplyRequest)
    # Notes on a terminal that shows the table too would stand between its rows.
    console = arguments.console(quiet=request.output == "-")
    output.applied(run(request, console), console, dry_run=request.dry_run)
