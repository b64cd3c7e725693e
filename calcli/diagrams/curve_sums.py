"""Curves from chunks of rows: sums that rows are added to, which give points with their bands by chance."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans
from calcli.diagrams.curves import Bands, Binning, Curve, Kind, Point
from calcli.errors import UsageError, check_choice, unknown_name
from calcli.metrics.adaptive import smooth_of
from calcli.metrics.base import Options, Scored
from calcli.metrics.binned import BinSums, binned_sums
from calcli.metrics.diagnosis import Diagnosis, diagnose
from calcli.metrics.joint_test import GapSums
from calcli.metrics.paired import Z975
from calcli.metrics.ranking import accuracy_rows
from calcli.metrics.tied import TiedScores, cumulated
from calcli.numeric.binomial import rate_interval
from calcli.numeric.bins import BINS, BinCount, bins_of_rows, check_bins, width_edges

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


CELLS = 1 << 14
"""The number of cells of [0, 1] on which the smooth curve sees probabilities, each at the mean of its rows."""

STEPS = 100
"""The number of steps from 0 to 1 at which curves are computed."""

NARROWEST = 1.0 / STEPS
"""A kernel narrower than the steps would be lost between them."""

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
    return Scored(right, np.maximum(scored.prob, 1.0 - scored.prob), scored.weight, units=scored.units)


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


def curve_sums(
    score: str,
    of: str | None,
    kind: Kind = "reliability",
    *,
    bins: BinCount = BINS,
    binning: Binning = "width",
    bands: Bands = "consistency",
) -> CurveSums:
    """The accumulator of a curve on the problem `of`; for ``rejection`` that is always the predicted class."""
    if kind == "smooth":
        return _Window(score, of, bands, np.zeros((3, 2 * CELLS)))
    if kind == "rejection":
        return _Rejection(score, of, bands, np.zeros((3, 2 * DOUBTS)))
    if binning == "mass" or bins == "auto":
        return _KeptRows(score, of, bands, bins, binning)
    return _Bars(score, of, bands, width_edges(bins))


class _Bars(CurveSums):
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
            sums = binned_sums(Scored(rows.label, rows.prob, rows.weight**2), self.edges)
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


class _KeptRows(CurveSums):
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
        bars = _Bars(self.score, self.of, self.bands, edges if len(edges) > 1 else np.repeat(edges, 2))
        bars.add(rows)
        return bars.curve(diagnosis)


def joined(parts: Sequence[Scored]) -> Scored | None:
    """All rows; None without any part."""
    if not parts:
        return None
    weights = [part.weight for part in parts if part.weight is not None]
    return Scored(
        np.concatenate([part.label for part in parts]),
        np.concatenate([part.prob for part in parts]),
        np.concatenate(weights) if weights else None,
    )


class _Window(CurveSums):
    """A window that slides instead of bins, as wide as the smooth ECE (Blasiok & Nakkiran 2023).

    With K_s the Gaussian of width s, reflected at 0 and 1, and t from 0 to 1:

        x(t) = sum w p K_s(t, p) / n(t),   y(t) = sum w y K_s(t, p) / n(t),   n(t) = sum w K_s(t, p)

    so that a calibrated score is the diagonal up to its ends, and the mean gap, weighted with n, is the smooth ECE. The
    band is 1.96 standard errors of y - x, with labels drawn from p (consistency) or as they are (bootstrap).

    Rows are gathered on narrow cells, each at the mean probability of its rows: by label the sums of w, w p and w^2.
    """

    kind = "smooth"

    def add(self, rows: Scored) -> None:
        for part in rows.parts():
            place = np.minimum((part.prob * CELLS).astype(np.int64), CELLS - 1) + CELLS * part.label
            self.sums += _weighted_sums(place, part.prob, part.weight, 2 * CELLS)

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        sums = self.sums.reshape(3, 2, CELLS)
        sums = sums[:, :, sums[0].sum(axis=0) > 0]
        if sums.size == 0:
            return self.curve_of()
        (weight, prob, _), positive, (q0, q1) = sums.sum(axis=1), sums[0, 1], sums[2]
        p = prob / weight
        error = smooth_of(TiedScores(p, weight, weight, positive, q0 + q1), Options())
        width = max(error, NARROWEST)
        t = np.linspace(0.0, 1.0, STEPS + 1)
        t = t[(t >= p[0] - NARROWEST) & (t <= p[-1] + NARROWEST)]
        kernel = reflected_gaussian(t, p, width)
        # Where less than half a row's worth of kernel is left, the curve would tell of rows that are far away.
        rows = kernel @ weight * width * math.sqrt(2.0 * math.pi) * weight.sum() / (q0 + q1).sum()
        kernel = kernel[rows >= 0.5]
        n = kernel @ weight
        x, y = kernel @ prob / n, kernel @ positive / n
        squares, gap = kernel**2, y - x
        spread = np.sqrt(squares @ ((q0 + q1) * p * (1.0 - p))) / n
        off = np.abs(gap) > Z975 * spread + ROUNDING
        middle = x
        if self.bands == "bootstrap":
            second, first = squares @ (q1 * (1.0 - p) ** 2 + q0 * p**2), squares @ (q1 * (1.0 - p) - q0 * p)
            variance = second - 2.0 * gap * first + gap**2 * (squares @ (q0 + q1))
            middle, spread = y, np.sqrt(np.maximum(variance, 0.0)) / n
        lo, hi = (np.clip(middle + side * Z975 * spread, 0.0, 1.0) for side in (-1.0, 1.0))
        band = Band(None if self.bands == "none" else (lo, hi), off).unless_chance(diagnosis)
        return self.curve_of(points_of(x, y, n, band), error, float(weight.sum()), diagnosis)


def reflected_gaussian(t: FloatArray, prob: FloatArray, width: float) -> FloatArray:
    """K_s(t, p), the Gaussian around p with all its images at 0 and 1; shape (points, probabilities).

    It is 1 + 2 sum_k exp(-(k pi s)^2 / 2) cos(k pi t) cos(k pi p), of which the terms above rounding are added up.
    """
    k = math.pi * np.arange(1, math.ceil(9.0 / (math.pi * width)) + 1)
    damped = 2.0 * np.exp(-0.5 * (k * width) ** 2) * np.cos(np.outer(t, k))
    kernel: FloatArray = np.maximum(1.0 + damped @ np.cos(np.outer(k, prob)), 0.0)
    return kernel


class _Rejection(CurveSums):
    """The error rate of the rows that are left when the least sure ones are rejected (CCL, section 4.2).

    The rows are those of the predicted class, rejected in the order of u = 1 - confidence. Those that are equally sure
    are rejected in equal parts. A calibrated score would err as often as it says: the mean of u over the rows left.

    Rows are gathered by the upper bits of u, which rise with it; those that agree to one part in 1024 are as one.
    """

    kind = "rejection"

    def add(self, rows: Scored) -> None:
        for some in spans(len(rows), TOGETHER):
            doubt = 1.0 - rows.prob[some]
            place = (np.clip(doubt, SUREST, 1.0).view(np.int64) >> _LOWER_BITS) - _FIRST
            place += DOUBTS * (rows.label[some] == 0)
            weight = None if rows.weight is None else rows.weight[some]
            self.sums += _weighted_sums(place, doubt, weight, 2 * DOUBTS)

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


def _weighted_sums(place: IntArray, prob: FloatArray, weight: FloatArray | None, count: int) -> FloatArray:
    """The sums of w, of w p and of w^2 in each of `count` places."""
    if weight is None:
        rows = np.bincount(place, minlength=count)
        return np.stack([rows, np.bincount(place, prob, minlength=count), rows])
    return np.stack([np.bincount(place, each, minlength=count) for each in (weight, weight * prob, weight**2)])


class CurveBuilder:
    """Sums up rows for the curves of several scores.

    Parameters
    ----------
    scores
        Their names.
    names
        The classes, in the order of their index.
    kinds
        The kinds of the curves.
    classes
        Of which classes: names, ``top`` or ``all``. None given: the positive class of two, ``top`` of more.
    judged
        Whether the curves have a diagnosis: not on rows that the scores were fitted on.
    """

    def __init__(
        self,
        scores: Sequence[str],
        names: Sequence[str],
        kinds: Sequence[Kind] = ("reliability",),
        classes: Sequence[str] = (),
        *,
        bins: BinCount = BINS,
        binning: Binning = "width",
        bands: Bands = "consistency",
        judged: bool = True,
    ) -> None:
        check_bins(bins)
        check_choice("binning", binning, get_args(Binning))
        check_choice("bands", bands, get_args(Bands))
        places = _chosen(classes, names)
        self._sums = [
            (
                score,
                of,
                curve_sums(name, None if of is None else names[of], kind, bins=bins, binning=binning, bands=bands),
            )
            for kind in kinds
            for of in ([None] if kind == "rejection" else places)
            for score, name in enumerate(scores)
        ]
        self._gaps = {(score, of): GapSums.empty() for score, of, _ in self._sums if judged}

    def add(self, scored: Sequence[Scored]) -> None:
        """More rows, under each score."""
        problems: dict[tuple[int, int | None], Scored] = {}
        for score, of, sums in self._sums:
            if (score, of) not in problems:
                problems[score, of] = problem(scored[score], of)
                if (score, of) in self._gaps:
                    self._gaps[score, of] += GapSums.of(problems[score, of])
            sums.add(problems[score, of])

    def __iadd__(self, other: CurveBuilder) -> Self:
        """Add the sums of other rows of the same scores."""
        for (_, _, sums), (_, _, others) in zip(self._sums, other._sums, strict=True):
            sums.join(others)
        for key, gaps in other._gaps.items():
            self._gaps[key] += gaps
        return self

    def curves(self) -> tuple[Curve, ...]:
        """The curves of all rows so far: by kind, by class, by score."""
        found = {key: diagnose(gaps) for key, gaps in self._gaps.items()}
        curves = (sums.curve(found.get((score, of))) for score, of, sums in self._sums)
        return tuple(curves)


def _chosen(classes: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """The indices of the requested classes, each once; None for the predicted class."""
    if not classes:
        return [1] if len(names) == 2 else [None]
    indices: list[int | None] = []
    for text in classes:
        if text in names:
            indices.append(names.index(text))
        elif text == ALL:
            indices += range(len(names))
        elif text == TOP:
            indices.append(None)
        else:
            raise UsageError(f"--class: {unknown_name('class', text, [*names, TOP, ALL])}")
    return list(dict.fromkeys(indices))
