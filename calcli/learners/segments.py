"""Segments in which a score is more wrong than elsewhere: a beam search over conditions on up to three features.

The evidence of a segment is the score test of a shift of its log-odds beside a shift of all rows, z^2 with
z = sum w (y - p) / sqrt(V (1 - V / V_all)) and V the variance of the sum; or, if it is less, that of its own gap. The
largest z^2 of C conditions is about 2 ln C by chance alone, so that each bound of a condition costs about as much: a
condition that adds less is left out. Two conditions of which neither says anything alone are found by trying all pairs
of values and of one-sided ranges. What a chosen segment explains is taken off before the next one is looked for, so
that the segments are different ones.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.learners.conditions import Axis, Codes, Condition, rows_of
from calcli.numeric.bins import totals
from calcli.numeric.level_effects import rates_of_bins
from calcli.numeric.links import log_odds, sigmoid

DEPTH, BEAM, PER_AXIS = 3, 12, 2
"""Conditions of a segment, segments that are looked at further, and how many of these may differ on one axis alone."""

MORE = 4.0 / 3.0
"""Each bound after the first costs so much more: the rows of a segment that chance put there are easily left out."""

FAMILY = 8
"""So many times `BEAM` conditions are looked at for each of them: the best of an axis are much alike."""

WORTH_OF_NUMBERS = 4
"""The ranges of a column of numbers depend on each other: by chance they reach what so many categories do."""

LEAST = 5.0
"""The least variance of a segment's labels, in rows: below, sums are far from normal, and chance finds any gap."""

ALL = 1.0 - 1e-9
"""Segments have less than this share of the variance: what has more is all rows, but for rounding."""

PAIRED, PAIRS, PER_PAIR = 40, 24, 4
"""Pairs of conditions are tried on up to so many features; so many pairs are kept, and so many of the same features."""

PAIR_ROWS = 1 << 14
"""Pairs are tried on at most so many rows, evenly spaced."""

STEPS, LONGEST, NEAR = 30, 2.0, 1e-6
"""The most steps to a shift, the longest one, and the one that is the last."""


class Segment(NamedTuple):
    """Conditions on rows that are off."""

    conditions: tuple[Condition, ...]
    square: float
    """The evidence, as the z^2 of a segment with one bound."""

    shift: float
    """The shift of the log-odds that would put its rows right."""

    def text(self, axes: Sequence[Axis]) -> str:
        """The conditions in words."""
        return " and ".join(axes[one.axis].text(one) for one in self.conditions)


class _Node(NamedTuple):
    """Conditions, and their evidence less what their bounds cost."""

    worth: float
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class _Choices:
    """The conditions on all axes, on cumulative sums over all bins of all axes."""

    axis: IntArray
    lo: IntArray
    hi: IntArray
    bounds: IntArray
    starts: IntArray
    """The place of each axis's first bin."""

    @classmethod
    def of(cls, axes: Sequence[Axis]) -> _Choices:
        each = [axis.choices() for axis in axes]
        place = np.repeat(np.arange(len(axes)), [len(one.lo) for one in each])
        lo, hi, bounds = (np.concatenate(column) for column in zip(*each, strict=True))
        return cls(place, lo, hi, bounds, np.concatenate([[0], np.cumsum([axis.size for axis in axes])]))


class Search:
    """The rows in which segments are looked for: features in bins, labels, probabilities, weights.

    `effect` is how many times the variance of sums is that over independent rows.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        codes: Codes,
        label: FloatArray,
        prob: FloatArray,
        weight: FloatArray | None,
        effect: float = 1.0,
    ) -> None:
        self.axes, self.codes, self.choices = axes, codes, _Choices.of(axes)
        weights = np.ones(len(label)) if weight is None else weight / max(float(weight.mean()), 1e-300)
        rate = rates_of_bins(prob, label, weights)
        self.label, self.weight, self.odds = label, weights, log_odds(prob)
        # Of scores that are far too sure, p (1 - p) is no measure of chance; where they are right both are the same.
        self.spread = np.maximum(prob * (1.0 - prob), rate * (1.0 - rate))
        self.variance = np.square(weights) * self.spread * effect
        self.all_variance = float(self.variance.sum())
        self.least = LEAST * effect * float(np.square(weights).sum()) / float(weights.sum())
        self.gap = weights * (label - prob)
        self.residual = self.gap
        # The z^2 that chance reaches with one bound.
        self.cost = 2.0 * math.log(2 + sum(WORTH_OF_NUMBERS if one.ends is not None else one.bins for one in axes))

    def segments(self, count: int) -> Iterator[Segment]:
        """Up to so many segments, the one with the greatest evidence first."""
        odds, explained = self.odds, self.odds.copy()
        self._put_right(slice(None))
        pairs = self._pairs()
        for _ in range(count):
            node = self._best(pairs)
            if node is None:
                return
            rows = np.flatnonzero(rows_of(self.codes, node.conditions))
            yield Segment(node.conditions, node.worth + self.cost, self._shift(rows, odds[rows]))
            # What is explained is no gap any more: else a shift of all rows would make it one again.
            explained[rows] += self._shift(rows, explained[rows])
            self.gap = self.weight * (self.label - sigmoid(explained))
            self._put_right(rows)
            self._put_right(slice(None))

    def error(self, share: float) -> float:
        """The standard error of the difference between the gap of a segment with a share of all rows, and the rest."""
        return math.sqrt(self.all_variance / (share * (1.0 - share))) / max(float(self.weight.sum()), 1e-300)

    def _put_right(self, rows: IntArray | slice) -> None:
        """Shift the log-odds of rows, after which the mean of their residuals is 0."""
        self.odds = self.odds.copy()
        self.odds[rows] += self._shift(rows, self.odds[rows])
        self.residual = self.weight * (self.label - sigmoid(self.odds))

    def _shift(self, rows: IntArray | slice, odds: FloatArray) -> float:
        """The shift of the log-odds of rows that makes their predicted rate the observed one."""
        label, weight, shift = self.label[rows], self.weight[rows], 0.0
        slope = float((weight * self.spread[rows]).sum())
        for _ in range(STEPS):
            step = float((weight * (label - sigmoid(odds + shift))).sum()) / max(slope, 1e-300)
            shift += min(max(step, -LONGEST), LONGEST)
            if abs(step) < NEAR:
                break
        return shift

    def _pairs(self) -> list[tuple[Condition, ...]]:
        """The pairs of conditions of the greatest worth, whatever each is worth alone."""
        step = -(-len(self.label) // PAIR_ROWS)
        codes = self.codes[:, ::step].astype(np.int64)
        columns = np.stack([self.residual[::step], self.variance[::step]]) * step
        choices, inside = self.choices, []
        for axis in range(min(len(self.axes), PAIRED)):
            place = np.flatnonzero((choices.axis == axis) & (choices.bounds == 1))
            bins = np.arange(self.axes[axis].size)
            inside.append(
                (place, ((bins >= choices.lo[place, None]) & (bins <= choices.hi[place, None])).astype(float))
            )
        found: list[tuple[float, int, int]] = []
        for (one, (rows, held)), (other, (across, beside)) in combinations(enumerate(inside), 2):
            size = (held.shape[1], beside.shape[1])
            cell = codes[one] * size[1] + codes[other]
            cells = np.stack([totals(cell, column, size[0] * size[1]).reshape(size) for column in columns])
            excess, variance = held @ cells @ beside.T
            worth = self._worth(excess, excess, variance, 2).ravel()
            for at in np.argsort(-worth, kind="stable")[:PER_PAIR]:
                if worth[at] > -np.inf:
                    found.append((float(worth[at]), int(rows[at // len(across)]), int(across[at % len(across)])))
        return [(self._condition(one), self._condition(other)) for _, one, other in sorted(found, reverse=True)[:PAIRS]]

    def _paired(self, pair: tuple[Condition, ...]) -> _Node:
        """A pair on all rows."""
        rows = rows_of(self.codes, pair)
        excess, gap, variance = (np.array([column[rows].sum()]) for column in (self.residual, self.gap, self.variance))
        return _Node(float(self._worth(excess, gap, variance, 2)[0]), pair)

    def _best(self, pairs: Sequence[tuple[Condition, ...]]) -> _Node | None:
        """The segment of the greatest worth."""
        beam, found = [_Node(0.0, ())], dict[tuple[Condition, ...], float]()
        for depth in range(DEPTH):
            grown = [node for parent in beam for node in self._grown(parent)]
            if depth == 1:
                grown += [node for node in map(self._paired, pairs) if node.worth > -math.inf]
            grown.sort(reverse=True)
            beam = []
            families: Counter[tuple[tuple[Condition, ...], int]] = Counter()
            for node in grown:
                key = tuple(sorted(node.conditions))
                families[family := (node.conditions[:-1], node.conditions[-1].axis)] += key not in found
                if key not in found and families[family] <= PER_AXIS and len(beam) < BEAM:
                    found[key] = node.worth
                    beam.append(_Node(node.worth, key))
        return max((_Node(worth, key) for key, worth in found.items()), default=None)

    def _grown(self, parent: _Node) -> Iterator[_Node]:
        """The segment with one condition more, on another axis; of its conditions those of the greatest worth."""
        choices, taken = self.choices, [one.axis for one in parent.conditions]
        rows = np.flatnonzero(rows_of(self.codes, parent.conditions)) if parent.conditions else slice(None)
        columns = [column[rows] for column in (self.residual, self.gap, self.variance)]
        sums = np.zeros((3, choices.starts[-1] + 1))
        for axis, (start, end) in enumerate(pairwise(choices.starts)):
            if axis not in taken:
                code = self.codes[axis][rows]
                sums[:, start + 1 : end + 1] = [totals(code, column, end - start) for column in columns]
        sums = np.cumsum(sums, axis=1)
        first, last = choices.starts[choices.axis] + choices.lo, choices.starts[choices.axis] + choices.hi + 1
        bounds = choices.bounds + sum(one.bounds for one in parent.conditions)
        excess, gap, variance = sums[:, last] - sums[:, first]
        worth = self._worth(excess, gap, variance, bounds)
        worth[np.isin(choices.axis, taken)] = -np.inf
        held = worth > (parent.worth if parent.conditions else -np.inf)
        for place in np.argsort(-worth, kind="stable")[: BEAM * FAMILY]:
            if held[place]:
                yield _Node(float(worth[place]), (*parent.conditions, self._condition(int(place))))

    def _condition(self, place: int) -> Condition:
        choices = self.choices
        return Condition(*(int(one[place]) for one in (choices.axis, choices.lo, choices.hi, choices.bounds)))

    def _worth(self, excess: FloatArray, gap: FloatArray, variance: FloatArray, bounds: IntArray | int) -> FloatArray:
        """The evidence of segments with these sums, less what their bounds cost; minus infinity where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.square(excess) / (variance * np.maximum(1.0 - variance / self.all_variance, 1e-9))
            square = np.minimum(beyond, np.square(gap) / variance)
        held = (variance >= self.least) & (excess * gap > 0.0)
        held &= variance < self.all_variance * ALL  # a condition of all rows says nothing
        return np.where(held, square - self.cost * (1.0 + MORE * (bounds - 1)), -np.inf)
