"""How well the scores rank: whether rows of a class get higher probabilities than the others."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Definition, Measured, Options, Scored


def auc(scored: Scored, options: Options) -> Measured:
    """Area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

    With more than two classes, the mean over classes of each one against the rest; classes that do not occur are left
    out.
    """
    definition = Definition("higher", reduction="positive class" if scored.binary else "macro one-vs-rest")
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    if scored.binary:
        value = binary_auc(scored)
        reason = "the rows are all of one class" if value is None else None
        return Measured(value, definition, reason=reason)
    areas = tuple(binary_auc(scored.one_vs_rest(index)) for index in range(scored.classes))
    held = [area for area in areas if area is not None]
    if not held:
        return Measured(None, definition, reason="the rows are all of one class", per_class=areas)
    left_out = [str(index) for index, area in enumerate(areas) if area is None]
    reason = f"mean over {len(held)} classes; no row has class {', '.join(left_out)}" if left_out else None
    return Measured(math.fsum(held) / len(held), definition, reason=reason, per_class=areas)


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
