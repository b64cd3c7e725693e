"""How well the scores rank, and how often the predicted class is right."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks, dot
from calcli.metrics.reduce import measured, reduction_text

_ONE_CLASS = "the rows are all of one class"


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


def _counted(prob: FloatArray, label: IntArray) -> float | None:
    """The area from counts of pairs, in integers, so that it is exact.

    Each row is one integer: the bits of its probability, which rise with it, and below them its label. Sorting these
    is several times faster than ordering rows by a float, and puts the negative rows of a tie before the positive.
    """
    keys: IntArray = prob.view(np.int64) << 1  # this also drops the sign of a negative zero
    keys |= label
    keys.sort()
    places = np.flatnonzero(keys & 1)
    positive = len(places)
    negative = len(keys) - positive
    if not positive or not negative:
        return None
    # The j-th positive row stands at place i, so i - j negative rows come before it. Those that tie with it count half.
    before = int(places.sum()) - positive * (positive - 1) // 2
    mixed = np.flatnonzero(keys[1:] - keys[:-1] == 1)  # 2 v followed by 2 v + 1: from label 0 to 1 at one value
    mixed = mixed[keys[mixed] & 1 == 0]
    ties = 0
    if len(mixed):
        first = np.searchsorted(keys, keys[mixed], side="left")
        last = np.searchsorted(keys, keys[mixed] + 1, side="right")
        ties = int(((mixed + 1 - first) * (last - mixed - 1)).sum())
    return (2 * before - ties) / (2 * positive * negative)


def _weighed(scored: Scored, weight: FloatArray) -> float | None:
    """The area from sums of products of weights, tied rows together."""
    order = scored.order
    prob = scored.prob[order]
    starts = np.flatnonzero(np.concatenate([[True], prob[1:] != prob[:-1]]))
    signed = np.where(scored.label == 1, weight, -weight)[order]
    positive = np.add.reduceat(np.maximum(signed, 0.0), starts)
    negative = np.add.reduceat(np.maximum(-signed, 0.0), starts)
    below = np.cumsum(negative)
    pairs = float(positive.sum()) * float(below[-1])
    if pairs <= 0:
        return None
    return float((positive * (below - negative / 2.0)).sum()) / pairs


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
    definition = Definition("higher", reduction="top label")
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    return Measured(scored.mean_of(accuracy_rows), definition)


def accuracy_rows(scored: Scored) -> FloatArray:
    """1 where the predicted class is right, 0 elsewhere."""
    predicted = scored.prob > 0.5 if scored.binary else scored.prob.argmax(axis=1)
    return np.asarray(predicted == scored.label, dtype=np.float64)
