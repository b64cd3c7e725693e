"""``calcli diagram``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli diagram test.parquet
calcli diagram test.parquet --with train.platt --kind smooth
calcli diagram test.parquet --with train.platt -o reliability.png
calcli diagram test.parquet --with train.platt --by device
calcli diagram test.csv --class all -o reliability.html"""


@command(
    *options.READING,
    *options.COLUMNS,
    options.WITH,
    options.SCORES,
    options.KIND,
    options.CLASS,
    options.BY,
    options.BINS,
    options.BINNING,
    options.BANDS,
    options.PICTURE_OUTPUT,
    options.PICTURE_FORMAT,
    options.FORMAT,
    *options.CLUSTER,
    *options.GENERAL,
)
def diagram(arguments: Arguments) -> None:
    """Draw reliability diagrams: predicted probabilities against observed rates.

    Draws in the terminal, to an image, or to a self-contained HTML page with tooltips. Observed rates are grey, and
    colour marks the error. With --format json, csv or markdown the numbers of the diagram go to stdout.
    """
    from calcli.verbs.diagram import DiagramRequest
    from calcli.verbs.diagram import diagram as run

    output.check_streams(arguments["output"], arguments["form"])
    console = arguments.console()
    request = arguments.request(DiagramRequest, classes=arguments.pop("chosen"))
    output.pictured(run(request, console), arguments["form"], console)
