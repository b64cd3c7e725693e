"""`evaluate --rejection`: how often each score is wrong when the rows that it is least sure of are rejected."""

from __future__ import annotations

from collections.abc import Sequence

from calcli.metrics.rejection import Accepted, by_rate, by_threshold
from calcli.reports.measuring import Candidate, Labelled
from calcli.state import Json


def rejection_curves(candidates: Sequence[Candidate], rows: Labelled) -> list[dict[str, Json]]:
    """The report's points: x is the share of rows rejected, or the threshold of the uncertainty, y the error."""
    found: list[dict[str, Json]] = []
    for candidate in candidates:
        scored = candidate.scored(rows)
        if scored.nothing is None:
            found += [_point(candidate.name, "rate", one) for one in by_rate(scored)]
            found += [_point(candidate.name, "threshold", one) for one in by_threshold(scored)]
    return found


def _point(score: str, by: str, one: Accepted) -> dict[str, Json]:
    return {
        "score": score,
        "class": None,
        "by": by,
        "x": one.at,
        "y": one.error,
        "n": one.n,
        "lo": one.lo,
        "hi": one.hi,
    }
