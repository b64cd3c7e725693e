"""``calcli export``."""

from __future__ import annotations

from calcli.cli import arguments, options
from calcli.cli.streams import write

EXAMPLES = """\
calcli export train.platt
calcli export train.sms --dialect snowflake --shape query --table scores
calcli export train.isotonic --to json"""


def export(
    artifact: options.Artifact,
    to: options.To = "sql",
    dialect: options.Dialect = "duckdb",
    shape: options.Shape = "expression",
    table: options.Table = None,
    keep: options.Keep = None,
    column: options.Column = "calibrated",
    scale: options.Scale = "prob",
    debug: options.Debug = False,
) -> None:
    """Say a calibrator in SQL, or as a formula in JSON.

    What comes out predicts what `calcli apply` predicts, to rounding: null for rows that it cannot calibrate, and the
    same for values that are missing or were never seen. `calcli methods NAME` tells which methods can be exported.
    Large trees need `--shape query`, which joins them as tables and keeps no order of rows.
    """
    from calcli.verbs.export import ExportRequest
    from calcli.verbs.export import export as run

    request = ExportRequest(
        artifact=artifact,
        to=to,
        dialect=dialect,
        shape=shape,
        table=table,
        keep=arguments.kept(keep),
        column=column,
        scale=scale,
    )
    write(run(request) + "\n")
