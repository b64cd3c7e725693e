"""The program, its commands and the layout of their help.

The commands are imported when one of them is called, so that start-up does not pay for their options. Help is plain
text of our own: Rich takes longer to import than everything else that ``--help`` does.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from calcli.cli.process import variable_of, write
from calcli.cli.screen import Screen, described, wrapped
from calcli.errors import UsageError
from calcli.reporting.typesetting import glued
from calcli.version import VERSION

COMMANDS = {
    "fit": "Fit a calibrator, check it on held-out rows, and save it.",
    "apply": "Add calibrated probabilities to a table.",
    "evaluate": "Measure scores before and after calibration.",
    "diagram": "Draw reliability diagrams: predicted probabilities against observed rates.",
    "compare": "Compare methods, and no calibration, on held-out rows.",
    "refit": "Fit an artifact again on new rows, and keep the better one.",
    "decide": "Choose a threshold by costs or by a target, and save it as a policy.",
    "estimate": "Estimate the rate of a label where few rows have one.",
    "export": "Export a calibrator as SQL, JSON or ONNX.",
    "uncertainty": "Measure how uncertain predictions are, and why.",
    "inspect": "Describe an artifact and its held-out performance.",
    "methods": "List the calibration methods, or describe one.",
    "metrics": "List the metrics, or describe one.",
}
"""The first line of each command's help, by the name of its function in `calcli.cli.commands`."""

GROUPS = {
    "uncertainty": {
        "fit": "Train an ensemble of CatBoost models, and save it.",
        "apply": "Add predictions and their uncertainty to a table.",
        "evaluate": "Measure ensembles, and how well their uncertainty finds errors.",
        "decompose": "Decompose the uncertainty of ensemble predictions in a table.",
    }
}
"""Groups of commands: ``calcli uncertainty fit`` is the function `uncertainty_fit`."""

_EXAMPLES = {
    "calcli": """\
calcli fit train.parquet --method platt                 # saves ./train.platt/
calcli apply train.platt new.parquet -o scored.parquet  # adds `calibrated`
calcli evaluate test.parquet --with train.platt         # is it better?""",
    "uncertainty": """\
calcli uncertainty fit train.parquet                  # saves ./train.sglb/
calcli uncertainty apply train.sglb new.csv -o out.csv
calcli uncertainty evaluate test.csv --with train.sglb --ood other.csv""",
}
"""The examples of the program and of its groups."""

_USUAL = {"--rules": "20", "--find-segments": "5"}
"""The numbers of options that may stand without one."""

_LIST = "A,B,..."
"""The metavar of a list of names."""

_NAMES = {"help_option_names": ["-h", "--help"]}

_WIDEST = 80
_GENERAL = "General"
"""The panel of options without a panel of their own."""

_PANELS = {panel: panel for panel in ("Input", "Method", "Decision", "Check", "Output", "Columns", _GENERAL)}
_PANELS["Columns"] += " (default: as in the artifact, or found by their usual names)"


def every_command() -> dict[tuple[str, ...], str]:
    """The first line of every command's help, by the words that call it; a group comes before its commands."""
    summaries: dict[tuple[str, ...], str] = {}
    for name, summary in COMMANDS.items():
        summaries[(name,)] = summary
        summaries |= {(name, inner): line for inner, line in GROUPS.get(name, {}).items()}
    return summaries


def build() -> Any:
    """The program as a click command."""
    app = typer.Typer(cls=Overview, rich_markup_mode=None, context_settings=_NAMES, epilog=_EXAMPLES["calcli"])
    app.callback(invoke_without_command=True)(_alone)
    return get_command(app)


def _group(name: str) -> Any:

    class Group(Overview):
        summaries = GROUPS[name]

        def built(self, inner: str) -> Any:
            return _command(f"{name}_{inner}", inner)

    app = typer.Typer(cls=Group, rich_markup_mode=None, add_completion=False, epilog=_EXAMPLES[name])
    app.callback(invoke_without_command=True, help=COMMANDS[name])(_show_help)
    return get_command(app)


def _command(function: str, name: str) -> Any:
    from calcli.cli import commands
    from calcli.cli.arguments import signed

    run = signed(getattr(commands, function))
    alone = typer.Typer(rich_markup_mode=None, add_completion=False)
    alone.command(name, cls=Command, epilog=run.examples)(run)
    return get_command(alone)


def _print_version(wanted: bool) -> None:
    if wanted:
        write(f"calcli {VERSION}\n")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
]


def _alone(ctx: typer.Context, version: Version = False) -> None:
    """Calibrate the predictions in a table, and measure whether it helped."""
    _show_help(ctx)


def _show_help(ctx: typer.Context) -> None:
    if ctx.invoked_subcommand is None:
        write(f"{ctx.get_help()}\n")


class Command(TyperCommand):
    """A command whose `epilog` is its examples, one a line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = {flag: usual for flag, usual in _USUAL.items() if any(flag in param.opts for param in self.params)}
        for place in reversed(range(len(args))):
            if args[place] in known and not "".join(args[place + 1 : place + 2]).isdecimal():
                args = [*args[: place + 1], known[args[place]], *args[place + 1 :]]
        self._check_lists(ctx, args)
        return super().parse_args(ctx, args)

    def _check_lists(self, ctx: Any, args: list[str]) -> None:
        """Refuse a list that is given in parts, of which the last alone would count."""
        *_, order = self.make_parser(ctx).parse_args(args=[*args])
        for param in order:
            if str(param.metavar).startswith(_LIST) and order.count(param) > 1:
                flag = param.opts[-1]
                raise UsageError(f"{flag} is given more than once", hint=f"name all at once: {flag} {_LIST}")

    def get_help(self, ctx: Any) -> str:
        screen = Screen.of(sys.stdout)
        width = min(screen.width, _WIDEST)
        summary, *paragraphs = (" ".join(part.split()) for part in inspect.cleandoc(self.help or "").split("\n\n"))
        arguments = [str(param.metavar) for param in self.params if param.param_type_name == "argument"]
        usage = " ".join([ctx.command_path, *arguments, "[OPTIONS]"])
        lines = [*wrapped(summary, width), "", f"{screen.bold('Usage:')} {usage}"]
        for paragraph in paragraphs:
            lines += ["", *wrapped(paragraph, width)]
        lines += _examples(self, screen)
        lines += _panels(self, ctx, screen, width)
        lines += ["", *wrapped(_environment(self.get_params(ctx)), width)]
        return screen.fit(lines)


class Overview(TyperGroup):
    """Commands by name, each built when it is called; the first lines of their help stand in `summaries`.

    The `epilog` is the examples.
    """

    summaries: Mapping[str, str] = COMMANDS

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.summaries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.built(cmd_name) if cmd_name in self.summaries else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.summaries and not ctx.resilient_parsing:
            from calcli.cli.usage import no_such_command

            raise no_such_command(args[0], list(self.summaries), ctx.command_path)
        return super().resolve_command(ctx, args)

    def built(self, name: str) -> Any:
        return _group(name) if name in GROUPS else _command(name, name)

    def get_help(self, ctx: Any) -> str:
        screen = Screen.of(sys.stdout)
        width = min(screen.width, _WIDEST)
        lines = [*wrapped(self.help or "", width), *_examples(self, screen)]
        lines += ["", f"{screen.bold('Usage:')} {ctx.command_path} COMMAND [OPTIONS] ..."]
        lines += ["", screen.bold("Commands:"), *described(self.summaries.items(), width)]
        lines += _panels(self, ctx, screen, width)
        lines += ["", f"Run {ctx.command_path} COMMAND --help for the options of a command."]
        return screen.fit(lines)


def _examples(command: Any, screen: Screen) -> list[str]:
    return ["", screen.bold("Examples:"), *(f"  {line}" for line in (command.epilog or "").splitlines())]


def _environment(params: list[Any]) -> str:
    """The variables of options: an example, and the exceptions, which name the command too."""
    pairs = [(param.opts[-1], param.envvar) for param in params if param.param_type_name == "option" and param.envvar]
    shown = [pair for pair in pairs if pair[1] == variable_of(pair[0])][:1]
    shown += [pair for pair in pairs if pair[1] != variable_of(pair[0])]
    return f"Environment variables set options too: {', '.join(f'{flag} is {variable}' for flag, variable in shown)}."


def _panels(command: Any, ctx: Any, screen: Screen, width: int) -> list[str]:
    """The parameters under the headings of their panels, all in one column."""
    panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _PANELS}
    for param in command.get_params(ctx):
        if not param.hidden:
            panels[param.rich_help_panel or _GENERAL].append((_name(param), _description(param)))
    least = min(24, max((len(name) for entries in panels.values() for name, _ in entries), default=0))
    lines: list[str] = []
    for panel, entries in panels.items():
        if entries:
            lines += ["", screen.bold(f"{_PANELS[panel]}:"), *described(entries, width, least=least, most=24)]
    return lines


def _name(param: Any) -> str:
    """``-m, --method NAME`` for an option, ``DATA...`` for an argument."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    short = [option for option in param.opts if not option.startswith("--")]
    long = [option for option in param.opts if option.startswith("--")]
    value = "" if param.is_flag or param.metavar is None else f" {param.metavar}"
    return f"{', '.join([*short, *long])}{value}"


def _description(param: Any) -> str:
    """The help of a parameter without the last full stop, and its default."""
    text = re.sub(r"(?<!\.)\.$", "", param.help or "")
    if param.default is None or not param.show_default or getattr(param, "is_flag", False):
        return text
    value = f"{param.default:g}" if isinstance(param.default, float) else param.default
    return f"{text} {glued(f'[default: {value}]')}"
