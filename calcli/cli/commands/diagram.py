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
    *options.GENERAL,
)
def diagram(arguments: Arguments) -> None:
    """Show what was predicted beside what happened.

    On the terminal, or as a picture, or as a page with tooltips that needs no network. What happened is grey; colour is
    error. With another --format than table, the numbers of the picture go to stdout.
    """
    from calcli.verbs.diagram import DiagramRequest
    from calcli.verbs.diagram import diagram as run

    output.check_streams(arguments["output"], arguments["form"])
    console = arguments.console()
    request = arguments.request(DiagramRequest, classes=arguments.pop("chosen"))
    output.pictured(run(request, console), arguments["form"], console)
