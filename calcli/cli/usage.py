"""Mistakes on the command line as errors of calcli: the given words, the nearest valid ones, where to look."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any

import typer

from calcli.errors import UsageError, available, nearest

_MISTAKE = typer.BadParameter.__mro__[1]
"""The base of click's usage errors. Typer has a copy of click, and exports only this subclass of its errors."""


def explained(error: BaseException, words: Sequence[str]) -> UsageError | None:
    """A usage error of click on a command line of these words as an error of calcli; None for any other exception."""
    if not isinstance(error, _MISTAKE):
        return None
    context = getattr(error, "ctx", None)
    command = [word for word in words[:1] if word[:1] != "-"]  # click does not tell it of every error
    path = context.command_path if context is not None else " ".join(["calcli", *command])
    hint = f"see: {path} --help"
    match type(error).__name__:
        case "NoSuchOption":
            return _no_such_option(getattr(error, "option_name", "?"), context, hint)
        case "BadOptionUsage":
            return UsageError(f"{getattr(error, 'option_name', 'the option')} needs a value", hint=hint)
        case "MissingParameter":
            return _missing(getattr(error, "param", None), context, hint)
        case "BadParameter":
            return _bad_value(error, context, hint)
    return _too_many(str(error), context, hint) or UsageError(_lowered(str(error)), hint=hint)


def no_such_command(name: str, known: list[str], path: str) -> UsageError:
    """The error for an unknown command; `path` is the part of the line before it."""
    match = nearest(name, known)
    advice = f"did you mean {match}?" if match else available(known, limit=20)
    return UsageError(f"no command {name!r}; {advice}", hint=f"see: {path} --help")


def _no_such_option(name: str, context: Any, hint: str) -> UsageError:
    if context is None:
        return UsageError(f"no option {name}", hint=hint)
    if name == "--multi":
        one = "name one: --label LABEL --prob SCORE, or of an artifact of several 'DIR#LABEL'"
        return UsageError(f"{context.info_name} takes one label at a time", hint=one)
    known = [option for param in context.command.get_params(context) for option in param.opts if option[:1] == "-"]
    match = nearest(name, [option for option in known if option.startswith("--")])
    if match:
        advice = f"did you mean {match}?"
    elif context.parent is None:
        advice = "options of a command stand after its name"
    elif name in ("-o", "--output") and "--format" in known:
        advice = f"{context.info_name} writes to standard output: --format json > FILE"
    else:
        advice = f"{context.info_name} has none like it"
    return UsageError(f"no option {name}; {advice}", hint=hint)


def _missing(param: Any, context: Any, hint: str) -> UsageError:
    command = context.info_name if context is not None else "calcli"
    if param is None:
        return UsageError(f"{command} needs another argument", hint=hint)
    if param.name == "data":
        return UsageError(f"{command} needs a table: a file, a glob, a directory, or - for standard input", hint=hint)
    return UsageError(f"{command} needs {_origin(param, context)}", hint=hint)


def _too_many(message: str, context: Any, hint: str) -> UsageError | None:
    given = re.search(r"extra argument\(?s?\)? \((.*)\)", message, re.DOTALL)
    if given is None or context is None:
        return None
    return UsageError(f"{context.info_name} takes no further argument: {given[1]}", hint=hint)


def _bad_value(error: Any, context: Any, hint: str) -> UsageError:
    """The error for a value that an option does not take, with the nearest valid one."""
    where = _origin(error.param, context) if error.param is not None else "the command line"
    kind = getattr(error.param, "type", None)
    given = re.match(r"'?(.*?)'? is not ", error.message, re.DOTALL)
    if given is None:
        return UsageError(f"{where}: {_lowered(error.message)}", hint=hint)
    choices = [str(choice) for choice in getattr(kind, "choices", ())]
    if choices:
        match = nearest(given[1], choices)
        message = f"{where}: there is no {given[1]!r}, only {', '.join(choices)}"
        return UsageError(message, hint=f"did you mean {match}?" if match else hint)
    number = {"int": "a whole number", "flo": "a number"}.get(str(getattr(kind, "name", ""))[:3])
    if kind is not None and number is not None:
        most = "or more" if kind.max >= sys.maxsize else f"to {kind.max:,}"
        return UsageError(f"{where} takes {number}, {kind.min:,} {most}, not {given[1]!r}", hint=hint)
    return UsageError(f"{where}: {_lowered(error.message.partition('.')[0])}", hint=hint)


def _origin(param: Any, context: Any) -> str:
    """The option, or the environment variable that gave its value."""
    source = context.get_parameter_source(param.name) if context is not None else None
    if source is not None and source.name == "ENVIRONMENT":
        return str(param.envvar)
    return str(param.human_readable_name if param.param_type_name == "argument" else param.opts[-1])


def _lowered(text: str) -> str:
    """A sentence of click without its capital and full stop, to stand inside another one."""
    return (text[:1].lower() + text[1:]).rstrip(".")
