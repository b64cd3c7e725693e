"""Rows pooled by their score, for methods that look at scores in order, and the most extreme rate that rows support.

Of w rows that all say the same, the next may still be the first that does not. With r the label rate of all rows, a
rate over w of them is held within 2 r / (w + 2) and 1 - 2 (1 - r) / (w + 2): what two more rows of the average kind
would leave of a rate of 0 or 1. For r = 1/2 that is Laplace's rule of succession. Rates inside are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.numeric.bins import ROUNDING, run_starts

MORE = 2.0
"""The rows of the average kind that are thought of beside those that there are."""


def average(positive: float, weight: float) -> float:
    """The label rate of all rows, never 0 or 1."""
    return (positive + 1.0) / (weight + 2.0)


def limits(weight: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest rate that these weights of rows support, of an average `rate`."""
    share: FloatArray = MORE / (weight + MORE)
    return rate * share, 1.0 - (1.0 - rate) * share


def supported(level: FloatArray, weight: FloatArray, rate: float) -> FloatArray:
    """Rates held within what their rows support."""
    return np.clip(level, *limits(weight, rate))


@dataclass(frozen=True, slots=True)
class Pooled:
    """The distinct scores in rising order. Those of two parts of a table add up to those of the whole."""

    score: FloatArray
    weight: FloatArray
    positive: FloatArray
    """`weight`, `positive`: the weight of their rows, and of their positive rows."""

    rows: FloatArray
    """How many rows they have."""

    step: float = 0.0
    """Scores that differ by less were made one, and none was moved by more than half of it; 0 where all are exact."""

    def __add__(self, other: Pooled) -> Pooled:
        step = max(self.step, other.step)
        one, two = self.at(step), other.at(step)
        return _joined(*map(np.concatenate, zip(one._columns, two._columns, strict=True)), step=step)

    @property
    def _columns(self) -> tuple[FloatArray, ...]:
        return self.score, self.weight, self.positive, self.rows

    def at(self, step: float) -> Pooled:
        """With the scores in cells of this width, a power of two times their own; each is the middle of its cell."""
        if step == self.step:
            return self
        return _joined(step * (np.floor(self.score / step) + 0.5), *self._columns[1:], step=step)

    def within(self, most: int) -> Pooled:
        """With so many scores at most, two or more, in the narrowest cells that have no more; 0 is between two."""
        pooled = self
        while len(pooled.score) > most:
            pooled = pooled.at(2.0 * pooled.step if pooled.step else FINEST)
        return pooled

    def batch(self) -> Batch:
        """Weighted rows with these scores, for a fit that asks for no more."""
        parts = (self.weight - self.positive, self.positive)
        score, weight = np.concatenate([self.score, self.score]), np.concatenate(parts)
        return Batch(score, np.repeat(np.arange(2), len(self.score)), weight).take(weight > 0)


FINEST = 2.0**-20
"""The narrowest cells."""


class IsotonicBlocks(NamedTuple):
    """Isotonic regression: the first and last distinct score of each block, and the level that rises from one to the
    next.
    """

    first: IntArray
    last: IntArray
    level: FloatArray


SAME = 1e-12
"""Blocks whose levels differ by no more than rounding are one."""


def by_score(score: FloatArray, label: IntArray, weight: FloatArray | None, *, size: float = 1.0) -> Pooled:
    """Rows with equal scores become one; rows of weight zero are left out. No weights are weights of one.

    Scores are equal that differ by no more than rounding, relative to `size` + |score|: log-odds to 1, probabilities to
    0. Log-odds of one class against all others, of shares that are the same, differ in their last digits.
    """
    if weight is not None and not (weighted := weight > 0).all():
        score, label, weight = score[weighted], label[weighted], weight[weighted]
    order = np.argsort(score)
    score = score[order]
    apart = score[1:] > score[:-1] + ROUNDING * (size + np.abs(score[:-1]))
    first = np.flatnonzero(np.concatenate([[True], apart])[: len(score)])
    rows = np.diff(first, append=len(score)).astype(np.float64)
    is_positive = (label == 1)[order]
    if weight is None:
        total = rows
        positive = is_positive.astype(np.float64)
    else:
        weight = weight[order]
        total = np.add.reduceat(weight, first)
        positive = np.where(is_positive, weight, 0.0)
    if len(first) < len(score):
        score, positive = score[first], np.add.reduceat(positive, first)
    return Pooled(score, total, np.asarray(positive), rows)


def _joined(score: FloatArray, *sums: FloatArray, step: float) -> Pooled:
    """Equal scores as one."""
    order = np.argsort(score, kind="stable")
    score = score[order]
    first = run_starts(score)
    weight, positive, rows = (np.add.reduceat(each[order], first) for each in sums)
    return Pooled(score[first], weight, positive, rows, step)


def isotonic_blocks(pooled: Pooled) -> IsotonicBlocks:
    """The non-decreasing levels of least squared error, by pooling adjacent violators.

    Neighbours with equal rates share a level in any case (a block's last rate is not above its level, the next one's
    first rate not below), so that runs of them are pooled beforehand: with labels of 0 and 1 most rows are in runs.
    """
    from scipy.optimize import isotonic_regression

    rate = pooled.positive / pooled.weight
    run = run_starts(rate)
    weight = np.add.reduceat(pooled.weight, run)
    levels = isotonic_regression(rate[run], weights=weight).x
    block = np.flatnonzero(np.concatenate([[True], np.diff(levels) > SAME]))
    first = run[block]
    # Rounding in the means could leave a level outside [0, 1] by an ulp.
    return IsotonicBlocks(first, np.append(first[1:], len(rate)) - 1, np.clip(levels[block], 0.0, 1.0))


def supported_levels(pooled: Pooled, blocks: IsotonicBlocks) -> FloatArray:
    """The levels held within what the rows of each block support, and pooled again where they then fall."""
    from scipy.optimize import isotonic_regression

    weight = np.add.reduceat(pooled.weight, blocks.first)
    rate = average(float(pooled.positive.sum()), float(pooled.weight.sum()))
    levels: FloatArray = isotonic_regression(supported(blocks.level, weight, rate), weights=weight).x
    return levels


class Running(NamedTuple):
    """Cumulative sums up to each distinct score: the sum of a bin is the difference of two.

    `negative` and `positive` start with a 0, the sum over no rows. They are kept apart so that a bin without rows of
    one kind gets exactly 0 of it, whatever the weights.
    """

    score: FloatArray
    weight: FloatArray
    negative: FloatArray
    positive: FloatArray

    @classmethod
    def of(cls, pooled: Pooled) -> Running:
        negative, positive = (
            np.concatenate([[0.0], np.cumsum(part)]) for part in (pooled.weight - pooled.positive, pooled.positive)
        )
        return cls(pooled.score, np.cumsum(pooled.weight), negative, positive)

    def binned(self, cuts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The weight of the negative and of the positive rows between the cuts; a bin holds its upper edge."""
        place = np.concatenate([[0], np.searchsorted(self.score, cuts, side="right"), [len(self.score)]])
        return np.diff(self.negative[place]), np.diff(self.positive[place])

    def mass_cuts(self, count: int) -> FloatArray:
        """The inner edges of `count` bins of equal weight.

        A cut lies halfway between two distinct scores, where the weight below is nearest to its share: rows with equal
        scores stay together, and a row of weight two counts as the row twice. Where many rows share a score there are
        fewer cuts. Of two that are equally near, the one farther from the middle is taken, so that the cuts are the
        same from either end; a row exactly in the middle goes to the lower bin.
        """
        score, below = self.score, self.weight
        if len(score) < 2:
            return np.empty(0)
        share = below[-1] * np.arange(1, count) / count
        over = np.clip(np.searchsorted(below, share, side="left"), 1, len(score) - 1)
        halfway = (below[over - 1] + below[over]) / 2.0  # a cut is the best one up to halfway to the next
        nearer = (halfway < share) | ((halfway == share) & (share > below[-1] / 2.0))  # as seen from either end
        place = np.unique(np.minimum(over - 1 + nearer, len(score) - 2))
        lower, upper = score[place], score[place + 1]
        # Halfway between two neighbouring numbers there is nothing, and rounding may take it for the upper one.
        cuts: FloatArray = np.minimum(lower + (upper - lower) / 2.0, np.nextafter(upper, lower))
        return cuts
