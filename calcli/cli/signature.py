"""Options as data, and commands that share them: Typer reads a command's options from a signature built here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import Parameter, Signature
from typing import Any, NamedTuple

import typer

from calcli.cli.arguments import Arguments
from calcli.cli.environment import variable_of
from calcli.errors import UsageError

REQUIRED: Any = ...

_PATHS = ("FILE", "DIR", "DATA", "ARTIFACT", "ENSEMBLE")
"""Words of a metavar that stands for a path."""


class Option(NamedTuple):
    """An option of a command, or an argument, which has no flags.

    Attributes
    ----------
    field
        The name of its value, as a rule that of the request's field.
    kind
        The type that Typer parses.
    convert
        A function from the parsed value to the field's.
    more
        Further arguments of `typer.Option`: help, panel, metavar, completion.
    """

    field: str
    flags: tuple[str, ...]
    kind: Any
    default: Any
    convert: Callable[[Any], Any] | None
    more: dict[str, Any]

    def parameter(self) -> Parameter:
        """The parameter in the signature that Typer reads."""
        info = (typer.Option if self.flags else typer.Argument)(self.default, *self.flags, **self.more)
        return Parameter(self.field, Parameter.KEYWORD_ONLY, default=info, annotation=self.kind)

    def value(self, parsed: Any) -> Any:
        """The field's value. Names of files can be any bytes; everything else is text."""
        if not any(word in (self.more["metavar"] or "") for word in _PATHS):
            for text in parsed if isinstance(parsed, list) else [parsed]:
                if isinstance(text, str) and not _is_text(text):
                    name = self.flags[-1] if self.flags else self.more["metavar"]
                    raise UsageError(f"{name}: {text!r} is not UTF-8 text", hint="write it in UTF-8")
        if isinstance(parsed, float) and math.isnan(parsed):
            raise UsageError(f"{self.flags[-1]} takes a number, not {parsed}")
        return parsed if self.convert is None else self.convert(parsed)


def _is_text(text: str) -> bool:
    """Whether the words that the shell sent were UTF-8: Python keeps other bytes as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def option(
    panel: str | None,
    spec: str,
    help: str,  # noqa: A002 Typer's word
    default: Any = None,
    *,
    field: str | None = None,
    kind: Any = None,
    convert: Callable[[Any], Any] | None = None,
    complete: Callable[..., list[str]] | None = None,
    variable: str | None = None,
    **more: Any,
) -> Option:
    """An option, which an environment variable can give too.

    Help lists it under the heading `panel`. `spec` has the flags and the metavar: ``-m --method NAME``. By default
    `field` is the long flag and `kind` the type of `default`, text for None; ``list`` is for options that can be given
    several times. `variable` is ``CALCLI_<FLAG>`` unless the flag has another meaning in another command.
    """
    words = spec.split()
    flags = tuple(word for word in words if word.startswith("-"))
    name = flags[-1].removeprefix("--").replace("-", "_")
    if kind is list:
        kind, convert = list[str] | None, convert or _several
    elif kind is None:
        kind = str if default is REQUIRED else str | None if default is None else type(default)
    more = {"show_default": default is not REQUIRED, **more, "help": help, "rich_help_panel": panel}
    more |= {"metavar": " ".join(words[len(flags) :]) or None, "autocompletion": complete}
    more |= {"envvar": variable or variable_of(flags[-1])}
    return Option(field or name, flags, kind, default, convert, more)


def argument(metavar: str, help: str, default: Any = REQUIRED, *, kind: Any = str, **more: Any) -> Option:  # noqa: A002
    """A positional argument."""
    more |= {"metavar": metavar, "help": help, "rich_help_panel": "Input"}
    return Option(metavar.strip("[].").lower(), (), kind, default, None, more)


def command(*options: Option) -> Callable[[Callable[[Arguments], None]], Callable[..., None]]:
    """Declare a command with these options, which help lists in this order."""

    def declare(function: Callable[[Arguments], None]) -> Callable[..., None]:
        def run(**parsed: Any) -> None:
            arguments = Arguments({option.field: option.value(parsed[option.field]) for option in options})
            with _told(arguments.get("storage_option")):
                function(arguments)

        run.__doc__ = function.__doc__
        run.__signature__ = Signature([option.parameter() for option in options])  # type: ignore[attr-defined]
        return run

    return declare


def _told(options: Mapping[str, str] | None) -> AbstractContextManager[None]:
    """What the object stores are told as long as a command runs."""
    if not options:
        return nullcontext()
    from calcli.places.stores import storage_options

    return storage_options(options)


def _several(values: list[str] | None) -> tuple[str, ...]:
    return tuple(values or ())
