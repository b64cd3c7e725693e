"""Mistakes on the command line, in calcli's words: what was given, the nearest thing that exists, where to look."""

from __future__ import annotations

import re
from typing import Any

import typer

from calcli.errors import UsageError, nearest

_MISTAKE = typer.BadParameter.__mro__[1]
"""The base of all usage errors: Typer carries its own click, and of its errors exports this one subclass."""


def explained(error: BaseException) -> UsageError | None:
    """The same mistake as one of ours; None if it is none."""
    if not isinstance(error, _MISTAKE):
        return None
    context = getattr(error, "ctx", None)
    hint = f"see: {context.command_path} --help" if context is not None else "see: calcli --help"
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
    """A command that does not exist; `path` is what stands before it."""
    match = nearest(name, known)
    said = f"; did you mean {match}?" if match else f"; there is {', '.join(known)}"
    return UsageError(f"no command {name!r}{said}", hint=f"see: {path} --help")


def _no_such_option(name: str, context: Any, hint: str) -> UsageError:
    if context is None:
        return UsageError(f"no option {name}", hint=hint)
    known = [option for param in context.command.get_params(context) for option in param.opts if option[:1] == "-"]
    match = nearest(name, [option for option in known if option.startswith("--")])
    if match:
        said = f"did you mean {match}?"
    elif context.parent is None:
        said = "options of a command stand after its name"
    else:
        said = f"{context.info_name} has {', '.join(known)}"
    return UsageError(f"no option {name}; {said}", hint=hint)


def _missing(param: Any, context: Any, hint: str) -> UsageError:
    command = context.info_name if context is not None else "calcli"
    if param is None:
        return UsageError(f"{command} needs more than that", hint=hint)
    if param.name == "data":
        return UsageError(f"{command} needs a table: a file, a glob, a directory, or - for standard input", hint=hint)
    word = param.human_readable_name if param.param_type_name == "argument" else param.opts[-1]
    return UsageError(f"{command} needs {word}", hint=hint)


def _too_many(message: str, context: Any, hint: str) -> UsageError | None:
    given = re.search(r"extra argument\(?s?\)? \((.*)\)", message, re.DOTALL)
    if given is None or context is None:
        return None
    return UsageError(f"{context.info_name} takes no further argument: {given[1]}", hint=hint)


def _bad_value(error: Any, context: Any, hint: str) -> UsageError:
    """A value that an option does not take, with the nearest that it does."""
    where = _origin(error.param, context) if error.param is not None else "the command line"
    kind = getattr(error.param, "type", None)
    given = re.match(r"'?(.*?)'? is not ", error.message, re.DOTALL)
    if given is None:
        return UsageError(f"{where}: {_lowered(error.message)}", hint=hint)
    choices = [str(choice) for choice in getattr(kind, "choices", ())]
    if choices:
        match = nearest(given[1], choices)
        said = f"there is no {given[1]!r}, only {', '.join(choices)}"
        return UsageError(f"{where}: {said}", hint=f"did you mean {match}?" if match else hint)
    number = {"int": "a whole number", "flo": "a number"}.get(str(getattr(kind, "name", ""))[:3])
    if number is not None:
        least = getattr(kind, "min", None)
        limit = "" if least is None else f", {least:g} or more"
        return UsageError(f"{where} takes {number}{limit}, not {given[1]!r}", hint=hint)
    return UsageError(f"{where}: {_lowered(error.message.partition('.')[0])}", hint=hint)


def _origin(param: Any, context: Any) -> str:
    """The option by its name, or the environment variable that spoke in its place."""
    source = context.get_parameter_source(param.name) if context is not None else None
    if source is not None and source.name == "ENVIRONMENT":
        return str(param.envvar)
    return str(param.human_readable_name if param.param_type_name == "argument" else param.opts[-1])


def _lowered(text: str) -> str:
    """A sentence of Typer's as the middle of one of ours."""
    return (text[:1].lower() + text[1:]).rstrip(".")
