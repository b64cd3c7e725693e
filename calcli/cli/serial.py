"""Answers for machines: JSON, CSV, Markdown. Full precision, and null where there is no number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from calcli.verbs.report import MetricValue, Report

Flat: TypeAlias = Literal["csv", "markdown"]
Cell: TypeAlias = str | int | float | bool | None

LONG = ("score", "group", "metric", "value", "lo", "hi", "floor", "p", "reason")
"""The columns of a report as CSV or Markdown, which scripts rely on."""


def to_json(found: object, *, unicode: bool = True) -> str:
    """One object on one line. A number that JSON does not have is a bug, not a NaN."""
    return json.dumps(found, allow_nan=False, ensure_ascii=not unicode) + "\n"


def flat(header: Sequence[str], rows: Sequence[Sequence[Cell]], form: Flat) -> str:
    """A table as CSV or Markdown."""
    return _csv(header, rows) if form == "csv" else _markdown(header, rows)


def _csv(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_text(cell) for cell in row] for row in rows)
    return stream.getvalue()


def _markdown(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    lines = [header, ["---"] * len(header), *([_in_markdown(_text(cell)) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _text(cell: Cell) -> str:
    """A number with as many digits as it takes to read the same one back."""
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, float) else str(cell)


def _in_markdown(text: str) -> str:
    return " ".join(text.replace("\\", "\\\\").replace("|", "\\|").split())


def long_rows(report: Report) -> list[list[Cell]]:
    """A report in long form, a row for each number; a score that could not be computed has one row with its reason."""
    found: list[list[Cell]] = []
    for score in report.scores:
        if score.status != "ok":
            found.append([score.name, None, None, None, None, None, None, None, score.reason])
        found += [_long(score.name, metric, value) for metric, value in score.metrics.items()]
    for group in cast("tuple[dict[str, Any], ...]", report.groups):
        for metric, value in group["metrics"].items():
            numbers = [value[key] for key in LONG[3:]]
            found.append([group["score"], f"{group['by']}={group['group']}", metric, *numbers])
    return found


def _long(score: str, metric: str, value: MetricValue) -> list[Cell]:
    return [score, None, metric, value.value, value.lo, value.hi, value.floor, value.p, value.reason]


def binding_rows(binding: dict[str, Any]) -> list[list[Cell]]:
    """Which column plays which part, a row for each."""
    parts = [("label", binding["label"]), ("weight", binding["weight"])]
    found: list[list[Cell]] = [[part, column, None] for part, column in parts if column is not None]
    found += [["score", column, binding["score"]["kind"]] for column in binding["score"]["columns"]]
    found += [["feature", column, None] for column in binding["features"]]
    return found + [["dropped", gone["column"], gone["reason"]] for gone in binding["dropped"]]
