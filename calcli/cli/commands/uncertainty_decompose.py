"""``calcli uncertainty decompose``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli uncertainty decompose nets.parquet --members net -o out.parquet
calcli uncertainty decompose p.csv --members mu --variances var -o out.csv"""


@command(
    options.DATA,
    options.MEMBER_STEM,
    options.TABLE_OUTPUT,
    options.INPUT_FORMAT,
    options.DELIMITER,
    *options.PLACES,
    options.BAD_ROWS,
    options.VARIANCES,
    options.OUTPUT_FORMAT,
    options.REPLACE,
    options.MORE_MEASURES,
    options.KEEP,
    *options.GENERAL,
)
def decompose(arguments: Arguments) -> None:
    """Decompose the uncertainty of ensemble predictions in a table.

    The table holds the predictions of the members of any ensemble: a column for each member, or for each member and
    class. Adds the same columns as `calcli uncertainty apply`.
    """
    from calcli.verbs.apply import DecomposeRequest
    from calcli.verbs.apply import decompose as run

    request = arguments.request(DecomposeRequest)
    console = arguments.console(quiet=request.output == "-")
    output.decomposed(run(request, console), console)
