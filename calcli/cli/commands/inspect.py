"""``calcli inspect``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command

EXAMPLES = """\
calcli inspect train.platt
calcli inspect train.mbct --rules
calcli inspect train.platt --format json"""


@command(options.ARTIFACT, options.RULES, options.TABLE_OR_JSON, options.NO_COLOR, options.DEBUG)
def inspect(arguments: Arguments) -> None:
    """Describe an artifact and its held-out performance.

    Reads the whole artifact and checks the hash of every file.
    """
    from calcli.verbs.inspect import inspect as run

    inspection = run(arguments["artifact"], rules=arguments["rules"])
    output.inspected(inspection, arguments["form"], arguments.console())
