"""The metrics within groups of rows, and what the gates say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.reporting import tables
from calcli.reporting.typesetting import NOTHING

if TYPE_CHECKING:
    from calcli.reports.schema import Report


def shown(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score."""
    lines: list[str] = []
    for table, _ in tables.by_group(report):
        header, *rows = aligned([table.header, *table.rows], "l" + "r" * (len(table.header) - 1))
        lines += ["", screen.bold(table.title), screen.dim(header), *rows]
    if lines:
        lines += ["", *(screen.dim(line) for line in described(tables.GROUPS, screen.prose))]
    return lines


def verdicts(report: Report, screen: Screen) -> list[str]:
    """A line for each gate, and for each number that closed it."""
    lines: list[str] = []
    for gate in (cast("Mapping[str, Any]", gate) for gate in report.gates):
        passed = gate["passed"]
        answer = screen.good("passed") if passed else screen.bad("FAILED")
        lines += wrapped(f"{answer}: {gate['expr']} is {'not true' if passed else 'true'}", screen.prose)
        for one in gate["failed"]:
            place = f", {one['group']}" if one["group"] is not None else ""
            value = NOTHING if one["value"] is None else f"{one['value']:.6g}"
            lines.append(f"  {one['metric']} of {one['score']}{place} is {value}, the limit {one['limit']:g}")
    return ["", *lines] if lines else []
