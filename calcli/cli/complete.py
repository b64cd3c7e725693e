"""What the shell offers after TAB, read from the catalogs: no method is imported, no file is opened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from calcli.methods.spec import MethodSpec


def methods(incomplete: str) -> list[str]:
    from calcli.methods import catalog

    return _starting(incomplete, (catalog.AUTO, *catalog.names()))


def method_list(incomplete: str) -> list[str]:
    """The last name of a list with commas."""
    from calcli.methods import catalog

    return _last_of_list(incomplete, ("all",), catalog.names())


def metric(incomplete: str) -> list[str]:
    from calcli.metrics import catalog

    return _starting(incomplete, catalog.names())


def metrics(incomplete: str) -> list[str]:
    """The last name of a list with commas."""
    from calcli.metrics import catalog

    return _last_of_list(incomplete, ("default", "all"), catalog.names())


def gate(incomplete: str) -> list[str]:
    """The metric with which an expression begins, and after its dot what can be compared of it."""
    from calcli.metrics import catalog
    from calcli.reports.gates import FIELDS

    *before, last = incomplete.split(".")
    metric = max((place for place, part in enumerate(before) if part in catalog.names()), default=None)
    if metric is None:
        return [".".join([*before, name]) for name in _starting(last, catalog.names())]
    field = ".".join([*before[metric + 1 :], last])
    return [".".join([*before[: metric + 1], name]) for name in _starting(field, FIELDS)]


def _last_of_list(incomplete: str, alone: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """What may follow the last comma; words that stand `alone` only where there is none."""
    done, comma, last = incomplete.rpartition(",")
    given = done.split(",")
    offered = names if comma else (*alone, *names)
    return [f"{done}{comma}{name}" for name in _starting(last, offered) if name not in given]


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, [name for row in _rows(ctx) for name in row.presets])


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """``KEY=`` of the method that the line names, else ``METHOD.KEY=``; after it the values, where they can be told."""
    key, equals, value = incomplete.partition("=")
    rows = _rows(ctx)
    keys = {param.name if len(rows) == 1 else f"{row.name}.{param.name}": param for row in rows for param in row.params}
    if not equals:
        return _starting(key, [f"{name}=" for name in keys])
    words = _values(keys[key].kind, keys[key].choices) if key in keys else ()
    return [f"{key}={word}" for word in _starting(value, words)]


def dialects(incomplete: str) -> list[str]:
    from calcli.export.sql import dialects

    return _starting(incomplete, dialects())


def tables(incomplete: str) -> list[str]:
    from calcli.tables.formats import FORMATS

    return _starting(incomplete, FORMATS)


def pictures(incomplete: str) -> list[str]:
    return _starting(incomplete, ("png", "svg", "pdf", "html"))


def _rows(ctx: typer.Context) -> list[MethodSpec]:
    """The method that the line names so far, or all of them."""
    from calcli.methods import catalog

    named = [row for row in catalog.specs() if row.name == ctx.params.get("method")]
    return named or list(catalog.specs())


def _values(kind: str, choices: tuple[str, ...]) -> tuple[str, ...]:
    return ("true", "false") if kind == "bool" else choices


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
