"""How often predictions are wrong among those that are left when the unsure ones are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, wrapped
from calcli.reporting.typesetting import number

if TYPE_CHECKING:
    from calcli.reports.schema import Report

SHOWN = tuple(place / 10 for place in range(10))
"""The table shows every tenth; all points are in the JSON."""

TITLES = {
    "rate": ("rejected", "Errors among the rows that are left when a share is rejected, the least sure first"),
    "threshold": (
        "threshold",
        "Errors among the rows whose uncertainty is no more than a threshold, 0 sure and 1 none",
    ),
}


def tables(report: Report, screen: Screen) -> list[str]:
    """One by the share that is rejected, one by the threshold, a column for each score."""
    points = [cast("Mapping[str, Any]", point) for point in report.rejection]
    lines: list[str] = []
    for by, (first, title) in TITLES.items():
        held = [point for point in points if point["by"] == by and point["x"] in SHOWN]
        if held:
            lines += ["", *(screen.bold(line) for line in wrapped(title, screen.prose)), *_table(held, first, screen)]
    return lines


def _table(points: list[Mapping[str, Any]], first: str, screen: Screen) -> list[str]:
    scores = list(dict.fromkeys(str(point["score"]) for point in points))
    rows = [[first, *scores]]
    for x in dict.fromkeys(point["x"] for point in points):
        errors = {point["score"]: point["y"] for point in points if point["x"] == x}
        rows.append(
            [f"{x:.0%}" if first == "rejected" else f"{x:.1f}", *(number(errors[score], 4) for score in scores)]
        )
    header, *lines = aligned(rows, "r" * len(rows[0]))
    return [screen.dim(header), *lines]
