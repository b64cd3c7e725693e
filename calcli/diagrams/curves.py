"""The curves of pictures and of the report's ``curves``: points, and summaries of them.

All pictures are of a binary problem: the positive class of two, the class that is predicted, or one class against the
rest. A point says what was predicted on average, and what came true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from calcli.metrics.diagnosis import Diagnosis
from calcli.state import Json

Kind: TypeAlias = Literal["reliability", "smooth", "rejection"]
Binning: TypeAlias = Literal["width", "mass"]
Bands: TypeAlias = Literal["consistency", "bootstrap", "none"]


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve."""

    x: float
    y: float
    """`x`, `y`: reliability: the mean prediction, and the share that came true. Rejection: the share of rows that are
    rejected, and the error rate of the rows that are kept.
    """

    n: float
    """How many rows it stands for, or how much weight. Smooth curve: rows per unit of probability."""

    lo: float | None = None
    hi: float | None = None
    """`lo`, `hi`: the band: 95 % of what y would be for a calibrated score (consistency), or on as many rows drawn anew
    (bootstrap); None where none was asked for.
    """

    off: bool = False
    """Whether it is beyond chance: y is outside the consistency band, whichever band is shown, there are `FEWEST` rows
    or more, and all gaps together are beyond chance.
    """

    @property
    def side(self) -> Literal["over", "under"]:
        """Whether the score is over-confident here, in that less happens than is predicted, or under-confident."""
        return "over" if self.y < self.x else "under"


@dataclass(frozen=True, slots=True)
class Curve:
    """One score on one binary problem."""

    score: str
    """The name of the score."""

    of: str | None
    """The class whose probability it is; None for the class that is predicted."""

    kind: Kind
    points: tuple[Point, ...] = ()
    """In the order of x; bins without rows have none."""

    error: float = 0.0
    """The picture in one number: the mean gap between prediction and rate (reliability: the ECE of these bins; smooth:
    the smooth ECE), or the error rate before anything is rejected.
    """

    total: float = 0.0
    """All rows, or their weight."""

    diagnosis: Diagnosis | None = None
    """Whether all gaps together are beyond chance, and what is wrong then; None without rows, and on rows of the fit.
    """

    edges: tuple[tuple[float, float], ...] = ()
    """Where the bin of each point begins and ends; empty for curves."""

    bins: int = 0
    """How many bins there are, those without rows among them; 0 for curves."""

    by: str | None = None
    """What rows are rejected by; None for the confidence in the predicted class."""

    loss: str = "error rate"
    """What the y of a rejection curve is."""

    @property
    def chance(self) -> bool:
        """Whether chance alone can make all gaps."""
        return self.diagnosis is None or self.diagnosis.chance

    @property
    def densities(self) -> list[float]:
        """Rows per unit of probability at each point."""
        if not self.edges:
            return [point.n for point in self.points]
        spans = (end - begin for begin, end in self.edges)
        return [point.n / span if span > 0 else point.n for point, span in zip(self.points, spans, strict=True)]

    def to_json(self) -> list[dict[str, Json]]:
        """The points, as the report has them."""
        named: dict[str, Json] = {"score": self.score, "class": self.of}
        if self.by is not None:
            named["by"] = self.by
        return [named | {"x": one.x, "y": one.y, "n": one.n, "lo": one.lo, "hi": one.hi} for one in self.points]


def by_kind(curves: Iterable[Curve]) -> Mapping[str, list[dict[str, Json]]]:
    """The ``curves`` of a report: all points, by kind of curve."""
    points: dict[str, list[dict[str, Json]]] = {"reliability": [], "rejection": []}
    for one in curves:
        points["rejection" if one.kind == "rejection" else "reliability"] += one.to_json()
    return points
