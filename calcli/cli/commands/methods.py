"""``calcli methods``."""

from __future__ import annotations

from calcli.cli import complete, options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import argument, command
from calcli.methods import catalog

EXAMPLES = """\
calcli methods
calcli methods histogram
calcli methods --format json"""


@command(
    argument("[NAME]", "One method, with its parameters.", None, kind=str | None, autocompletion=complete.methods),
    options.FORMAT,
    options.NO_COLOR,
    options.DEBUG,
)
def methods(arguments: Arguments) -> None:
    """List the calibration methods, or describe one."""
    name = arguments["name"]
    chosen = catalog.specs() if name is None else (catalog.find(name),)
    output.methods(chosen, arguments["form"], arguments.console(), details=name is not None)
