"""Lists, notes and tables as every answer lays them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.reporting import facts
from calcli.reporting.typesetting import spelled

if TYPE_CHECKING:
    from calcli.artifacts.manifest import Manifest
    from calcli.reports.schema import Report

_NAMES = 9
"""The least width of names in lists, so that facts and notes stand in the same column."""


def fact_list(pairs: Iterable[facts.Pair], screen: Screen) -> list[str]:
    """Facts, a line each, with dim names."""
    return described([(screen.dim(name), text) for name, text in pairs], screen.prose, least=_NAMES)


def notes(pairs: Iterable[facts.Pair], screen: Screen) -> list[str]:
    """Definitions, a dim line each."""
    return [screen.dim(line) for line in described(pairs, screen.prose, least=_NAMES)]


def remarks(texts: Iterable[str], screen: Screen) -> list[str]:
    """Dim paragraphs, indented like the table above them."""
    return [screen.dim(f"  {line}") for text in texts for line in wrapped(text, screen.prose - 2)]


def table(rows: Sequence[Sequence[str]], align: str, screen: Screen, *, headers: int = 1) -> list[str]:
    """Aligned rows, of which the first are dim headers."""
    lines = aligned(rows, align)
    return [*map(screen.dim, lines[:headers]), *lines[headers:]]


def measured_facts(report: Report, more: Sequence[facts.Pair] = ()) -> list[facts.Pair]:
    """The rows that were measured, and which column played which part."""
    return [
        *facts.data_facts(report.data, report.binding["positive"]),
        *more,
        *facts.binding_facts(report.binding),
    ]


def fit_data(manifest: Manifest) -> facts.Pair:
    """The rows that an artifact was fitted on."""
    rows = f"{cast('dict[str, Any]', manifest.fit)['rows']:,} rows"
    files = cast("list[dict[str, Any]]", manifest.data.get("files", []))
    return ("data", f"{rows} from {facts.names_of_files(files)}" if files else rows)


def settings(values: dict[str, Any], sign: str = "=") -> str:
    """``a=1, b=0.25``."""
    return ", ".join(f"{name}{sign}{short(value)}" for name, value in values.items())


def short(value: object) -> str:
    """A value; of a number six digits."""
    return f"{value:.6g}" if isinstance(value, float) else spelled(value)
