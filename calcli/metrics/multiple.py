"""Several groups of rows, and several scores, judged together.

Miscalibration by group: the test of a group is that of calibration in the large, the sum of w (y - p), with the tails
of the sum's own distribution, because those of a normal one are wrong where a group is small or its label rare. Where
rows belong to units, the group is tested over units too, and the greater p-value counts. A group so small that this
test would miss a large gap says nothing by passing it, so each group comes with the smallest gap that it would most
likely have shown. Tests of many groups are corrected together, over all columns and scores. A group that no labels
could make stand out takes no part in that: its predictions alone tell how far its rows can go (Tarone 1990).

The standing of scores: the probability that each is the best, and which may be. Rows, or units of rows, are drawn with
replacement, the same for all scores; for the probability the draws are spread by `DOUBT`. That a score is the best of
all is tested by the largest of its standardised differences from the others, whose distribution is that of the draws
about their means; the scores for which the test does not refuse it at 5 % hold the best one in 95 % of tables (the
subset of multiple comparisons with the best, Hsu 1984; Hansen, Lunde & Nason 2011 for the bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Scored
from calcli.metrics.joint_test import GapSums, drawn_rows
from calcli.metrics.paired import merged_units, of_units, unit_sums
from calcli.numeric.binomial import cell_test, sum_test
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream

POWER = 1.959963984540054 + 0.8416212335729143
"""The normal quantiles at 97.5 % and 80 %: a gap of so many standard errors is found in 80 % of tests at 5 %."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """One group of rows."""

    rows: int
    """How many have a positive weight."""

    detectable: float | None
    """The smallest absolute mean of y - p that a two-sided test at 5 % finds with a power of about 80 %: (1.960 +
    0.842) sqrt(sum w^2 p (1 - p)) / sum w. None where the predictions leave no room for chance.
    """

    p: float | None
    """Two-sided, of the exact distribution of the sum, or of its saddlepoint approximation where rows are many."""

    least: float | None
    """The smallest p that any labels of these rows can have."""


def by_group(scored: Scored, groups: IntArray, count: int) -> tuple[Detectable, ...]:
    """Each of `count` groups, by the group of each row; of more than two classes the predicted one is judged."""
    top = scored.with_scaled_weights.top
    weight = top.weights
    rows, total = totals(groups, (weight > 0).astype(np.float64), count), totals(groups, weight, count)
    order = np.argsort(groups, kind="stable")
    ends = np.searchsorted(groups[order], np.arange(count + 1))
    found = []
    for group in range(count):
        part = top.take(order[ends[group] : ends[group + 1]])
        positive = part.with_positive_weight
        chance, each = drawn_rows(positive)
        p, least = sum_test(chance, positive.label, None if positive.weight is None else each)
        known, noise = total[group] > 0, float(np.square(each) @ (chance * (1.0 - chance)))
        if top.units is not None:
            by_unit, noise_by_unit = _by_unit(part)
            known &= by_unit is not None  # of a single unit nothing is known
            p, noise = max(p, by_unit or 0.0), max(noise, noise_by_unit)
        detectable = POWER * math.sqrt(noise) / total[group] if noise > 0 else None
        found.append(Detectable(int(rows[group]), detectable, p if known else None, least if known else None))
    return tuple(found)


def of_cells(gaps: GapSums) -> Detectable:
    """One group from sums over its rows on narrow cells, in which each row counts as the mean of its cell."""
    gaps = replace(gaps, cell=gaps.cell[gaps.sums[2] > 0], sums=gaps.sums[:, gaps.sums[2] > 0])
    if not len(gaps.cell):
        return Detectable(0, None, None, None)
    rows, chance, weight = gaps.drawn(np.clip(gaps.prob, 0.0, 1.0))
    test = cell_test(chance, weight, rows, float(gaps.sums[5].sum() + (rows * weight) @ chance))
    variance = float(gaps.square @ (gaps.sums[3] * gaps.sums[4] / gaps.sums[1] ** 2))
    detectable = POWER * math.sqrt(variance) / gaps.total if variance > 0 else None
    return Detectable(int(gaps.sums[0].sum()), detectable, *test)


def _by_unit(rows: Scored) -> tuple[float | None, float]:
    """The p-value of the mean of y - p over units, None of fewer than two, and the variance of its sum."""
    assert rows.units is not None
    gap, mass = unit_sums(rows.units, rows.weights * (rows.label - rows.prob), rows.weights)
    found = of_units(gap, mass)
    return found.p, float(np.square(gap - (found.value or 0.0) * mass).sum())


def adjusted(tests: Sequence[tuple[float | None, float | None]], level: float = 0.05) -> tuple[float | None, ...]:
    """Holm's p-values of the family of some tests, each given by its p and its least p; None for those outside it."""
    size = family(tests, level)
    return holm([p if one is not None and one <= level / size else None for p, one in tests])


def family(tests: Sequence[tuple[float | None, float | None]], level: float = 0.05) -> int:
    """The size of the family of some tests, each given by its p and its least p.

    With k the least number such that no more than k tests can have a p of at most level / k, those are the family. It
    does not depend on the labels, so that any family chosen like this keeps the level (Tarone 1990).
    """
    least = np.array([one for p, one in tests if p is not None and one is not None])
    return next((k for k in range(1, len(least) + 1) if np.count_nonzero(least <= level / k) <= k), 1)


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values so corrected that the chance of any false one below 5 % is at most 5 % (Holm 1979).

    The k-th smallest of m, from 0, is multiplied by m - k, and none may be smaller than the one before it.
    """
    ordered = sorted((value, index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(ordered):
        largest = max(largest, min(1.0, value * (len(ordered) - rank)))
        adjusted[index] = largest
    return tuple(adjusted)


DRAWS = 2000

LEVEL = 0.05

DOUBT = 3.0
"""How many times the variance of the draws is that of what the scores will be on all rows. Of methods that were fitted
across folds the draws see half of it: what a fit owes to luck, other folds share. And whichever of many is ahead owes
part of its lead to luck. With 3, scores are the best as often as is said of them, in simulations with known truth."""


class Standing(NamedTuple):
    """One score among several."""

    best: float
    """The probability that its loss on all rows is the least."""

    as_good: bool
    """Whether it may be the best, as far as these rows can tell."""


def standings(
    losses: Sequence[FloatArray], weight: FloatArray | None, units: IntArray | None = None, seed: int = 0
) -> tuple[Standing, ...]:
    """The standing of each score, from its loss in each row; `units` are drawn together."""
    mass, sums = _sums_by_unit(losses, weight, units, seed)
    count = len(mass)
    rng = stream(seed, "standings")
    # Unit by unit: a multinomial distribution would be drawn as many binomial ones, which takes five times as long.
    drawn = np.empty((DRAWS, count))
    for counts in drawn:
        counts[:] = np.bincount(rng.integers(0, count, count), minlength=count)
    total = drawn @ mass
    means = (drawn @ sums)[total > 0] / total[total > 0, None]
    mean = sums.sum(axis=0) / mass.sum()
    spread_out = mean + math.sqrt(DOUBT) * (means - mean)
    lowest = spread_out == spread_out.min(axis=1, keepdims=True)  # equal ones share
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


def _sums_by_unit(
    losses: Sequence[FloatArray], weight: FloatArray | None, units: IntArray | None, seed: int
) -> tuple[FloatArray, FloatArray]:
    """The weight of each unit, and the sums of w times the loss; shapes (units,) and (units, scores)."""
    rows = len(losses[0])
    w = np.ones(rows) if weight is None else weight / weight.max()
    place = merged_units(np.arange(rows) if units is None else units, seed)
    count = int(place.max()) + 1
    mass = totals(place, w, count)
    held = mass > 0
    sums = np.stack([totals(place, w * loss, count) for loss in losses], axis=1)
    return mass[held], sums[held]
