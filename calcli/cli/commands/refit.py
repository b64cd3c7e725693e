"""``calcli refit``."""

from __future__ import annotations

from calcli.cli import arguments, options, output
from calcli.cli.console import Console
from calcli.errors import UsageError

EXAMPLES = """\
calcli refit clicks.platt yesterday.parquet
calcli refit clicks.platt 'days/*.parquet' --guard nll --strict
calcli refit clicks.platt --rollback"""


def refit(
    artifact: options.Artifact,
    data: options.DataOrNone = None,
    input_format: options.InputFormat = None,
    guard: options.Guard = "nll",
    strict: options.Strict = False,
    model: options.Model = None,
    partition_data: options.PartitionData = None,
    embedding_data: options.EmbeddingData = None,
    edges: options.Edges = None,
    bins: options.Bins = 15,
    binning: options.Binning = "width",
    seed: options.Seed = 0,
    rollback: options.Rollback = False,
    form: options.Format = "table",
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Fit an artifact again on new rows, and keep the better one.

    The recipe of the artifact is repeated: the same method, parameters and columns. On held-out new rows the result is
    compared with the artifact in place and with no calibration; if it is worse than either by more than 0.1 % of the
    metric without calibration, nothing changes and the exit code is 1.
    """
    from calcli.metrics.base import Options
    from calcli.verbs.refit import RefitRequest
    from calcli.verbs.refit import refit as run
    from calcli.verbs.refit import rollback as run_rollback

    talk = Console(quiet=quiet, no_color=no_color)
    if rollback:
        if data:
            raise UsageError("--rollback takes no DATA: it puts the previous generation back")
        output.rolled_back(run_rollback(artifact), talk)
        return
    if not data:
        raise UsageError("refit needs DATA, the new rows", hint="see: calcli refit --help")
    request = RefitRequest(
        artifact=artifact,
        data=data,
        guard=guard or "nll",
        strict=strict,
        options=Options(bins=bins, binning=binning, seed=seed),
        sides=arguments.sides(model=model, partition_data=partition_data, embedding_data=embedding_data, edges=edges),
        input_format=input_format,
        seed=seed,
    )
    output.refitted(run(request, talk), form, talk)
