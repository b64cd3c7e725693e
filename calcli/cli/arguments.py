"""The arguments of a command: how texts become values, and values the request of a verb."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from calcli.errors import UsageError
from calcli.numeric.threads import processors

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from calcli.cli.console import Console

Request = TypeVar("Request", bound="DataclassInstance")

PRESENTATION = frozenset({"form", "html", "picture", "rollback", "threads", "quiet", "no_color", "debug"})
"""Options that are no fields of requests: they are about the form of the answer."""

PLACES = frozenset({"query", "table", "replace", "storage_option"})
"""Options that say where tables are; they become part of the fields that name these."""


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

    def console(self, *, quiet: bool = False) -> Console:
        """The console for notes and warnings, with ``--quiet`` and ``--no-color``."""
        from calcli.cli.console import Console

        console = Console(quiet=quiet or self.get("quiet", False), no_color=self["no_color"])
        threads = self.get("threads") or 0
        if threads > processors():
            console.note(f"--threads {threads}: more than the {processors()} processors available")
        return console


def names(text: str | None) -> tuple[str, ...] | None:
    """``a,b`` as two names; a name with a comma stands in double quotes, as in a CSV file."""
    if text is None:
        return None
    import csv

    cells = next(csv.reader([text], skipinitialspace=True), [])
    return tuple(cell.strip() for cell in cells if cell.strip())


def names_or_empty(text: str | None) -> tuple[str, ...]:
    """The same, where no list is an empty one."""
    return names(text) or ()


def names_or_none(text: str | None) -> tuple[str, ...] | None:
    """The same, where ``none`` is no column at all."""
    return () if text == "none" else names(text)


def count_or_auto(text: str) -> int | str:
    """The number of bins, or ``auto``."""
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
    """``KEY=VALUE``; the value may be secret, and so may be what is not of this form."""
    return _pairs(given, "--storage-option is not KEY=VALUE", "try: --storage-option region=eu-central-1")


def _pairs(given: Sequence[str] | None, mistake: str, hint: str) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(mistake.format(text), hint=hint)
        values[key.strip()] = value.strip()
    return values
