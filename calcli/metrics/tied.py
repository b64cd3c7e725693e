"""Rows pooled by their probability: all that a metric of one binary score needs to know.

A tie is the set of rows that share a probability. Metrics computed from ties do not depend on the order of tied rows,
and a resample of the rows has the same ties with other sums: nothing is copied and nothing is sorted again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, LabelArray, taken
from calcli.numeric.bins import pooled_edges, run_starts
from calcli.numeric.lowess import smoothed

_ROUNDING = 1e-12
"""Weights that differ by no more than this share are equal."""


@dataclass(frozen=True)
class TiedScores:
    """The distinct probabilities of binary rows, with sums over the rows of each."""

    prob: FloatArray
    """Distinct, in rising order."""

    rows: FloatArray
    """How many rows; those of weight zero are not counted."""

    weight: FloatArray
    positive: FloatArray
    square: FloatArray
    """`weight`, `positive`, `square`: sums of w, of w y and of w^2."""

    @property
    def with_positive_weight(self) -> TiedScores:
        """The ties that hold any rows."""
        some = self.rows > 0
        if some.all():
            return self
        return taken(self, some)

    @property
    def count(self) -> float:
        return float(self.rows.sum())

    @property
    def total(self) -> float:
        return float(self.weight.sum())

    @cached_property
    def even(self) -> bool:
        """Whether all rows weigh the same, as far as ties can tell; there must be a row in each."""
        each = self.weight / self.rows
        return bool(np.ptp(each) <= _ROUNDING * each[0])

    @cached_property
    def smoothed(self) -> FloatArray:
        """The label rate at each tie, smoothed by lowess; there must be a row in each."""
        return smoothed(self.prob, self.positive / self.weight, self.weight)

    @cached_property
    def below(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """How many rows, how much weight, and how much of it positive lies in the first 0, 1, .. ties."""
        return cumulated(self.rows), cumulated(self.weight), cumulated(self.positive)

    def between(self, cuts: FloatArray, below: FloatArray) -> FloatArray:
        """The sums over the rows between cuts, from those over the first ties; tied rows share evenly."""
        return np.diff(np.interp(cuts, self.below[0], below))

    def cuts(self, count: int) -> FloatArray:
        """After how many rows each of `count` bins of equal mass begins, and the last one ends.

        Without weights row i of n, counted from 0, belongs to bin floor(i count / n). With weights i / n is the share
        of the weight before the row; tied rows share their weight evenly.
        """
        rows, weight, _ = self.below
        share = np.arange(count + 1)
        if self.even:
            n = round(rows[-1])
            return np.asarray(-(-share * n // count), dtype=np.float64)
        place = np.interp(share * (weight[-1] / count), weight, rows)
        cuts: FloatArray = np.minimum(np.ceil(place - 1e-9), rows[-1])
        return cuts

    def quantiles(self, count: int) -> FloatArray:
        """The quantiles at 0, 1/count, .. 1, as `calcli.numeric.bins.mass_edges` gives them for the rows."""
        return pooled_edges(self.prob, self.rows, self.weight, count, snap=_ROUNDING)

    def halfway_cuts(self, count: int) -> FloatArray:
        """The inner edges of bins of equal mass as Kumar et al. (2019) cut them: the sorted rows are split as evenly
        as possible, and an edge lies halfway between the last row of one part and the first of the next.
        """
        n = round(self.count)
        count = min(count, n)
        if self.even:
            part = np.arange(1, count)
            place = part * (n // count) + np.minimum(part, n % count)  # as numpy.array_split
        else:
            place = np.clip(self.cuts(count)[1:-1], 1, n - 1).astype(np.int64)
        above = self.below[0][1:]
        last = self.prob[np.searchsorted(above, place - 1, side="right")]
        following = self.prob[np.searchsorted(above, place, side="right")]
        return np.unique((last + following) / 2.0)


@dataclass(frozen=True)
class SortedRows:
    """Binary rows in the order of their probability, ready to be pooled under any counts or labels."""

    order: NDArray[np.int64]
    """Which rows, by rising probability; those of weight zero are left out."""

    starts: NDArray[np.int64]
    """Where each block begins among them."""

    prob: FloatArray
    label: FloatArray
    weight: FloatArray | None

    @classmethod
    def of(cls, order: NDArray[np.int64], prob: FloatArray, label: LabelArray, weight: FloatArray | None) -> SortedRows:
        if weight is not None and not weight.all():
            order = order[weight[order] > 0]
        rising = prob[order]
        starts = run_starts(rising)
        sorted_weight = None if weight is None else weight[order]
        return cls(order, starts, rising[starts], label[order].astype(np.float64), sorted_weight)

    def pool(self, counts: FloatArray | None = None, label: FloatArray | None = None) -> TiedScores:
        """The ties of the rows, taken `counts` times each, so that ties may be empty, or under another `label`.

        Counts and labels are in the rows' own order; None takes each row once, as it is.
        """
        y = self.label if label is None else label[self.order]
        rows = np.ones(len(self.order)) if counts is None else counts[self.order]
        if self.weight is None:
            each, positive = self._sums(rows), self._sums(rows * y)
            return TiedScores(self.prob, each, each, positive, each)
        mass = rows * self.weight
        sums = (self._sums(values) for values in (rows, mass, mass * y, mass * self.weight))
        return TiedScores(self.prob, *sums)

    def _sums(self, values: FloatArray) -> FloatArray:
        if len(self.starts) == len(self.order):
            return values
        return np.add.reduceat(values, self.starts)


def cumulated(values: FloatArray) -> FloatArray:
    """The sums of the first 0, 1, .. values."""
    return np.concatenate([[0.0], np.cumsum(values)])


def dot(one: FloatArray, other: FloatArray) -> float:
    """The sum of products, on this thread alone: the threads that resample are enough."""
    return float(np.einsum("i,i->", one, other))
