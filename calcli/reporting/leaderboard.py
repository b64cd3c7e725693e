"""Methods that were compared, the best first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calcli.reporting.facts import FLOOR, Pair
from calcli.reporting.typesetting import decimals, interval, number, signed

if TYPE_CHECKING:
    from calcli.reports.schema import Report, ScoreRow

IDENTITY = "identity"

MANY = 6
"""Of methods that are as good no more are named."""

GAIN = ("gain", "decrease of the log-loss from that of no calibration, with a 95 % interval")
BEHIND = ("behind", "increase of the log-loss from that of the chosen method, with a 95 % interval")
BEST = (
    "best",
    "share of bootstrap samples in which the method is best; * marks the 95 % confidence set of the best method",
)


def ranked(report: Report) -> list[ScoreRow]:
    """The scores that have numbers, by the first metric."""
    metric, definition = next(iter(report.definitions.items()))

    def place(row: ScoreRow) -> float:
        value = row.metrics[metric].value
        if value is None:
            return float("inf")
        return -value if definition.direction == "higher" else value

    return sorted((row for row in report.scores if row.status == "ok"), key=place)


def certainty(report: Report) -> str:
    """How certain the choice is, and which methods are as good; empty if the report has no such numbers."""
    chosen = next((row for row in report.scores if row.name == report.chosen), None)
    if chosen is None or chosen.best is None:
        return ""
    others = [row.name for row in ranked(report) if row.as_good and row is not chosen]
    named = f"{', '.join(others[:MANY])}{f' and {len(others) - MANY} more' if len(others) > MANY else ''}"
    as_good = f"not significantly worse: {named}" if others else "all other methods are significantly worse"
    name = "No calibration" if chosen.name == IDENTITY else chosen.name
    return f"{name} is the best in {percent(chosen.best)} of bootstrap samples; {as_good}"


def floors(report: Report, metrics: Sequence[str]) -> list[Pair]:
    """The floors of these metrics, for the predictions of the chosen method."""
    chosen = next((row for row in report.scores if row.name == report.chosen), None)
    known = {} if chosen is None else {name: chosen.metrics[name].floor for name in metrics if name in chosen.metrics}
    digits = decimals([floor for floor in known.values() if floor is not None])
    named = [f"{name} {number(floor, digits)}" for name, floor in known.items() if floor is not None]
    return [(FLOOR[0], f"{FLOOR[1]}; of {report.chosen} {', '.join(named)}")] if named else []


def percent(share: float) -> str:
    """Whole, but never 0 or 100 where it is neither."""
    if 0.0 < share < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < share < 1.0 else f"{share:.0%}".replace("%", " %")


def lines(report: Report, metrics: Sequence[str], *, behind: bool = True) -> tuple[list[str], list[list[str]]]:
    """A header, and for each method that has numbers its name, these metrics, its gain, how far it is behind the chosen
    one, how likely it is the best, and the seconds of its fit.
    """
    rows = ranked(report)
    digits = decimals([value.value for row in rows for value in row.metrics.values() if value.value is not None])
    gains = {name: (signed(value, digits), ends) for name, (value, ends) in _gaps(report, IDENTITY, digits, -1).items()}
    later = {} if report.chosen in {None, IDENTITY} or not behind else _gaps(report, str(report.chosen), digits, 1)
    known = any(row.best is not None for row in rows)
    cells = [
        [
            f"{row.name} *" if row.as_good else row.name,
            *(number(row.metrics[name].value, digits) for name in metrics),
            *gains.get(row.name, ("", "")),
            *(
                [signed(later[row.name][0], digits), later[row.name][1]]
                if row.name in later
                else [""] * 2 * bool(later)
            ),
            *(["" if row.best is None else percent(row.best)] if known else []),
            _seconds(row),
        ]
        for row in rows
    ]
    header = ["", *metrics, "gain", "95 % interval"]
    return [*header, *(["behind", "95 % interval"] if later else []), *(["best"] if known else []), "fit"], cells


def _gaps(report: Report, versus: str, digits: int, sign: int) -> dict[str, tuple[float, str]]:
    """By score: its log-loss less that of another score, and the interval, both times `sign`."""
    gaps = {}
    for each in report.differences:
        if (each.versus, each.metric) == (versus, "nll") and each.value is not None:
            ends = None if each.lo is None or each.hi is None else sorted((sign * each.lo, sign * each.hi))
            gaps[each.score] = (sign * each.value, "" if ends is None else interval(ends[0], ends[1], digits))
    return gaps


def _seconds(row: ScoreRow) -> str:
    """How long its fit took."""
    return "" if row.seconds.fit is None else f"{row.seconds.fit:.2f} s"
