"""Curves without bins, from sums over the rows of each distinct probability: isotonic (CORP), and smooth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.diagrams.curve_sums import FEWEST, LEVEL, ROUNDING, Band, CurveSums, effective_rows, points_of
from calcli.diagrams.curves import Bands, Curve, Kind
from calcli.metrics.adaptive import smooth_of
from calcli.metrics.base import Options, Scored
from calcli.metrics.diagnosis import Diagnosis
from calcli.metrics.paired import Z975
from calcli.metrics.proper import brier_reliability, recalibrated
from calcli.metrics.tied import TiedScores
from calcli.numeric.binomial import exact_interval
from calcli.numeric.bins import totals, weighted_quantiles
from calcli.numeric.lowess import gathered, shares
from calcli.numeric.seeded import stream

MOST = 1 << 16
"""Up to so many distinct probabilities are told apart; of more, those that agree in the upper bits are as one."""

_LOWER_BITS = 44
"""The bits of p, or of 1 - p where it is less, that are then dropped: what is left tells one part in 256."""

_TURNED = 1 << 62

DRAWS = 400
"""The number of tables whose labels are drawn for the band of an isotonic curve."""

POOLED = 1 << 11
"""The most cells on which they are drawn."""

LINES = 1 << 9
"""The most cells to which the lines of a smooth curve are fitted."""

PLACES = 60
"""The number of quantiles, and of even steps, at which curves are shown beside their corners."""


@dataclass
class DistinctScores:
    """The sums of w, w p, w^2, w y and w^2 y over the rows of each distinct probability, in rising order."""

    key: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    sums: FloatArray = field(default_factory=lambda: np.zeros((5, 0)))
    coarse: bool = False

    def add(self, rows: Scored) -> None:
        """Add rows of a binary problem."""
        for part in rows.parts():
            w, square, p, y = part.weights, part.weight_squares, part.prob + 0.0, part.label.astype(np.float64)
            key = p.view(np.int64)
            self._add(_upper(key) if self.coarse else key, np.stack([w, w * p, square, w * y, square * y]))

    def __iadd__(self, other: DistinctScores) -> DistinctScores:
        if other.coarse and not self.coarse:
            self._coarsen()
        self._add(_upper(other.key) if self.coarse and not other.coarse else other.key, other.sums)
        return self

    def _add(self, key: IntArray, sums: FloatArray) -> None:
        self.key, place = np.unique(np.concatenate([self.key, key]), return_inverse=True)
        both = np.concatenate([self.sums, sums], axis=1)
        self.sums = np.stack([totals(place, each, len(self.key)) for each in both])
        if len(self.key) > MOST and not self.coarse:
            self._coarsen()

    def _coarsen(self) -> None:
        key, sums = _upper(self.key), self.sums
        self.key, self.sums, self.coarse = self.key[:0], sums[:, :0], True
        self._add(key, sums)

    @property
    def ties(self) -> TiedScores:
        """The rows of positive weight by their probability; those that are as one are at its mean."""
        held = self.sums[0] > 0
        weight, prob, square, positive, _ = self.sums[:, held]
        p = prob / weight if self.coarse else self.key[held].view(np.float64)
        return TiedScores(p, weight, weight, positive, square)


def _upper(key: IntArray) -> IntArray:
    """A key of the upper bits, which rises with the probability, from that of all bits."""
    p = key.view(np.float64)
    near = np.minimum(p, 1.0 - p)
    bits = near.view(np.int64) >> _LOWER_BITS
    return np.where(p <= 0.5, bits, _TURNED - bits)


class _OfDistinct(CurveSums):
    """A curve that rows of the same probability are all that is needed for."""

    def __init__(self, score: str, of: str | None, bands: Bands) -> None:
        super().__init__(score, of, bands, DistinctScores())

    def add(self, rows: Scored) -> None:
        self.sums.add(rows)

    def curve(self, diagnosis: Diagnosis | None = None) -> Curve:
        ties = self.sums.ties
        if len(ties.prob) == 0:
            return self.curve_of()
        return self._drawn(ties, self.sums.sums[4, self.sums.sums[0] > 0], diagnosis)

    def _drawn(self, ties: TiedScores, positive_square: FloatArray, diagnosis: Diagnosis | None) -> Curve:
        raise NotImplementedError

    def curve_of(self, *given: Any, **more: Any) -> Curve:
        ties = self.sums.ties
        return super().curve_of(*given, **more, counts=_counts(ties.prob, ties.weight))


class Corp(_OfDistinct):
    """The isotonic regression of the labels on the probabilities (Dimitriadis, Gneiting & Jordan 2021).

    The curve is level over each pool of rows and straight between pools. For the band of a calibrated score, labels are
    drawn from the probabilities, in cells of equal mass, and regressed as they were. The other band is the exact
    interval of the rate in each pool: labels that are drawn from the curve, and regressed, would lie below it at its
    lower end and above it at its upper end, because the first pools are those that happen to be low.
    """

    kind: ClassVar[Kind] = "corp"

    def _drawn(self, ties: TiedScores, positive_square: FloatArray, diagnosis: Diagnosis | None) -> Curve:
        rate, p = recalibrated(ties), ties.prob
        change = np.flatnonzero(np.diff(rate) > 0)
        x = np.union1d(_places(ties), p[np.concatenate([[0], change, change + 1, [len(p) - 1]])])
        y = np.interp(x, p, rate)
        _, pool = np.unique(rate, return_inverse=True)
        mass = totals(pool, ties.weight)
        n = mass[pool][np.clip(np.searchsorted(p, x, side="right") - 1, 0, None)]
        lo, hi = shown = self._band(x, ties)
        off = (n >= FEWEST) & ((y < lo - ROUNDING) | (y > hi + ROUNDING))
        if self.bands == "bootstrap":
            worth = effective_rows(mass, totals(pool, ties.square))
            pairs = [exact_interval(hits, rows) for hits, rows in zip(np.unique(rate) * worth, worth, strict=True)]
            lower, upper = np.array(pairs)[pool].T
            shown = np.interp(x, p, lower), np.interp(x, p, upper)
        band = Band(None if self.bands == "none" else shown, off).unless_chance(diagnosis)
        error = float(brier_reliability.pooled(ties, Options()) or 0.0)
        return self.curve_of(points_of(x, y, n, band), error, ties.total, diagnosis)

    def _band(self, x: FloatArray, ties: TiedScores) -> tuple[FloatArray, FloatArray]:
        """The ends of the band of curves of labels that are drawn from the probabilities."""
        w = ties.weight
        mass, prob, square = gathered(POOLED, w, w * ties.prob, ties.square)
        at, worth = prob / mass, np.maximum(np.rint(effective_rows(mass, square)), 1.0).astype(np.int64)
        drawn = stream(0, "bands of isotonic curves").binomial(worth, np.clip(at, 0, 1), (DRAWS, len(mass)))
        curves = [np.interp(x, at, isotonic(each / worth, mass)) for each in drawn]
        lo, hi = np.quantile(curves, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
        return lo, hi


def isotonic(rate: FloatArray, weight: FloatArray) -> FloatArray:
    """The rising values that are nearest to the rates."""
    from scipy.optimize import isotonic_regression

    return np.asarray(isotonic_regression(rate, weights=weight).x, dtype=np.float64)


class Smooth(_OfDistinct):
    """Lines through the nearest rows, which keep a calibrated score on the diagonal up to both ends (Cleveland 1979).

    The share of rows of a line falls with the fifth root of their number. The band is 1.96 standard errors, with labels
    drawn from p (consistency) or as they are (bootstrap).
    """

    kind: ClassVar[Kind] = "smooth"

    def _drawn(self, ties: TiedScores, positive_square: FloatArray, diagnosis: Diagnosis | None) -> Curve:
        w = ties.weight
        mass, prob, square, positive, ones = gathered(
            LINES, w, w * ties.prob, ties.square, ties.positive, positive_square
        )
        p, x = prob / mass, _places(ties)
        rows = float(effective_rows(np.array([ties.total]), np.array([ties.square.sum()]))[0])
        share = shares(x, p, mass, span_of(rows))
        level = share @ (positive / mass)
        y = np.clip(level, 0.0, 1.0)
        each = (share / mass) ** 2
        spread = np.sqrt(each @ (square * p * (1.0 - p)))
        off = np.abs(level - x) > Z975 * spread + ROUNDING
        middle = x
        if self.bands == "bootstrap":
            middle, rate = y, np.clip(np.interp(p, x, level), 0.0, 1.0)
            spread = np.sqrt(each @ (ones * (1.0 - rate) ** 2 + (square - ones) * rate**2))
        lo, hi = (np.clip(middle + side * Z975 * spread, 0.0, 1.0) for side in (-1.0, 1.0))
        band = Band(None if self.bands == "none" else (lo, hi), off).unless_chance(diagnosis)
        n = 1.0 / (each @ square)
        return self.curve_of(points_of(x, y, n, band), smooth_of(ties, Options()), ties.total, diagnosis)


def span_of(rows: float) -> float:
    """The share of the rows that a line of the smooth curve is fitted to."""
    return min(max(1.2 * float(rows**-0.2), 0.05), 2.0 / 3.0)


def _places(ties: TiedScores) -> FloatArray:
    """Where a curve is shown: at even steps between the least and the greatest probability, and at quantiles."""
    share = np.linspace(0.0, 1.0, PLACES + 1)
    p = ties.prob
    found: FloatArray = np.unique(
        np.append(p[0] + share * (p[-1] - p[0]), weighted_quantiles(p, ties.rows, ties.weight, share))
    )
    return np.clip(found, p[0], p[-1])


_TAIL = 10.0 ** (np.arange(-60, -20) / 10.0)
_CELLS = np.unique(np.concatenate([np.linspace(0.0, 1.0, 101), _TAIL, 1.0 - _TAIL]))
"""The edges of the cells in which rows are counted: even ones, and near 0 and 1 ten to a power of ten."""


def _counts(prob: FloatArray, weight: FloatArray) -> tuple[tuple[float, float, float], ...]:
    """Where each cell that holds rows begins and ends, and how many it holds."""
    place = np.clip(np.searchsorted(_CELLS, prob, side="left") - 1, 0, len(_CELLS) - 2)
    rows = totals(place, weight, len(_CELLS) - 1)
    held = np.flatnonzero(rows)
    return tuple(zip(_CELLS[held].tolist(), _CELLS[held + 1].tolist(), rows[held].tolist(), strict=True))
