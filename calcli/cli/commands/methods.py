"""``calcli methods``."""

from __future__ import annotations

from typing import Annotated

import typer

from calcli.cli import complete, options, output
from calcli.cli.console import Console
from calcli.methods import catalog

EXAMPLES = """\
calcli methods
calcli methods histogram
calcli methods --format json"""

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAME]",
        help="One method, with its parameters.",
        autocompletion=complete.methods,
        rich_help_panel="Input",
    ),
]


def methods(
    name: Name = None,
    form: options.Format = "table",
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """List the ways to calibrate, or describe one."""
    chosen = catalog.specs() if name is None else (catalog.find(name),)
    output.methods(chosen, form, Console(no_color=no_color), details=name is not None)
