"""How sure the order of several scores is: the probability that each is the best, and which may be.

Rows are drawn with replacement, or units of them, all scores under the same draws. That a score is the best of all is
tested by the largest of its standardised differences from the others, whose distribution is that of the draws about
their means; the scores for which the test does not refuse it at 5 % hold the best one in 95 % of tables (the subset of
multiple comparisons with the best, Hsu 1984; Hansen, Lunde & Nason 2011 for the bootstrap).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.unit_signs import merged
from calcli.numeric.rng import stream

DRAWS = 2000

LEVEL = 0.05


class Standing(NamedTuple):
    """One score among several.

    Attributes
    ----------
    best
        In which share of the draws it has the least loss.
    as_good
        Whether it may be the best, as far as these rows can tell.
    """

    best: float
    as_good: bool


def standings(
    losses: Sequence[FloatArray], weight: FloatArray | None, units: IntArray | None = None, seed: int = 0
) -> tuple[Standing, ...]:
    """The standing of each score, from its loss in each row; `units` are drawn together."""
    mass, sums = _by_unit(losses, weight, units, seed)
    count = len(mass)
    rng = stream(seed, "standings")
    drawn = rng.multinomial(count, np.full(count, 1.0 / count), DRAWS).astype(np.float64)
    total = drawn @ mass
    means = (drawn @ sums)[total > 0] / total[total > 0, None]
    mean = sums.sum(axis=0) / mass.sum()
    lowest = means == means.min(axis=1, keepdims=True)  # equal ones share
    best = (lowest / lowest.sum(axis=1, keepdims=True)).mean(axis=0)
    # Differences of each score (rows of the matrix) from each other one, standardised.
    gap = mean[:, None] - mean
    spread = np.array([(means - means[:, [place]]).std(axis=0) for place in range(len(mean))])
    rounding = 1e-12 * float(np.abs(mean).max())
    as_good = []
    for place in range(len(mean)):
        varies = spread[place] > rounding  # a gap that does not vary is certain
        noise = (means[:, [place]] - means - gap[place])[:, varies] / spread[place, varies]
        largest = (gap[place, varies] / spread[place, varies]).max(initial=0.0)
        refused = largest > np.quantile(noise.max(axis=1, initial=0.0), 1.0 - LEVEL)
        as_good.append(not refused and not (gap[place, ~varies] > rounding).any())
    return tuple(Standing(float(one), good) for one, good in zip(best, as_good, strict=True))


def _by_unit(
    losses: Sequence[FloatArray], weight: FloatArray | None, units: IntArray | None, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The weight of each unit, and the sums of w times the loss; shapes (units,) and (units, scores)."""
    rows = len(losses[0])
    w = np.ones(rows) if weight is None else weight / weight.max()
    place = merged(np.arange(rows) if units is None else units, seed)
    count = int(place.max()) + 1
    mass = np.bincount(place, w, count).astype(np.float64)
    held = mass > 0
    sums = np.stack([np.bincount(place, w * loss, count) for loss in losses], axis=1).astype(np.float64)
    return mass[held], sums[held]
