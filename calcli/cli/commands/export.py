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
    """Export a calibrator as SQL or JSON.

    The export gives the same predictions as `calcli apply`, up to rounding, also for missing values and unseen
    categories, and null for rows that cannot be calibrated. `calcli methods NAME` says if a method can be exported.
    Large trees need `--shape query`, which joins them as tables and keeps no order of rows.
    """
    from calcli.verbs.export import ExportRequest
    from calcli.verbs.export import export as run

    write(run(arguments.request(ExportRequest)) + "\n")
