"""The metrics within groups of rows, and the verdicts of the gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, shown_width, wrapped
from calcli.cli.views import blocks
from calcli.reporting import tables
from calcli.reporting.typesetting import NOTHING

if TYPE_CHECKING:
    from calcli.reports.schema import Report


def metrics(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score."""
    lines: list[str] = []
    hidden: dict[str, None] = {}
    for table, entries in tables.by_group(report):
        header, *rows = _fitting(table, screen, hidden)
        shown = [screen.bad(row) if tables.is_off(one) else row for row, one in zip(rows, entries, strict=True)]
        lines += ["", screen.bold(table.title), screen.dim(header), *shown]
    if lines:
        more = [("more", f"{', '.join(hidden)}, on a wider screen or with --format")] if hidden else []
        lines += ["", *blocks.notes([*tables.GROUPS, *more], screen)]
    return lines


def _fitting(table: tables.Table, screen: Screen, hidden: dict[str, None]) -> list[str]:
    """The lines of a table, without the last metrics where the screen is too narrow for all; these become `hidden`."""
    rows = [table.header, *table.rows]
    while True:
        lines = aligned(rows, "l" + "r" * (len(rows[0]) - 1))
        last = len(rows[0]) - 3  # the metrics stand between the count of rows and the last two columns
        if max(map(shown_width, lines)) <= screen.width or last <= 2:
            return lines
        hidden[rows[0][last]] = None
        rows = [[*row[:last], *row[last + 1 :]] for row in rows]


def verdicts(report: Report, screen: Screen) -> list[str]:
    """A line for each gate, and for each number that made it fail."""
    lines: list[str] = []
    for gate in (cast("Mapping[str, Any]", gate) for gate in report.gates):
        passed = gate["passed"]
        answer = screen.good("passed") if passed else screen.bad("FAILED")
        lines += wrapped(f"{answer}: {gate['expr']} is {'false' if passed else 'true'}", screen.prose)
        for failure in gate["failed"]:
            group = f", {failure['group']}" if failure["group"] is not None else ""
            value = NOTHING if failure["value"] is None else f"{failure['value']:.6g}"
            number = f"{failure['metric']} of {failure['score']}{group}"
            lines.append(f"  {number} is {value}, the limit {failure['limit']:g}")
    return ["", *lines] if lines else []
