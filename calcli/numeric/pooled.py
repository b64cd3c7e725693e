"""Rows pooled by their score: what every method needs that looks at scores in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray


class Pooled(NamedTuple):
    """The distinct scores in rising order, with the weight of their rows and of their positive rows."""

    score: FloatArray
    weight: FloatArray
    positive: FloatArray


def by_score(score: FloatArray, label: IntArray, weight: FloatArray) -> Pooled:
    """Rows with equal scores become one; rows of weight zero are left out."""
    held = weight > 0
    if not held.all():
        score, label, weight = score[held], label[held], weight[held]
    distinct, place = np.unique(score, return_inverse=True)
    return Pooled(distinct, totals(place, weight), totals(place, weight * label))


def totals(place: IntArray, values: FloatArray, count: int = 0) -> FloatArray:
    """The sum of the values at each place, 0 .. the last one or `count` - 1."""
    return np.asarray(np.bincount(place, values, minlength=count), dtype=np.float64)


def mass_cuts(pooled: Pooled, count: int) -> FloatArray:
    """The inner edges of `count` bins of equal weight.

    A cut lies halfway between two distinct scores, where the weight below is nearest to its share: rows with equal
    scores stay together, and a row of weight two counts as the row twice. Where many rows share a score there are
    fewer cuts.
    """
    if len(pooled.score) < 2:
        return np.empty(0)
    below = np.cumsum(pooled.weight)
    share = below[-1] * np.arange(1, count) / count
    middle = (below[:-1] + below[1:]) / 2.0  # nearest: the cut after score j is best up to halfway to the one after
    place = np.unique(np.minimum(np.searchsorted(middle, share, side="left"), len(below) - 2))
    cuts: FloatArray = pooled.score[place] + (pooled.score[place + 1] - pooled.score[place]) / 2.0
    return cuts
