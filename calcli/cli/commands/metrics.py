"""``calcli metrics``."""

from __future__ import annotations

from calcli.cli import complete, options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import argument, command
from calcli.metrics import catalog

EXAMPLES = """\
calcli metrics
calcli metrics mvce
calcli metrics --format json"""


@command(
    argument("[NAME]", "One metric.", None, kind=str | None, autocompletion=complete.metric),
    options.FORMAT,
    options.NO_COLOR,
    options.DEBUG,
)
def metrics(arguments: Arguments) -> None:
    """List the metrics, or describe one."""
    name = arguments["name"]
    chosen = catalog.specs() if name is None else (catalog.find(name),)
    output.metrics(chosen, arguments["form"], arguments.console(), details=name is not None)
