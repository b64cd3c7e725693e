"""The cells of a report's tables as text, the same on a screen as on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calcli.reporting.findings import Findings, of_report
from calcli.reporting.typesetting import NOTHING, decimals, interval, number, signed

if TYPE_CHECKING:
    from calcli.reports.schema import Difference, Report

GROUPS = (
    ("detectable", "smallest mean error (prediction minus label) that would be detected with 80 % power"),
    (
        "p-value",
        "test of the mean error, adjusted for the number of groups, columns and scores; too few: so few rows that no "
        "labels would be significant, so the group is not tested",
    ),
)
"""What the last two columns of the tables by group are."""


OFF = 0.05
"""Groups whose adjusted p-value is below it stand out."""


class Table(NamedTuple):
    """Lines of cells below a header.

    Attributes
    ----------
    words
        So many columns are words, the others numbers.
    under
        The rows that say more about the one above them: floors and p-values.
    empty
        The rows without any number.
    """

    title: str
    header: list[str]
    rows: list[list[str]]
    words: int = 1
    under: frozenset[int] = frozenset()
    empty: frozenset[int] = frozenset()


def by_metric(found: Findings, extra: int = 2) -> Table:
    """A metric a line, a score a column; of a single calibrated score also its change and the interval.

    `extra` is how many of these last two columns there are.
    """
    single = found.calibrated[0] if len(found.calibrated) == 1 else None
    extra = extra if single is not None else 0
    digits = found.digits
    rows: list[list[str]] = []
    under, empty = set[int](), set[int]()
    for metric in found.metrics:
        if all(score.values.get(metric) is None for score in found.scores):
            empty.add(len(rows))
        values = [number(score.values.get(metric), digits) for score in found.scores]
        change = [] if single is None else difference_cells(found.differences.get((single.name, metric)), digits)
        rows.append([metric, found.directions[metric], *values, *change[:extra]])
        for label, known in found.floors_and_ps(metric):
            under.add(len(rows))
            rows.append([label, "", *("" if one is None else number(one, digits) for one in known), *[""] * extra])
    header = ["", "better", *(score.name for score in found.scores), *("change", "95 % interval")[:extra]]
    return Table("", header, rows, 2, frozenset(under), frozenset(empty))


def by_score(found: Findings) -> list[list[str]]:
    """The columns of a table with a score a line: a metric, which way is better (or "floor"), the numbers."""
    columns: list[list[str]] = []
    for metric in found.metrics:
        values = [number(score.values.get(metric), found.digits) for score in found.scores]
        columns.append([metric, found.directions[metric], *values])
        if any(metric in score.floors for score in found.scores):
            floors = [number(score.floors.get(metric), found.digits) for score in found.scores]
            columns.append([metric, "floor", *floors])
    return columns


def versus(report: Report) -> Iterator[Table]:
    """The differences of the calibrated scores from another score than the raw one, a table for each such score."""
    first = report.scores[0].name if report.scores else None
    gaps = [one for one in report.differences if first not in {one.versus, one.score} and one.value is not None]
    digits = of_report(report).digits
    for name in dict.fromkeys(one.versus for one in gaps):
        chosen = [one for one in gaps if one.versus == name]
        rows = [[one.score, one.metric, *difference_cells(one, digits)] for one in chosen]
        yield Table(f"difference from {name}", ["", "", "change", "95 % interval"], rows, 2)


def difference_cells(difference: Difference | None, digits: int) -> list[str]:
    """A difference and its interval; empty where there is none."""
    if difference is None or difference.value is None:
        return ["", ""]
    return [signed(difference.value, digits), interval(difference.lo, difference.hi, digits)]


def by_group(report: Report) -> Iterator[tuple[Table, Sequence[Mapping[str, Any]]]]:
    """A table for each column and score, and the groups that are its lines."""
    entries: Sequence[Any] = report.groups
    for by, score in dict.fromkeys((entry["by"], entry["score"]) for entry in entries):
        chosen = [entry for entry in entries if (entry["by"], entry["score"]) == (by, score)]
        metrics = list(chosen[0]["metrics"])
        values = [entry["metrics"][name]["value"] for entry in chosen for name in metrics]
        digits = decimals([value for value in values if value is not None])
        rows = [
            [
                "null" if entry["group"] is None else str(entry["group"]),
                f"{entry['rows']:,}",
                *(number(entry["metrics"][name]["value"], digits) for name in metrics),
                number(entry["detectable"], digits),
                _p_value(entry),
            ]
            for entry in chosen
        ]
        yield Table(f"{score} by {by}", ["", "rows", *metrics, "detectable", "p-value"], rows), chosen


def _p_value(entry: Mapping[str, Any]) -> str:
    p = entry["p_adjusted"]
    if p is None:
        return NOTHING if entry["p"] is None else "too few"
    return number(p, 4) if p >= 0.00005 else "<0.0001"


def is_off(entry: Mapping[str, Any]) -> bool:
    """Whether a group is off beyond chance; one without a p-value is not, one whose p-value is 0 is."""
    return entry["p_adjusted"] is not None and entry["p_adjusted"] < OFF


def since(report: Report) -> tuple[Table, list[str]] | None:
    """The numbers of all rows that are in the baseline too, under its name, and why others are not."""
    if report.baseline is None:
        return None
    changes = [one for one in report.changes if one.by is None]
    digits = decimals([value for one in changes for value in (one.old, one.new) if value is not None])
    rows = [
        [
            one.score,
            one.metric,
            number(one.old, digits),
            number(one.new, digits),
            NOTHING if one.change is None else signed(one.change, digits),
        ]
        for one in changes
    ]
    reasons = list(dict.fromkeys(one.reason for one in changes if one.reason))
    return Table(str(report.baseline["path"]), ["", "", "before", "now", "change"], rows, 2), reasons


def every(report: Report) -> Iterator[Table]:
    """All tables of a report: its numbers (of methods that were compared, a method a line), groups, changes."""
    from calcli.reporting import leaderboard

    if report.command == "compare":
        yield Table("", *leaderboard.lines(report, list(report.definitions)))
    else:
        yield by_metric(of_report(report))
        yield from versus(report)
    yield from (table for table, _ in by_group(report))
    if (changes := since(report)) is not None:
        yield changes[0]
