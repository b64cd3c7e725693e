"""``calcli uncertainty``: the commands below it."""

from __future__ import annotations

import typer

from calcli.cli.streams import write

EXAMPLES = """\
calcli uncertainty fit train.parquet                  # saves ./train.sglb/
calcli uncertainty apply train.sglb new.csv -o out.csv
calcli uncertainty evaluate test.csv --with train.sglb --ood other.csv"""


def uncertainty(ctx: typer.Context) -> None:
    """Measure how uncertain predictions are, and why."""
    if ctx.invoked_subcommand is None:
        write(f"{ctx.get_help()}\n")
