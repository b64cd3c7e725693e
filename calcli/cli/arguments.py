"""The arguments of a command: how texts become values, and values the request of a verb."""

from __future__ import annotations

from collections.abc import Sequence
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


class Arguments(dict[str, Any]):
    """The arguments and options of a command, by the names of the request's fields."""

    def request(self, kind: type[Request], **more: Any) -> Request:
        """A request whose fields have the values of the same names, or those in `more`.

        A field whose default is a dataclass (`flags`, `sides`, `options`) is filled in the same way. An option that is
        no field of the request is an error.
        """
        values: dict[str, Any] = {}
        used = PRESENTATION | more.keys()
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


def settings(given: Sequence[str] | None) -> dict[str, str]:
    """``KEY=VALUE`` or ``METHOD.KEY=VALUE``; the last one of a key counts."""
    values: dict[str, str] = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {text} is not KEY=VALUE", hint="see: calcli methods NAME")
        values[key.strip()] = value.strip()
    return values
