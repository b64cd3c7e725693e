"""The metrics within groups of rows, and the verdicts of the gates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import wrapped
from calcli.cli.views import blocks
from calcli.reporting import tables
from calcli.reporting.typesetting import NOTHING

if TYPE_CHECKING:
    from calcli.reports.schema import Report


def metrics(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score."""
    lines: list[str] = []
    for table, entries in tables.by_group(report):
        align = "l" + "r" * (len(table.header) - 1)
        header, *rows = blocks.table([table.header, *table.rows], align, screen)
        shown = [screen.bad(row) if tables.is_off(one) else row for row, one in zip(rows, entries, strict=True)]
        lines += ["", screen.bold(table.title), header, *shown]
    if lines:
        lines += ["", *blocks.notes(tables.GROUPS, screen)]
    return lines


def verdicts(report: Report, screen: Screen) -> list[str]:
    """A line for each gate, and for each number that made it fail."""
    lines: list[str] = []
    for gate in (cast("Mapping[str, Any]", gate) for gate in report.gates):
        passed = gate["passed"]
        answer = screen.good("passed") if passed else screen.bad("FAILED")
        lines += wrapped(f"{answer}: {gate['expr']} is {'not true' if passed else 'true'}", screen.prose)
        for failure in gate["failed"]:
            group = f", {failure['group']}" if failure["group"] is not None else ""
            value = NOTHING if failure["value"] is None else f"{failure['value']:.6g}"
            number = f"{failure['metric']} of {failure['score']}{group}"
            lines.append(f"  {number} is {value}, the limit {failure['limit']:g}")
    return ["", *lines] if lines else []
