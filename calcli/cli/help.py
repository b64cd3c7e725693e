"""The layout of help: a summary, the usage, examples, then the options by panel.

Plain text of our own: Rich takes longer to import than everything else that ``--help`` does.
"""

from __future__ import annotations

import inspect
import re
import sys
from typing import Any

from typer.core import TyperCommand, TyperGroup

from calcli.cli.environment import variable_of
from calcli.cli.screen import Screen
from calcli.cli.text import described, wrapped
from calcli.reporting.typesetting import glued

WIDEST = 80
GENERAL = "General"
"""The panel of options that have no other."""

_PANELS = {panel: panel for panel in ("Input", "Method", "Decision", "Check", "Output", "Columns", GENERAL)}
_PANELS["Columns"] += " (default: as in the artifact, or found by their usual names)"


class Command(TyperCommand):
    """A command whose `epilog` is its examples, one a line."""

    def get_help(self, ctx: Any) -> str:
        screen = Screen.of(sys.stdout)
        width = min(screen.width, WIDEST)
        summary, *paragraphs = _paragraphs(self.help or "")
        lines = [*wrapped(summary, width), "", f"{screen.bold('Usage:')} {_usage(self, ctx)}"]
        for paragraph in paragraphs:
            lines += ["", *wrapped(paragraph, width)]
        lines += ["", screen.bold("Examples:"), *(f"  {line}" for line in (self.epilog or "").splitlines())]
        lines += _panels(self, ctx, screen, width)
        lines += ["", *wrapped(_environment(self.get_params(ctx)), width)]
        return screen.fit("\n".join(lines))


class Overview(TyperGroup):
    """The program itself: `epilog` is its examples."""

    def get_help(self, ctx: Any) -> str:
        screen = Screen.of(sys.stdout)
        width = min(screen.width, WIDEST)
        commands = [(name, self.summary(name)) for name in self.list_commands(ctx)]
        lines = [*wrapped(self.help or "", width)]
        lines += ["", screen.bold("Examples:"), *(f"  {line}" for line in (self.epilog or "").splitlines())]
        lines += ["", f"{screen.bold('Usage:')} {ctx.command_path} COMMAND [OPTIONS] ..."]
        lines += ["", screen.bold("Commands:"), *described(commands, width)]
        lines += _panels(self, ctx, screen, width)
        lines += ["", f"Run {ctx.command_path} COMMAND --help for the options of a command."]
        return screen.fit("\n".join(lines))

    def summary(self, name: str) -> str:
        """The first line of a command's help."""
        raise NotImplementedError


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.split()) for part in inspect.cleandoc(text).split("\n\n")]


def _usage(command: Any, ctx: Any) -> str:
    arguments = [param.metavar for param in command.params if param.param_type_name == "argument"]
    return " ".join([ctx.command_path, *arguments, "[OPTIONS]"])


def _environment(params: list[Any]) -> str:
    """The variables of options: an example, and the exceptions, whose variables name the command too."""
    pairs = [(param.opts[-1], param.envvar) for param in params if param.param_type_name == "option" and param.envvar]
    shown = [pair for pair in pairs if pair[1] == variable_of(pair[0])][:1]
    shown += [pair for pair in pairs if pair[1] != variable_of(pair[0])]
    return f"Environment variables set options too: {', '.join(f'{flag} is {variable}' for flag, variable in shown)}."


def _panels(command: Any, ctx: Any, screen: Screen, width: int) -> list[str]:
    """The parameters under the headings of their panels, all in one column."""
    panels: dict[str, list[tuple[str, str]]] = {panel: [] for panel in _PANELS}
    for param in command.get_params(ctx):
        if not param.hidden:
            panels[param.rich_help_panel or GENERAL].append((_name(param), _description(param)))
    least = min(24, max((len(name) for entries in panels.values() for name, _ in entries), default=0))
    lines: list[str] = []
    for panel, entries in panels.items():
        if entries:
            lines += ["", screen.bold(f"{_PANELS[panel]}:"), *described(entries, width, least=least, most=24)]
    return lines


def _name(param: Any) -> str:
    """``-m, --method NAME``, or an argument's ``DATA...``."""
    if param.param_type_name == "argument":
        return str(param.metavar)
    short = [option for option in param.opts if not option.startswith("--")]
    long = [option for option in param.opts if option.startswith("--")]
    value = "" if param.is_flag or param.metavar is None else f" {param.metavar}"
    return f"{', '.join([*short, *long])}{value}"


def _description(param: Any) -> str:
    """Its help without the last full stop, and its default."""
    text = re.sub(r"(?<!\.)\.$", "", param.help or "")
    if param.default is None or not param.show_default or getattr(param, "is_flag", False):
        return text
    value = f"{param.default:g}" if isinstance(param.default, float) else param.default
    return f"{text} {glued(f'[default: {value}]')}"
