"""What the shell offers after TAB, read from the catalogs: no method is imported, no file is opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from calcli.methods.row import Row


def methods(incomplete: str) -> list[str]:
    from calcli.methods import catalog

    return _starting(incomplete, catalog.names())


def metric(incomplete: str) -> list[str]:
    from calcli.metrics import catalog

    return _starting(incomplete, catalog.names())


def metrics(incomplete: str) -> list[str]:
    """The last name of a list with commas."""
    from calcli.metrics import catalog

    done, comma, last = incomplete.rpartition(",")
    names = catalog.names() if comma else ("default", "all", *catalog.names())
    given = done.split(",")
    return [f"{done}{comma}{name}" for name in _starting(last, names) if name not in given]


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, [name for row in _rows(ctx) for name in row.presets])


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """``KEY=`` of the method that the line names; after it the values, where they can be told."""
    key, equals, value = incomplete.partition("=")
    params = [param for row in _rows(ctx) for param in row.params]
    if not equals:
        return _starting(key, dict.fromkeys(f"{param.name}=" for param in params))
    words = [word for param in params if param.name == key for word in _values(param.kind, param.choices)]
    return [f"{key}={word}" for word in _starting(value, words)]


def formats(incomplete: str) -> list[str]:
    return _starting(incomplete, ("table", "json", "csv", "markdown"))


def tables(incomplete: str) -> list[str]:
    from calcli.tables.formats import FORMATS

    return _starting(incomplete, FORMATS)


def _rows(ctx: typer.Context) -> list[Row]:
    """The method that the line names so far, or all of them."""
    from calcli.methods import catalog

    named = [row for row in catalog.rows() if row.name == ctx.params.get("method")]
    return named or list(catalog.rows())


def _values(kind: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    return ("true", "false") if kind == "bool" else choices


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
