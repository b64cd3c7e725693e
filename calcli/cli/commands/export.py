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
calcli export train.sms --dialect postgres --table scores --shape view
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
    options.FLOAT32,
    options.CHECK_ROWS,
    options.DIALECTS,
    options.STORAGE_OPTION,
    options.DEBUG,
)
def export(arguments: Arguments) -> None:
    """Export a calibrator as SQL, JSON or ONNX.

    The export gives the same predictions as `calcli apply`, up to rounding, also for missing values and unseen
    categories, and null for rows that cannot be calibrated. `calcli methods NAME` says if a method can be exported.
    Large calibrators need --table and become queries with a step for each part; those that join tables do not keep the
    order of rows.
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
