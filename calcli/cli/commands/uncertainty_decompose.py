"""``calcli uncertainty decompose``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli uncertainty decompose nets.parquet --members net -o out.parquet
calcli uncertainty decompose p.csv --members mu --variances var -o out.csv"""


def decompose(
    data: options.Data,
    members: options.MemberStem,
    target: options.TableOutput,
    input_format: options.InputFormat = None,
    bad_rows: options.BadRows = "fail",
    variances: options.Variances = None,
    output_format: options.OutputFormat = None,
    extra: options.MoreMeasures = False,
    keep: options.Keep = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Split up the uncertainty of predictions that a table holds.

    The predictions are those of any ensemble's members, a column for each, or for each and every class. What is added
    is what `calcli uncertainty apply` adds.
    """
    from calcli.verbs.uncertainty_decompose import DecomposeRequest
    from calcli.verbs.uncertainty_decompose import decompose as run

    request = DecomposeRequest(
        data=data,
        members=members,
        output=target,
        variances=variances,
        extra=extra,
        keep=arguments.kept(keep),
        input_format=input_format,
        output_format=output_format,
        bad_rows=bad_rows,
    )
    talk = Console(quiet=quiet or target == "-", no_color=no_color)
    output.decomposed(run(request, talk), talk)
