"""``calcli inspect``."""

from __future__ import annotations

from calcli.cli import options, output
from calcli.cli.console import Console

EXAMPLES = """\
calcli inspect train.platt
calcli inspect train.mbct --rules
calcli inspect train.platt --format json"""


def inspect(
    artifact: options.Artifact,
    rules: options.Rules = False,
    form: options.TableOrJson = "table",
    no_color: options.NoColor = False,
    debug: options.Debug = False,
) -> None:
    """Say what an artifact is, and how good it was.

    Reads it whole and checks every hash: what cannot be inspected cannot be applied.
    """
    from calcli.verbs.inspect import inspect as run

    output.inspected(run(artifact, rules=rules), form, Console(no_color=no_color))
