"""The metrics within groups of rows, and what the gates say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, described, wrapped
from calcli.reporting.typesetting import NOTHING, decimals, number

if TYPE_CHECKING:
    from calcli.verbs.report import Report

COLUMNS = (
    ("detectable", "the least mean error (prediction less label) that so many rows would show in 4 of 5 cases"),
    ("p-value", "how often a calibrated score would be off by as much on average, adjusted for the number of groups"),
)


def tables(report: Report, screen: Screen) -> list[str]:
    """A table for each column and score."""
    entries = [cast("Mapping[str, Any]", entry) for entry in report.groups]
    blocks = dict.fromkeys((entry["by"], entry["score"]) for entry in entries)
    lines: list[str] = []
    for by, score in blocks:
        held = [entry for entry in entries if (entry["by"], entry["score"]) == (by, score)]
        lines += ["", screen.bold(f"{score} by {by}"), *_table(held, screen)]
    if lines:
        lines += ["", *(screen.dim(line) for line in described(COLUMNS, screen.prose))]
    return lines


def _table(entries: list[Mapping[str, Any]], screen: Screen) -> list[str]:
    metrics = list(entries[0]["metrics"])
    values = [entry["metrics"][name]["value"] for entry in entries for name in metrics]
    digits = decimals([value for value in values if value is not None])
    rows = [["", "rows", *metrics, "detectable", "p-value"]]
    for entry in entries:
        cells = [number(entry["metrics"][name]["value"], digits) for name in metrics]
        ends = [number(entry["detectable"], digits), number(entry["p_adjusted"], 4)]
        rows.append(
            [str(entry["group"] if entry["group"] is not None else "null"), f"{entry['rows']:,}", *cells, *ends]
        )
    header, *lines = aligned(rows, "l" + "r" * (len(rows[0]) - 1))
    return [screen.dim(header), *lines]


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
