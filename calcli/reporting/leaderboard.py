"""Methods that were compared, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calcli.reporting.typesetting import decimals, interval, number, signed

if TYPE_CHECKING:
    from calcli.reports.schema import Report, ScoreRow

IDENTITY = "identity"

GAIN = ("gain", "how much the log-loss is below that of no calibration, with a 95 % interval")


def ranked(report: Report) -> list[ScoreRow]:
    """The scores that have numbers, by the first metric."""
    metric, definition = next(iter(report.definitions.items()))

    def place(row: ScoreRow) -> float:
        value = row.metrics[metric].value
        if value is None:
            return float("inf")
        return -value if definition.direction == "higher" else value

    return sorted((row for row in report.scores if row.status == "ok"), key=place)


def lines(report: Report, metrics: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """A header, and for each method that has numbers its name, these metrics, its gain and the seconds of its fit."""
    rows = ranked(report)
    digits = decimals([value.value for row in rows for value in row.metrics.values() if value.value is not None])
    gains = _gains(report, digits)
    cells = [
        [
            row.name,
            *(number(row.metrics[name].value, digits) for name in metrics),
            *gains.get(row.name, ("", "")),
            _seconds(row),
        ]
        for row in rows
    ]
    return ["", *metrics, "gain", "95 % interval", "fit"], cells


def _gains(report: Report, digits: int) -> dict[str, tuple[str, str]]:
    """By score: how much lower its log-loss is than that of no calibration, and the interval."""
    return {
        each.score: (
            signed(-each.value, digits),
            "" if each.lo is None or each.hi is None else interval(-each.hi, -each.lo, digits),
        )
        for each in report.differences
        if (each.versus, each.metric) == (IDENTITY, "nll") and each.value is not None
    }


def _seconds(row: ScoreRow) -> str:
    """How long its fit took."""
    return "" if row.seconds.fit is None else f"{row.seconds.fit:.2f} s"
