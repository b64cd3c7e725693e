"""``calcli refit``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command
from calcli.cli.streams import write_path
from calcli.errors import UsageError

EXAMPLES = """\
calcli refit clicks.platt yesterday.parquet
calcli refit clicks.platt 'days/*.parquet' --pool-nights 30
calcli refit clicks.platt --rollback"""


@command(
    options.ARTIFACT,
    options.DATA_OR_NONE,
    options.INPUT_FORMAT,
    options.DELIMITER,
    *options.PLACES,
    options.REFIT_GUARD,
    options.POOL_NIGHTS,
    options.RESAMPLE_BY,
    options.ORDER_BY,
    *options.SIDES,
    *options.BINNED,
    options.SEED,
    options.ROLLBACK,
    options.FORMAT,
    *options.SAMPLED,
    *options.GENERAL,
)
def refit(arguments: Arguments) -> None:
    """Fit an artifact again on new rows, and keep the better one.

    Repeats the recipe of the artifact: the same method, parameters and columns. The result replaces the artifact if it
    raises the log-likelihood of held-out new rows by at least 8.9 nats (by chance at most once in twenty years of
    nightly refits) and by two standard errors, and if it is at most 0.1 % worse in --guard than no calibration and
    than the artifact in place. Otherwise nothing changes, and the exit code is 1.
    """
    from calcli.models.requests import RefitRequest
    from calcli.verbs.refit import refit as run
    from calcli.verbs.refit import rollback as run_rollback

    console = arguments.console()
    if arguments["rollback"]:
        if arguments["data"]:
            raise UsageError("--rollback takes no DATA: it restores the previous version of the artifact")
        write_path(run_rollback(arguments["artifact"], console))
        return
    if not arguments["data"]:
        raise UsageError("refit needs DATA, the new rows", hint="see: calcli refit --help")
    request = arguments.request(RefitRequest, guard=arguments["guard"] or "nll")
    output.refitted(run(request, console), arguments["form"], console)
