"""The metrics beside those of the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calcli.cli.screen import Screen
from calcli.cli.views import blocks
from calcli.reporting.tables import since

if TYPE_CHECKING:
    from calcli.reports.schema import Report


def table(report: Report, screen: Screen) -> list[str]:
    """A line for each number of all rows that is in both reports, and why others are not."""
    comparison = since(report)
    if comparison is None:
        return []
    changes, reasons = comparison
    lines = blocks.table([changes.header, *changes.rows], "llrrr", screen)
    return ["", screen.bold(f"changes since {changes.title}"), *lines, *blocks.remarks(reasons, screen)]
