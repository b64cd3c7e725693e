"""What has changed since the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.text import aligned, wrapped
from calcli.reporting.tables import since

if TYPE_CHECKING:
    from calcli.reports.schema import Report


def table(report: Report, screen: Screen) -> list[str]:
    """A line for each number of all rows that is in both reports, and why others are not."""
    found = since(report)
    if found is None:
        return []
    shown, reasons = found
    header, *lines = aligned([shown.header, *shown.rows], "llrrr")
    said = [screen.dim(f"  {line}") for reason in reasons for line in wrapped(reason, screen.prose - 2)]
    return ["", screen.bold(f"since {shown.title}"), screen.dim(header), *lines, *said]
