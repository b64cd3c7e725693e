"""Completions for the shell, read from the catalogs: no method is imported, no file is opened."""

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

    return _last_of_list(incomplete, ("default", *catalog.SETS, "all"), catalog.names())


def gate(incomplete: str) -> list[str]:
    """The metric with which an expression begins, and after its dot the fields that can be compared."""
    from calcli.metrics import catalog
    from calcli.reports.gates import FIELDS

    *before, last = incomplete.split(".")
    # The name of a score may have dots too, so the last part that is a metric counts.
    place = max((place for place, part in enumerate(before) if part in catalog.names()), default=None)
    if place is None:
        return [".".join([*before, name]) for name in _starting(last, catalog.names())]
    field = ".".join([*before[place + 1 :], last])
    return [".".join([*before[: place + 1], name]) for name in _starting(field, FIELDS)]


def _last_of_list(incomplete: str, words: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Names that may follow the last comma; before any comma also `words`, which stand for whole lists."""
    done, comma, last = incomplete.rpartition(",")
    given = done.split(",")
    offered = names if comma else (*words, *names)
    return [f"{done}{comma}{name}" for name in _starting(last, offered) if name not in given]


def presets(ctx: typer.Context, incomplete: str) -> list[str]:
    return _starting(incomplete, [name for spec in _specs(ctx) for name in spec.presets])


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """``KEY=`` of the method on the line, else ``METHOD.KEY=``; after it the values of choices and switches."""
    key, equals, value = incomplete.partition("=")
    specs = _specs(ctx)
    prefixes = {spec.name: "" if len(specs) == 1 else f"{spec.name}." for spec in specs}
    keys = {f"{prefixes[spec.name]}{param.name}": param for spec in specs for param in spec.params}
    if not equals:
        return _starting(key, [f"{name}=" for name in keys])
    if key not in keys:
        return []
    words = ("true", "false") if keys[key].kind == "bool" else keys[key].choices
    return [f"{key}={word}" for word in _starting(value, words)]


def dialects(incomplete: str) -> list[str]:
    from calcli.export.dialects import DIALECTS

    return _starting(incomplete, DIALECTS)


def tables(incomplete: str) -> list[str]:
    from calcli.tables.paths import FORMATS

    return _starting(incomplete, FORMATS)


def pictures(incomplete: str) -> list[str]:
    return _starting(incomplete, ("png", "svg", "pdf", "html"))


def _specs(ctx: typer.Context) -> list[MethodSpec]:
    """The method on the line, or all of them."""
    from calcli.methods import catalog

    named = [spec for spec in catalog.specs() if spec.name == ctx.params.get("method")]
    return named or list(catalog.specs())


def _starting(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
