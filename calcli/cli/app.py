"""The program and its commands.

A command's module is imported when the command is called, so that start-up does not pay for the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.main import get_command

from calcli.cli.help import Command, Overview
from calcli.cli.streams import write
from calcli.version import VERSION

COMMANDS = {
    "fit": "Fit a calibrator, check it on held-out rows, and save it.",
    "apply": "Add calibrated probabilities to a table.",
    "evaluate": "Measure scores before and after calibration.",
    "diagram": "Draw reliability diagrams: predicted probabilities against observed rates.",
    "compare": "Compare methods, and no calibration, on held-out rows.",
    "refit": "Fit an artifact again on new rows, and keep the better one.",
    "decide": "Choose a threshold by costs or by a target, and save it as a policy.",
    "export": "Export a calibrator as SQL, JSON or ONNX.",
    "uncertainty": "Measure how uncertain predictions are, and why.",
    "inspect": "Describe an artifact and its held-out performance.",
    "methods": "List the calibration methods, or describe one.",
    "metrics": "List the metrics, or describe one.",
}
"""The first line of each command's help. The command is the function of this name in the module of this name."""

GROUPS = {
    "uncertainty": {
        "fit": "Train an ensemble of CatBoost models, and save it.",
        "apply": "Add predictions and their uncertainty to a table.",
        "evaluate": "Measure ensembles, and how well their uncertainty finds errors.",
        "decompose": "Decompose the uncertainty of ensemble predictions in a table.",
    }
}
"""Groups of commands: ``calcli uncertainty fit`` is `fit` in the module `uncertainty_fit`."""


def every_command() -> dict[tuple[str, ...], str]:
    """The first line of every command's help, by the words that call it; a group comes before its commands."""
    summaries: dict[tuple[str, ...], str] = {}
    for name, summary in COMMANDS.items():
        summaries[(name,)] = summary
        summaries |= {(name, inner): line for inner, line in GROUPS.get(name, {}).items()}
    return summaries


EXAMPLES = """\
calcli fit train.parquet --method platt                 # saves ./train.platt/
calcli apply train.platt new.parquet -o scored.parquet  # adds `calibrated`
calcli evaluate test.parquet --with train.platt         # is it better?"""

_NAMES = {"help_option_names": ["-h", "--help"]}


class _Lazy(Overview):
    """Commands by name, each built when it is called."""

    commands_by_name: Mapping[str, str] = {}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands_by_name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.built(cmd_name) if cmd_name in self.commands_by_name else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands_by_name and not ctx.resilient_parsing:
            from calcli.cli.usage import no_such_command

            raise no_such_command(args[0], list(self.commands_by_name), ctx.command_path)
        return super().resolve_command(ctx, args)

    def summary(self, name: str) -> str:
        return self.commands_by_name[name]

    def built(self, name: str) -> Any:
        """The command of this name."""
        raise NotImplementedError


class Program(_Lazy):
    """All commands."""

    commands_by_name = COMMANDS

    def built(self, name: str) -> Any:
        return _group(name) if name in GROUPS else _command(name, name)


def build() -> Any:
    """The program as a click command."""
    app = typer.Typer(cls=Program, rich_markup_mode=None, context_settings=_NAMES, epilog=EXAMPLES)
    app.callback(invoke_without_command=True)(_alone)
    return get_command(app)


def _group(name: str) -> Any:
    """A group of commands."""
    module = importlib.import_module(f"calcli.cli.commands.{name}")

    class Group(_Lazy):
        commands_by_name = GROUPS[name]

        def built(self, inner: str) -> Any:
            return _command(f"{name}_{inner}", inner)

    app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False, epilog=module.EXAMPLES)
    app.callback(invoke_without_command=True)(getattr(module, name))
    return get_command(app)


def _command(module_name: str, name: str) -> Any:
    module = importlib.import_module(f"calcli.cli.commands.{module_name}")
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, cls=Command, epilog=module.EXAMPLES)(getattr(module, name))
    return get_command(alone)


def _print_version(wanted: bool) -> None:
    if wanted:
        write(f"calcli {VERSION}\n")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


def _alone(ctx: typer.Context, version: Version = False) -> None:
    """Calibrate the predictions in a table, and measure whether it helped."""
    if ctx.invoked_subcommand is None:
        write(f"{ctx.get_help()}\n")
