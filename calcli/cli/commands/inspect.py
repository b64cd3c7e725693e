"""``calcli inspect``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.arguments import Arguments
from calcli.cli.signature import command
from calcli.errors import UsageError

EXAMPLES = """\
calcli inspect train.platt
calcli inspect train.mbct --rules
calcli inspect train.mbct --explain test.parquet -o why.png
calcli inspect train.mbct --explain test.parquet --row 3
calcli inspect train.platt --format json"""


@command(
    options.ARTIFACT,
    options.RULES,
    options.EXPLAIN,
    options.ROW,
    options.EXPLANATION_OUTPUT,
    options.TABLE_OR_JSON,
    options.STORAGE_OPTION,
    options.NO_COLOR,
    options.DEBUG,
)
def inspect(arguments: Arguments) -> None:
    """Describe an artifact and its held-out performance.

    Reads the whole artifact and checks the hash of every file.
    """
    if arguments["explain"] is not None:
        from calcli.verbs.explain import ExplainRequest, explain

        request = ExplainRequest(
            arguments["artifact"], arguments["explain"], arguments["row"], output=arguments["output"]
        )
        output.explained(explain(request), arguments["form"], arguments.console())
        return
    for flag in ("row", "output"):
        if arguments[flag] is not None:
            raise UsageError(f"--{flag} needs --explain DATA")
    from calcli.verbs.inspect import inspect as run

    inspection = run(arguments["artifact"], rules=arguments["rules"])
    output.inspected(inspection, arguments["form"], arguments.console())
