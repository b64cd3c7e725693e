"""Answers for machines: JSON, CSV, Markdown. Full precision, and null where there is no number."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

if TYPE_CHECKING:
    from calcli.diagrams.curves import Curve
    from calcli.reports.schema import Difference, MetricValue, Report

Flat: TypeAlias = Literal["csv", "markdown"]
Cell: TypeAlias = str | int | float | bool | None

_VALUE = ("value", "lo", "hi", "floor", "p", "reason")
_DIFFERENCE = ("value", "lo", "hi", "p")

LONG = (
    *("score", "group", "metric", *_VALUE),
    *("diff", "diff_lo", "diff_hi", "diff_p", "fit_seconds", "apply_seconds", "chosen"),
)
"""The columns of a report as CSV or Markdown, which scripts rely on: more may come, at the end.

`diff` is how much the value lies above that of no calibration, as in the expressions of ``--fail-if``.
"""


POINTS = ("score", "class", "x", "y", "n", "lo", "hi")
"""The columns of a picture's numbers."""


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
    base = report.scores[0].name if report.scores else None
    differences = {(each.score, each.metric): each for each in report.differences if each.versus == base}
    found: list[list[Cell]] = []
    for score in report.scores:
        chosen = None if report.chosen is None else score.name == report.chosen
        tail = [*map(_seconds, (score.seconds.fit, score.seconds.apply)), chosen]
        if score.status != "ok":
            found.append([score.name, *[None] * 7, score.reason, *_cells(None, _DIFFERENCE), *tail])
        for metric, value in score.metrics.items():
            gap = differences.get((score.name, metric))
            found.append([score.name, None, metric, *_cells(value, _VALUE), *_cells(gap, _DIFFERENCE), *tail])
    for group in cast("tuple[dict[str, Any], ...]", report.groups):
        for metric, value in group["metrics"].items():
            numbers = [value[key] for key in _VALUE]
            found.append(
                [group["score"], f"{group['by']}={group['group']}", metric, *numbers, *[None] * (len(LONG) - 9)]
            )
    return found


def _cells(found: MetricValue | Difference | None, keys: Sequence[str]) -> list[Cell]:
    return [None if found is None else getattr(found, key) for key in keys]


def _seconds(time: float | None) -> float | None:
    return None if time is None else round(time, 6)


def point_rows(curves: Sequence[Curve]) -> list[list[Cell]]:
    """The points of curves, a row for each."""
    return [[one.score, one.of, p.x, p.y, p.n, p.lo, p.hi] for one in curves for p in one.points]


def binding_rows(binding: dict[str, Any]) -> list[list[Cell]]:
    """Which column plays which part, a row for each."""
    parts = [("label", binding["label"]), ("weight", binding["weight"])]
    found: list[list[Cell]] = [[part, column, None] for part, column in parts if column is not None]
    found += [["score", column, binding["score"]["kind"]] for column in binding["score"]["columns"]]
    found += [["feature", column, None] for column in binding["features"]]
    return found + [["dropped", gone["column"], gone["reason"]] for gone in binding["dropped"]]
