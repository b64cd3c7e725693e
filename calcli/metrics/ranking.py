"""How well the scores rank, and how often the predicted class is right."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray, spans
from calcli.metrics.additive import Additive, OfProblems, of_problems
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks, dot
from calcli.metrics.reduce import measured, reduction_text
from calcli.numeric.links import logit

_ONE_CLASS = "the rows are all of one class"
_ACCURACY = Definition("higher", reduction="top label")


def auc(scored: Scored, options: Options) -> Measured:
    """Area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

    With more than two classes, the mean over classes of each one against the rest; classes that do not occur are left
    out.
    """
    definition = Definition("higher", reduction=reduction_text(scored, "macro", options))
    return measured(scored, options, lambda one, _: binary_auc(one), "macro", definition, _ONE_CLASS)


def binary_auc(scored: Scored) -> float | None:
    """The area for two classes, or None where one of them is absent."""
    if scored.weight is None:
        return _counted(scored.prob, scored.label)
    return _weighed(scored, scored.weight)


def _counted(prob: FloatArray, label: LabelArray) -> float | None:
    """The area from counts of pairs, in integers, so that it is exact.

    Each row is one integer: the bits of its probability, which rise with it, and below them its label. Sorting these
    is several times faster than ordering rows by a float, and puts the negative rows of a tie before the positive.
    """
    keys: IntArray = prob.view(np.int64) << 1  # this also drops the sign of a negative zero
    keys |= label
    keys.sort()
    positive = places = ties = 0
    for some in spans(len(keys)):
        label = keys[some] & 1
        count = int(label.sum())
        positive += count
        places += int(label @ np.arange(len(label))) + some.start * count
        ties += _ties(keys, some)
    negative = len(keys) - positive
    if not positive or not negative:
        return None
    # The j-th positive row stands at place i, so i - j negative rows come before it. Those that tie with it count half.
    before = places - positive * (positive - 1) // 2
    return (2 * before - ties) / (2 * positive * negative)


def _ties(keys: IntArray, some: slice) -> int:
    """How many pairs of both labels share a value, of the values whose last negative row is among `some`."""
    pair = keys[some.start : some.stop + 1]
    mixed = some.start + np.flatnonzero(pair[1:] - pair[:-1] == 1)  # from 2 v + 0 to 2 v + 1
    mixed = mixed[keys[mixed] & 1 == 0]
    if not len(mixed):
        return 0
    first = np.searchsorted(keys, keys[mixed], side="left")
    last = np.searchsorted(keys, keys[mixed] + 1, side="right")
    return int(((mixed + 1 - first) * (last - mixed - 1)).sum())


def _weighed(scored: Scored, weight: FloatArray) -> float | None:
    """The area from sums of products of weights, tied rows together."""
    area = positive = negative = 0.0
    for low, high in _tied(scored, weight):
        area += dot(high, negative + np.cumsum(low) - low / 2.0)
        positive, negative = positive + float(high.sum()), negative + float(low.sum())
    return area / (positive * negative) if positive > 0 and negative > 0 else None


def _tied(scored: Scored, weight: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The weight of negative and of positive rows at each distinct probability, in rising order."""
    last, low, high = np.empty(0), np.empty(0), np.empty(0)
    for some in spans(len(scored)):
        rows = scored.order[some]
        prob = np.concatenate([last, scored.prob[rows]])
        signed = np.where(scored.label[rows] == 1, weight[rows], -weight[rows])
        starts = np.flatnonzero(np.concatenate([[True], prob[1:] != prob[:-1]]))
        low = np.add.reduceat(np.concatenate([low, np.maximum(-signed, 0.0)]), starts)
        high = np.add.reduceat(np.concatenate([high, np.maximum(signed, 0.0)]), starts)
        yield low[:-1], high[:-1]  # more rows may share the last
        last, low, high = prob[-1:], low[-1:], high[-1:]
    yield low, high


CELLS_PER_UNIT = 4096
"""Cells of the log-odds in which rows are counted that are too many to be held."""

_OUTERMOST = math.ceil(float(logit(np.array(1.0))) * CELLS_PER_UNIT)

CELLS = 2 * _OUTERMOST + 1
"""How many of them there are."""


def cell_of(prob: FloatArray) -> IntArray:
    """The cell of each probability, 0 .. `CELLS` - 1; it rises with the probability."""
    cell = np.empty(len(prob), dtype=np.int64)
    for some in spans(len(prob)):
        cell[some] = np.floor(logit(prob[some]) * CELLS_PER_UNIT)
    cell += _OUTERMOST
    return cell


@dataclass(frozen=True, slots=True)
class Cells:
    """The weight of each class in each cell of the log-odds.

    Attributes
    ----------
    positive, negative
        The weight of the rows of either label.
    value, mixed
        A probability that stands there, NaN where none does, and whether others do: if not, the rows do tie.
    """

    positive: FloatArray
    negative: FloatArray
    value: FloatArray
    mixed: NDArray[np.bool_]

    def __add__(self, other: Cells) -> Cells:
        return Cells(
            self.positive + other.positive,
            self.negative + other.negative,
            np.where(np.isnan(self.value), other.value, self.value),
            self.mixed | other.mixed | (np.abs(self.value - other.value) > 0),
        )

    @classmethod
    def of(cls, scored: Scored) -> Cells:
        cell = cell_of(scored.prob)
        value, mixed = np.full(CELLS, np.nan), np.zeros(CELLS, dtype=np.bool_)
        value[cell] = scored.prob
        mixed[cell[scored.prob != value[cell]]] = True
        cell += CELLS * scored.label.astype(np.int64, copy=False)
        sums = np.bincount(cell, scored.weight, minlength=2 * CELLS).astype(np.float64)
        return cls(sums[CELLS:], sums[:CELLS], value, mixed)

    @property
    def pairs(self) -> float:
        return float(self.positive.sum()) * float(self.negative.sum())

    @property
    def area(self) -> float | None:
        """The area under the ROC curve, as if the rows of a cell tied."""
        below = np.cumsum(self.negative)
        return dot(self.positive, below - self.negative / 2.0) / self.pairs if self.pairs > 0 else None

    @property
    def bound(self) -> float:
        """How far it may be off: a pair in one cell counts half, and may have had to count 0 or 1."""
        within = dot(self.positive[self.mixed], self.negative[self.mixed])
        return within / 2.0 / self.pairs if self.pairs > 0 else 0.0


def _in_cells(scores: Sequence[OfProblems[Cells]], options: Options) -> Definition:
    bound = max(part.bound for score in scores for part in score.parts)
    text = f"histogram: log-odds within 1/{CELLS_PER_UNIT} count as ties, right to {rounded_up(bound)}"
    return Definition("higher", reduction=reduction_text(scores[0], "macro", options), approximation=text)


def rounded_up(bound: float) -> str:
    """Two digits, none of them too low."""
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1) if bound > 0 else 1.0
    return f"{math.ceil(bound / unit) * unit:.2g}"


AUC_SUMS = of_problems("macro", lambda one, _: Cells.of(one), lambda cells, _: cells.area, _in_cells, _ONE_CLASS)


def auc_of(blocks: Blocks, options: Options) -> float | None:
    """The same area from blocks."""
    negative = blocks.weight - blocks.positive
    below = np.cumsum(negative)
    pairs = float(blocks.positive.sum()) * float(below[-1])
    return dot(blocks.positive, below - negative / 2.0) / pairs if pairs > 0 else None


def pr_auc(scored: Scored, options: Options) -> Measured:
    """Average precision: the precision at each threshold, weighted by the recall that the threshold adds.

    The area under the precision-recall curve as a step function, as scikit-learn has it: nothing is interpolated. With
    more than two classes, the mean over classes one-vs-rest.
    """
    definition = Definition("higher", reduction=reduction_text(scored, "macro", options), approximation="step function")
    return measured(
        scored, options, lambda one, how: pr_auc_of(one.blocks, how), "macro", definition, "no row is positive"
    )


def pr_auc_of(blocks: Blocks, options: Options) -> float | None:
    positive, weight = np.cumsum(blocks.positive[::-1]), np.cumsum(blocks.weight[::-1])
    if not positive[-1] > 0:
        return None
    precision = np.divide(positive, weight, out=np.zeros_like(weight), where=weight > 0)
    return dot(precision, blocks.positive[::-1]) / float(positive[-1])


def accuracy(scored: Scored, options: Options) -> Measured:
    """How often the most probable class is the right one; where two are equally probable, the first is predicted."""
    if scored.nothing:
        return Measured(None, _ACCURACY, reason=scored.nothing)
    return Measured(scored.mean_of(accuracy_rows), _ACCURACY)


def accuracy_rows(scored: Scored) -> FloatArray:
    """1 where the predicted class is right, 0 elsewhere."""
    predicted = scored.prob > 0.5 if scored.binary else scored.prob.argmax(axis=1)
    return np.asarray(predicted == scored.label, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Right:
    """The weight of all rows, and of those that are predicted right."""

    weight: float
    right: float

    def __add__(self, other: _Right) -> _Right:
        return _Right(self.weight + other.weight, self.right + other.right)


ACCURACY_SUMS = Additive(
    lambda scored, _: _Right(scored.total_weight, scored.sum_of(accuracy_rows)),
    lambda scores, _: [Measured(sums.right / sums.weight, _ACCURACY) for sums in scores],
)
