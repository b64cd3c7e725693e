"""``calcli uncertainty apply``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli uncertainty apply train.sglb new.parquet -o scored.parquet
calcli uncertainty apply train.sglb new.csv -o - --output-format csv --keep id"""


def apply(
    ensemble: options.EnsembleDir,
    data: options.Data,
    target: options.TableOutput,
    input_format: options.InputFormat = None,
    output_format: options.OutputFormat = None,
    extra: options.MoreMeasures = False,
    keep: options.Keep = None,
    dry_run: options.DryRun = False,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Add predictions and their uncertainty to a table.

    All rows in the same order, all columns as they were, then `uncertainty_mean` (for more than two classes
    `uncertainty_mean_<class>`), `uncertainty_total`, and its parts `uncertainty_data` and `uncertainty_knowledge`: in
    nats, or of amounts in their square. A virtual ensemble adds what the whole model says, `uncertainty_model`.
    """
    from calcli.verbs.uncertainty_apply import EnsembleApplyRequest
    from calcli.verbs.uncertainty_apply import apply as run

    request = EnsembleApplyRequest(
        ensemble=ensemble,
        data=data,
        output=target,
        extra=extra,
        keep=arguments.kept(keep),
        input_format=input_format,
        output_format=output_format,
        dry_run=dry_run,
    )
    talk = Console(quiet=quiet or target == "-", no_color=no_color)
    output.applied(run(request, talk), talk, dry_run=dry_run)
