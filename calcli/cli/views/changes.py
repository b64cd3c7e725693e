"""What has changed since the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, wrapped
from calcli.reporting.typesetting import NOTHING, decimals, number, signed

if TYPE_CHECKING:
    from calcli.verbs.report import Report


def table(report: Report, screen: Screen) -> list[str]:
    """A line for each number of all rows that is in both reports, and why others are not."""
    if report.baseline is None:
        return []
    changes = [one for one in report.changes if one.by is None]
    digits = decimals([value for one in changes for value in (one.old, one.new) if value is not None])
    rows = [["", "", "before", "now", "change"]]
    for one in changes:
        change = NOTHING if one.change is None else signed(one.change, digits)
        rows.append([one.score, one.metric, number(one.old, digits), number(one.new, digits), change])
    header, *lines = aligned(rows, "llrrr")
    reasons = dict.fromkeys(one.reason for one in changes if one.reason)
    said = [screen.dim(f"  {line}") for reason in reasons for line in wrapped(reason, screen.prose - 2)]
    return ["", screen.bold(f"since {report.baseline['path']}"), screen.dim(header), *lines, *said]
