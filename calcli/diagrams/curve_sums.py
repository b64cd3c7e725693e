"""Curves from chunks of rows: sums that rows are added to, which give points with their bands by chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans
from calcli.diagrams.curves import Bands, Binning, Curve, Kind, Point
from calcli.metrics.base import Scored
from calcli.metrics.binned import BinSums, binned_sums
from calcli.metrics.diagnosis import Diagnosis
from calcli.metrics.ranking import accuracy_rows
from calcli.metrics.tied import cumulated
from calcli.numeric.binomial import rate_interval
from calcli.numeric.bins import BinCount, bins_of_rows, width_edges

LEVEL = 0.95
"""The probability that a band covers."""

FEWEST = 5.0
"""Points of fewer rows are never called off: one confident error would make the headline."""

ROUNDING = 1e-12
"""Values that differ by no more are equal."""

TOP, ALL = "top", "all"
"""In place of a class: the predicted one; every one."""


def effective_rows(weight: FloatArray, square: FloatArray) -> FloatArray:
    """Kish's effective number of rows, (sum w)^2 / sum w^2; 0 where a square underflows."""
    return np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)


class Band(NamedTuple):
    """The band of a curve."""

    ends: tuple[FloatArray, FloatArray] | None
    """The ends of the band that is shown; None where none is."""

    off: NDArray[np.bool_]
    """Whether each value is outside the consistency band."""

    def unless_chance(self, diagnosis: Diagnosis | None) -> Band:
        """The band with nothing off where chance alone can make all gaps."""
        return self._replace(off=self.off & False) if diagnosis is not None and diagnosis.chance else self


def bands_of(expected: FloatArray, y: FloatArray, worth: FloatArray, bands: Bands) -> Band:
    """The band of values `y`, each worth so many rows; for a calibrated score y would be `expected`."""
    lo, hi = consistent = rate_interval(expected, worth, LEVEL)
    off = (worth >= FEWEST) & ((y < lo - ROUNDING) | (y > hi + ROUNDING))
    ends = {"consistency": consistent, "bootstrap": rate_interval(y, worth, LEVEL)}.get(bands)
    return Band(ends, off)


def points_of(x: FloatArray, y: FloatArray, n: FloatArray, band: Band) -> tuple[Point, ...]:
    missing = [None] * len(x)
    lo, hi = (missing, missing) if band.ends is None else (end.tolist() for end in band.ends)
    return tuple(map(Point, x.tolist(), y.tolist(), n.tolist(), lo, hi, band.off.tolist()))


STEPS = 100
"""The number of steps from 0 to 1 at which curves are computed."""

TOGETHER = 1 << 19
"""The number of rows that are counted into the many cells at a time."""

SUREST = 2.0**-52
"""Above it 1 - p still has digits."""

_LOWER_BITS = 42
_FIRST = int(np.float64(SUREST).view(np.int64)) >> _LOWER_BITS
DOUBTS = (int(np.float64(1.0).view(np.int64)) >> _LOWER_BITS) - _FIRST + 1
"""The number of cells that hold the values of 1 - p from `SUREST` to 1."""


def problem(scored: Scored, of: int | None) -> Scored:
    """Class `of` against the rest; None: the class that is predicted, and whether it was right."""
    if of is not None:
        return scored.one_vs_rest(of)
    if not scored.binary:
        return scored.top
    right = accuracy_rows(scored).astype(np.int64)
    prob = np.maximum(scored.prob, 1.0 - scored.prob)
    return Scored(right, prob, scored.weight, units=scored.units, squares=scored.squares)


class CurveSums(ABC):
    """Sums over rows that give the curve of all rows so far, so that there can be any number of rows."""

    kind: ClassVar[Kind] = "reliability"

    def __init__(self, score: str, of: str | None, bands: Bands, sums: Any) -> None:
        self.score, self.of, self.bands, self.sums = score, of, bands, sums

    @abstractmethod
    def add(self, rows: Scored) -> None:
        """Add rows of the binary problem."""

    def join(self, other: Any) -> None:
        """Add the rows of other sums of the same kind."""
        self.sums += other.sums

    @abstractmethod
    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        """The curve of all rows so far, given their diagnosis: where it is chance, no point is off."""

    def curve_of(self, *given: Any, **more: Any) -> Curve:
        """The curve with these fields beside its names."""
        return Curve(self.score, self.of, self.kind, *given, **more)


class Bars(CurveSums):
    """Bars over bins, right-closed as those of the ECE.

    In a bin of n rows the number of ones is binomial, over rows drawn anew (bootstrap) as well as over labels drawn
    from the probabilities of rows drawn anew (Broecker & Smith 2007): nothing has to be drawn to know its quantiles.
    """

    def __init__(self, score: str, of: str | None, bands: Bands, edges: FloatArray) -> None:
        super().__init__(score, of, bands, BinSums.empty(len(edges) + 1))
        self.edges, self.square = edges, np.zeros(len(edges) + 1)

    def add(self, rows: Scored) -> None:
        sums = binned_sums(rows, self.edges)
        self.sums += sums
        if rows.weight is not None:
            sums = binned_sums(Scored(rows.label, rows.prob, rows.weight_squares), self.edges)
        self.square = self.square + sums.weight

    def join(self, other: Any) -> None:
        super().join(other)
        self.square = self.square + other.square

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        filled = np.flatnonzero(self.sums.weight)
        if len(filled) == 0:
            return self.curve_of()
        n = self.sums.weight[filled]
        x, y = self.sums.prob[filled] / n, self.sums.label[filled] / n
        worth = effective_rows(n, self.square[filled])
        band = bands_of(x, y, worth, self.bands)
        ends = tuple(
            zip(self.edges[filled - 1].tolist(), self.edges[filled].tolist(), strict=True)
        )  # place 0 is no bin
        points = points_of(x, y, n, band.unless_chance(diagnosis))
        bins = len(self.edges) - 1
        return self.curve_of(points, self.sums.norm(1.0), float(n.sum()), diagnosis, edges=ends, bins=bins)


class KeptRows(CurveSums):
    """Bars over bins whose edges are known only when all rows are there."""

    def __init__(self, score: str, of: str | None, bands: Bands, bins: BinCount, binning: Binning) -> None:
        super().__init__(score, of, bands, list[Scored]())
        self.bins, self.binning = bins, binning

    def add(self, rows: Scored) -> None:
        self.sums.append(rows)

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        rows = joined(self.sums)
        if rows is None or rows.undefined_reason:
            return self.curve_of()
        bins = bins_of_rows(rows.rows) if self.bins == "auto" else self.bins
        edges = width_edges(bins) if self.binning == "width" else np.unique(rows.ties.quantiles(bins))
        bars = Bars(self.score, self.of, self.bands, edges if len(edges) > 1 else np.repeat(edges, 2))
        bars.add(rows)
        return bars.curve(diagnosis)


def joined(parts: Sequence[Scored]) -> Scored | None:
    """All rows; None without any part."""
    if not parts:
        return None
    weights = [part.weight for part in parts if part.weight is not None]
    squares = [part.squares for part in parts if part.squares is not None]
    return Scored(
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.prob for part in parts]),
        np.concatenate(weights) if weights else None,
        squares=np.concatenate(squares) if squares else None,
    )


class Rejection(CurveSums):
    """The error rate of the rows that are left when the least sure ones are rejected (CCL, section 4.2).

    The rows are those of the predicted class, rejected in the order of u = 1 - confidence. Those that are equally sure
    are rejected in equal parts. A calibrated score would err as often as it says: the mean of u over the rows left.

    Rows are gathered by the upper bits of u, which rise with it; those that agree to one part in 1024 are as one.
    """

    kind = "rejection"

    @classmethod
    def empty(cls, score: str, of: str | None, bands: Bands) -> Self:
        """The sums over no rows."""
        return cls(score, of, bands, np.zeros((3, 2 * DOUBTS)))

    def add(self, rows: Scored) -> None:
        for some in spans(len(rows), TOGETHER):
            doubt = 1.0 - rows.prob[some]
            place = (np.clip(doubt, SUREST, 1.0).view(np.int64) >> _LOWER_BITS) - _FIRST
            place += DOUBTS * (rows.label[some] == 0)
            self.sums += _weighted_sums(place, doubt, None if rows.weight is None else rows.take(some), 2 * DOUBTS)

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        sums = self.sums.reshape(3, 2, DOUBTS)
        if not sums[0].any():
            return self.curve_of()
        weight, predicted, square = (cumulated(each) for each in sums.sum(axis=1))
        share = np.arange(STEPS) / STEPS
        left = (1.0 - share) * weight[-1]
        y, expected = (np.interp(left, weight, each) / left for each in (cumulated(sums[0, 1]), predicted))
        band = bands_of(expected, y, effective_rows(left, np.interp(left, weight, square)), self.bands)
        points = points_of(share, y, left, band.unless_chance(diagnosis))
        return self.curve_of(points, float(y[0]), float(left[0]), diagnosis)


def _weighted_sums(place: IntArray, prob: FloatArray, rows: Scored | None, count: int) -> FloatArray:
    """The sums of w, of w p and of w^2 in each of `count` places; w is that of the rows, or 1."""
    if rows is None:
        ones = np.bincount(place, minlength=count)
        return np.stack([ones, np.bincount(place, prob, minlength=count), ones])
    summed = (rows.weights, rows.weights * prob, rows.weight_squares)
    return np.stack([np.bincount(place, each, minlength=count) for each in summed])
