"""The command line as data: options, from which Typer reads a command's signature, and what their values become."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import fields, is_dataclass, replace
from inspect import Parameter, Signature, cleandoc, signature
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import typer

from calcli.cli.output import Answer, check_file, show, write_file
from calcli.cli.process import THREAD_VARIABLES, Console, variable_of, write_stderr
from calcli.cli.screen import is_terminal
from calcli.errors import UsageError
from calcli.numeric.threads import check_addresses, processors

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Request = TypeVar("Request", bound="DataclassInstance")
Command: TypeAlias = "Callable[[Arguments, Console], Answer | None]"

REQUIRED: Any = ...

_PATHS = ("FILE", "DIR", "DATA", "ARTIFACT", "ENSEMBLE")
"""Words of a metavar that stands for a path."""

_CHOICES = re.compile(r"[a-z0-9-]+(\|[a-z0-9-]+)+")
"""A metavar that lists all values."""


PRESENTATION = frozenset(
    {"form", "report_file", "html", "picture", "rollback", "threads", "quiet", "no_color", "debug", "lock_timeout"}
)
"""Options that are no fields of requests, because they concern the form of the answer."""

PLACES = frozenset({"query", "table", "replace", "storage_option"})
"""Options that locate tables; they become part of the fields that name the tables."""


class Option(NamedTuple):
    """An option of a command, or an argument, which has no flags."""

    field: str
    """The name of its value, as a rule that of the request's field."""

    flags: tuple[str, ...]
    kind: Any
    """The type that Typer parses."""

    default: Any
    convert: Callable[[Any], Any] | None
    """A function from the parsed value to the field's."""

    more: dict[str, Any]
    """Further arguments of `typer.Option`: help, panel, metavar, completion."""

    def parameter(self) -> Parameter:
        """The parameter in the signature that Typer reads."""
        info = (typer.Option if self.flags else typer.Argument)(self.default, *self.flags, **self.more)
        return Parameter(self.field, Parameter.KEYWORD_ONLY, default=info, annotation=self.kind)

    def value(self, parsed: Any) -> Any:
        """The field's value. Names of files can be any bytes; everything else is text."""
        if not any(word in (self.more["metavar"] or "") for word in _PATHS):
            for text in parsed if isinstance(parsed, list) else [parsed]:
                # Python keeps bytes of the shell that are not UTF-8 as surrogates.
                if isinstance(text, str) and any("\ud800" <= letter <= "\udfff" for letter in text):
                    name = self.flags[-1] if self.flags else self.more["metavar"]
                    raise UsageError(f"{name}: {text!r} is not UTF-8 text", hint="write it in UTF-8")
        if isinstance(parsed, float) and math.isnan(parsed):
            raise UsageError(f"{self.flags[-1]} takes a number, not {parsed}")
        return parsed if self.convert is None else self.convert(parsed)


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
    bounds: tuple[float, float] | None = None,
    only: str | None = None,
    **more: Any,
) -> Option:
    """An option, which an environment variable can give too.

    Help lists it under the heading `panel`. `spec` has the flags and the metavar: ``-m --method NAME``. By default
    `field` is the long flag, and `kind` the choices of a metavar such as ``a|b``, a whole number if there are `bounds`,
    else the type of `default`, which is text for None; ``list`` is for options that can be given several times. The
    variable is ``CALCLI_<FLAG>``; it names the command `only` whose flag has another meaning than elsewhere.
    """
    words = spec.split()
    flags = tuple(word for word in words if word.startswith("-"))
    metavar = " ".join(words[len(flags) :])
    if kind is list:
        kind, convert = list[str] | None, convert or (lambda values: tuple(values or ()))
    elif kind is None:
        kind = str if default in (REQUIRED, None) else type(default)
        if _CHOICES.fullmatch(metavar):
            kind = Literal[tuple(metavar.split("|"))]
        elif bounds is not None and default is None:
            kind = int
        kind = kind | None if default is None else kind
    if bounds is not None:
        more |= {"min": bounds[0], "max": bounds[1]}
    more = {"show_default": default is not REQUIRED, **more, "help": help, "rich_help_panel": panel}
    more |= {"metavar": metavar or None, "autocompletion": complete, "envvar": variable_of(flags[-1], only)}
    name = flags[-1].removeprefix("--").replace("-", "_")
    return Option(field or name, flags, kind, default, convert, more)


def argument(metavar: str, help: str, default: Any = REQUIRED, *, kind: Any = str, **more: Any) -> Option:  # noqa: A002
    more |= {"metavar": metavar, "help": help, "rich_help_panel": "Input"}
    return Option(metavar.strip("[].").lower(), (), kind, default, None, more)


def with_options(options: Sequence[Option]) -> Callable[[Command], Callable[..., None]]:
    """Declare a command with these options. The examples in its docstring become an attribute, apart from its help.

    Its signature is made by `signed`, once it is called: those of all commands take a tenth of the time of `--help`.
    """

    def declare(function: Command) -> Callable[..., None]:
        def run(**parsed: Any) -> None:
            arguments = Arguments({option.field: option.value(parsed[option.field]) for option in options})
            if not arguments.keys().isdisjoint(("data", "artifact", "ensemble")):  # it reads tables or arrays
                check_addresses()
            with _settings_of_stores(arguments.get("storage_option")), _patience(arguments):
                console = arguments.console()
                check_file(*(arguments.get(name) for name in ("report_file", "data", "input_format")))
                answer = function(arguments, console)
                if answer is not None:
                    if answer.page is not None and (page := arguments.get("html")) is not None:
                        write_file(answer.page().encode(), page, f"the page is in {page}", console)
                    show(answer, arguments.get("form", "table"), console, arguments.get("report_file"))

        run.__doc__, _, examples = cleandoc(function.__doc__ or "").partition("\n\nExamples\n--------\n")
        run.examples = examples  # type: ignore[attr-defined]
        run.options = options  # type: ignore[attr-defined]
        return run

    return declare


def signed(run: Any) -> Any:
    """A declared command with the signature that Typer reads."""
    run.__signature__ = Signature([option.parameter() for option in run.options])
    return run


def _settings_of_stores(options: Mapping[str, str] | None) -> AbstractContextManager[None]:
    """The settings of object stores as long as a command runs."""
    if not options:
        return nullcontext()
    from calcli.places.stores import storage_options

    return storage_options(options)


def _patience(arguments: Arguments) -> AbstractContextManager[None]:
    """How long the command waits for locks, and the line that says so."""
    if "lock_timeout" not in arguments:
        return nullcontext()
    from calcli.files import patience

    return patience(arguments["lock_timeout"], lambda message: write_stderr(f"calcli: {message}"))


class Arguments(dict[str, Any]):
    """The arguments and options of a command, by the names of the request's fields."""

    def request(self, kind: type[Request], **more: Any) -> Request:
        """A request whose fields have the values of the same names, or those in `more`.

        A field whose default is a dataclass (`flags`, `sides`, `options`) is filled in the same way. An option that is
        no field of the request is an error.
        """
        values: dict[str, Any] = {}
        more = {**self._tables(), **more}
        used = PRESENTATION | PLACES | more.keys()
        for field in fields(kind):
            if is_dataclass(field.default) and not isinstance(field.default, type):
                part = {name: self[name] for name in signature(type(field.default)).parameters if name in self}
                values[field.name] = replace(field.default, **part)
                used |= part.keys()
            elif field.name in self:
                values[field.name] = self[field.name]
                used |= {field.name}
        if unused := self.keys() - used:
            raise TypeError(f"{kind.__name__} has no field for {', '.join(sorted(unused))}")
        return kind(**{**values, **more})

    def _tables(self) -> dict[str, Any]:
        """The fields for the tables of databases that ``--query`` and ``--table`` choose."""
        if "query" not in self:
            return {}
        from calcli.places import Database, place, with_table

        query, table, output = self["query"], self["table"], self.get("output")
        found: dict[str, Any] = {}
        if "replace" in self and output is not None and output != "-" and isinstance(place(output), Database):
            found["output"] = with_table(output, None, table, instead=self["replace"])
            table = None
        elif self.get("replace"):
            raise UsageError("--replace is for a table of a database", hint="a file is replaced as it is")
        if query is not None or table is not None:
            found["data"] = with_table(self["data"], query, table)
        return found

    def console(self) -> Console:
        """The console for notes and warnings, with ``--quiet`` and ``--no-color``."""
        # Notes on a terminal that shows the table too would stand between its rows.
        table_on_stdout = "replace" in self and self["output"] == "-"
        quiet = self.get("quiet", False) or table_on_stdout
        console = Console(quiet=quiet, no_color=self.get("no_color", False))
        threads = self.get("threads") or 0
        if threads > processors():
            console.note(f"--threads {threads}: more than the {processors()} processors available")
        return console


def names(text: str | None) -> tuple[str, ...] | None:
    """``a,b`` as two names; a name with a comma stands in double quotes, as in a CSV file."""
    if text is None:
        return None
    import csv

    try:
        cells = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        raise UsageError(f"{text!r} has a line break; put the name that has it in double quotes") from None
    return tuple(cell.strip() for cell in cells if cell.strip())


def names_or_empty(text: str | None) -> tuple[str, ...]:
    """The names of a list; no names where no list is given."""
    return names(text) or ()


def names_or_none(text: str | None) -> tuple[str, ...] | None:
    """The names of a list; no names for the word ``none``."""
    return () if text == "none" else names(text)


def count_or_auto(text: str) -> int | str:
    from calcli.numeric.bins import MOST_BINS

    if text == "auto":
        return text
    with suppress(ValueError):
        if 1 <= (count := int(text)) <= MOST_BINS:
            return count
    raise UsageError(f"--bins takes a whole number, 1 to {MOST_BINS:,}, or auto, not {text!r}", hint="try: --bins 15")


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` or ``METHOD.KEY=VALUE``; the last one of a key counts."""
    return _pairs(given, "--set {} is not KEY=VALUE", "see: calcli methods NAME")


def storage(given: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE``; the error does not repeat the text, which may be secret."""
    return _pairs(given, "--storage-option is not KEY=VALUE", "try: --storage-option region=eu-central-1")


def _pairs(given: Sequence[str] | None, mistake: str, hint: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(mistake.format(text), hint=hint)
        values[key.strip()] = value.strip()
    return values


def number_or_column(text: str | None) -> float | str | None:
    """A cost, or the name of the column that has it."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def piped(data: list[str] | None) -> list[str]:
    """Refuse a terminal as standard input, because waiting for a typed table looks like hanging."""
    if data and "-" in data and is_terminal(sys.stdin):
        raise UsageError("standard input (-) is a terminal", hint="pipe a table into it, or name a file")
    return data or []


def limit_threads(count: int | None) -> int | None:
    """Set the number of threads in the environment, where polars, OpenMP and numba read it when they are imported.

    More threads than processors only wait for each other: `Arguments.console` says that there are fewer.
    """
    if count is not None:
        for name in THREAD_VARIABLES:
            os.environ[name] = str(min(count, processors()))
    return count
