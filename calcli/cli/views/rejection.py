"""Error rates of the rows that remain when the least sure ones are rejected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import wrapped
from calcli.cli.views import blocks
from calcli.reporting.typesetting import number

if TYPE_CHECKING:
    from calcli.reports.schema import Report

TENTHS = tuple(place / 10 for place in range(10))
"""The table has every tenth; all points are in the JSON."""

TITLES = {
    "rate": ("rejected", "Error rate of the remaining rows by share rejected, least certain first"),
    "threshold": (
        "threshold",
        "Error rate of the rows with an uncertainty up to a threshold, from 0 (certain) to 1",
    ),
}


def tables(report: Report, screen: Screen) -> list[str]:
    """One by the share that is rejected, one by the threshold, a column for each score."""
    points = [cast("Mapping[str, Any]", point) for point in report.rejection]
    lines: list[str] = []
    for by, (header, title) in TITLES.items():
        chosen = [point for point in points if point["by"] == by and point["x"] in TENTHS]
        if chosen:
            lines += ["", *map(screen.bold, wrapped(title, screen.prose)), *_table(chosen, header, screen)]
    return lines


def _table(points: list[Mapping[str, Any]], header: str, screen: Screen) -> list[str]:
    scores = list(dict.fromkeys(str(point["score"]) for point in points))
    rows = [[header, *scores]]
    for x in dict.fromkeys(point["x"] for point in points):
        errors = {point["score"]: point["y"] for point in points if point["x"] == x}
        place = f"{x:.0%}" if header == "rejected" else f"{x:.1f}"
        rows.append([place, *(number(errors[score], 4) for score in scores)])
    return blocks.table(rows, "r" * len(rows[0]), screen)
