"""``calcli export``."""

from __future__ import annotations

from calcli.cli import options
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command
from calcli.cli.streams import write

EXAMPLES = """\
calcli export train.platt
calcli export train.sms --dialect snowflake --shape query --table scores
calcli export train.isotonic --to json"""


@command(
    options.ARTIFACT,
    options.TO,
    options.DIALECT,
    options.SHAPE,
    options.TABLE,
    options.KEEP,
    options.COLUMN,
    options.SCALE,
    options.DEBUG,
)
def export(arguments: Arguments) -> None:
    """Say a calibrator in SQL, or as a formula in JSON.

    What comes out predicts what `calcli apply` predicts, to rounding: null for rows that it cannot calibrate, and the
    same for values that are missing or were never seen. `calcli methods NAME` tells which methods can be exported.
    Large trees need `--shape query`, which joins them as tables and keeps no order of rows.
    """
    from calcli.verbs.export import ExportRequest
    from calcli.verbs.export import export as run

    write(run(arguments.request(ExportRequest)) + "\n")
