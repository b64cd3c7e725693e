"""``calcli metrics``."""

from __future__ import annotations

from typing import Annotated

import typer

from calcli.cli import complete, options, output
from calcli.cli.console import Console
from calcli.metrics import catalog

EXAMPLES = """\
calcli metrics
calcli metrics mvce
calcli metrics --format json"""

Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="One metric.", autocompletion=complete.metric, rich_help_panel="Input"),
]


def metrics(
    name: Name = None,
    form: options.Format = "table",
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """List the ways to measure, or describe one."""
    chosen = catalog.specs() if name is None else (catalog.find(name),)
    output.metrics(chosen, form, Console(no_color=no_color), details=name is not None)
