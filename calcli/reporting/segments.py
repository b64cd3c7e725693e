"""The segments of a report in words, as tables, and as the rows of a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from calcli.diagrams.canvas import shortened
from calcli.diagrams.svg import IntervalRow
from calcli.reporting.facts import Pair
from calcli.reporting.typesetting import Table, glued, interval, number, p_value, signed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from calcli.reports.schema import Report

_LETTERS = 70
"""The letters of a segment in a picture; the table has all of them."""

FEWEST = 5
"""The columns of a table of segments that every screen shows."""

_TERMS = (
    ("segment", "found on one half of the rows (or of their units), measured on the other; rows, share: of that half"),
    ("gap", "predicted minus observed; the interval holds for all segments together with 95 % confidence"),
    ("p-value", "test of the gap, and of its difference from that of the other rows, adjusted for the segments tried"),
    ("log-loss", "the decrease of the log-loss of all rows if the rate of this segment alone is corrected"),
)
_BESIDE = ("by NAME", "the mean prediction of another score on the same rows")


def entries(report: Report, score: str) -> Sequence[Any]:
    return [entry for entry in report.segments if entry["score"] == score]


def sentences(report: Report) -> Iterator[str]:
    """For each score how many segments were found, and how large a gap would have been."""
    searches: Sequence[Any] = report.segment_search
    for search in searches:
        of = "" if search["class"] is None else f" (class {search['class']})"
        count = search["found"]
        if count:
            found = f"wrong in {count} segment{'s' if count > 1 else ''}, and others may be too"
        else:
            found = "no segment found in which it is more wrong than elsewhere"
        seen = ""
        if not search["tried"]:
            found = "no segment could be tried: no feature divides the rows into large enough parts"
        elif search["detectable"] is not None and search["detectable"] >= 1.0:
            seen = "; there are too few rows to notice even the largest gap in 4 of 5 cases"
        elif search["detectable"] is not None:
            gap, share = number(search["detectable"], 3), glued(f"{100 * search['share']:g} %")
            seen = f"; a gap of {gap} in {share} of the rows would be noticed in 4 of 5 cases"
        yield f"{search['score']}{of}: {found}{seen}."


def tables(report: Report) -> Iterator[tuple[str, Table]]:
    """Each score in which segments were found, with a table of them."""
    searches: Sequence[Any] = report.segment_search
    for search in searches:
        found = entries(report, search["score"])
        if found:
            yield search["score"], _table(search["score"], found)


def _table(score: str, found: Sequence[Any]) -> Table:
    rows = [
        [
            entry["text"],
            f"{entry['rows']:,}",
            number(entry["predicted"], 3),
            number(entry["observed"], 3),
            signed(entry["gap"], 3),
            *(number(other["predicted"], 3) for other in entry["others"]),
            interval(entry["lo"], entry["hi"], 3),
            p_value(entry["p_adjusted"]),
            f"{100 * entry['share']:.3g} %",
            signed(entry["gain"], 5).lstrip("+"),
        ]
        for entry in found
    ]
    beside = [f"by {one['score']}" for one in found[0]["others"]]
    header = ["", "rows", "predicted", "observed", "gap", *beside, "95 % interval", "p-value", "share", "log-loss"]
    return Table(f"segments of {score}", header, rows)


def terms(report: Report) -> list[Pair]:
    if not report.segments:
        return []
    return [*_TERMS, *([_BESIDE] if len(report.segment_search) > 1 else [])]


def picture(found: Sequence[Any], scores: Sequence[str]) -> list[IntervalRow]:
    """The observed rate of each segment with its interval, and what each score predicts, always in the same order."""
    rows = []
    for entry in found:
        of = {entry["score"]: entry["predicted"]} | {other["score"]: other["predicted"] for other in entry["others"]}
        first, *others = (of[score] for score in scores)
        name = shortened(entry["text"], _LETTERS)
        lo = hi = None  # that of the gap, about the prediction
        if entry["lo"] is not None and entry["hi"] is not None:
            lo, hi = max(0.0, entry["predicted"] - entry["hi"]), min(1.0, entry["predicted"] - entry["lo"])
        rows.append(IntervalRow(name, (entry["observed"], lo, hi), None, first, tuple(others)))
    return rows
