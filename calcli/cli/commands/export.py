"""``calcli export``."""

from __future__ import annotations

from calcli.cli import options
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command
from calcli.cli.streams import write, write_bytes

EXAMPLES = """\
calcli export train.platt
calcli export train.sms --dialect snowflake --table scores
calcli export train.sms --dialect snowflake --check 100
calcli export train.isotonic --to json
calcli export train.isotonic --to onnx > isotonic.onnx
calcli export --dialects"""


@command(
    options.ARTIFACT_OR_NONE,
    options.TO,
    options.DIALECT,
    options.SHAPE,
    options.TABLE,
    options.KEEP,
    options.COLUMN,
    options.SCALE,
    options.CHECK_ROWS,
    options.DIALECTS,
    options.DEBUG,
)
def export(arguments: Arguments) -> None:
    """Say a calibrator in SQL, as a formula in JSON, or as an ONNX model.

    What comes out predicts what `calcli apply` predicts, to rounding: null for rows that it cannot calibrate, and the
    same for values that are missing or were never seen. `calcli methods NAME` tells which methods can be exported.
    Large ones need --table, and are then queries with a step for each part; some join tables, which keeps no order of
    rows.
    """
    from calcli.errors import UsageError
    from calcli.verbs.export import ExportRequest, dialects, export_onnx
    from calcli.verbs.export import export as run

    if arguments.pop("dialects"):
        write("".join(f"{name:<12} {tested}\n" for name, tested in dialects().items()))
        return
    if arguments["artifact"] is None:
        raise UsageError("no ARTIFACT is given", hint="name the directory that `calcli fit` made")
    request = arguments.request(ExportRequest)
    if request.to == "onnx":
        write_bytes(export_onnx(request))
    else:
        write(run(request) + "\n")
