"""K-means: Lloyd's algorithm, once, from the first centres of k-means++ (Arthur & Vassilvitskii 2007).

It makes the draws of scikit-learn's `KMeans` in the same order and ends where that does, so that the clusters are the
same, unless a point is equally near to two centres; but importing scikit-learn takes longer than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from calcli.batch import FloatArray, IntArray, spans
from calcli.numeric.bins import totals
from calcli.numeric.threads import one_thread_of_algebra

MOST, STILL = 300, 1e-4
"""Steps at most, and the squared way of all centres, in mean variances of a coordinate, that ends them."""

_DISTANCES = 1 << 17
"""How many distances are held at a time, so that they stay in the processor's cache."""


def k_means(points: FloatArray, weight: FloatArray, count: int, draw: int) -> FloatArray:
    """The centres of `count` clusters of more points than that; each point has a positive weight."""
    with one_thread_of_algebra():  # several would add up in an order of their own
        centres = _first(points, weight, count, draw)
        columns = np.ascontiguousarray(points.T) * weight
        least = STILL * float(points.var(axis=0).mean())
        for _ in range(MOST):
            place = _nearest(points, centres)
            before, centres = centres, _means(columns, place, totals(place, weight, count), centres)
            if np.square(centres - before).sum() <= least:
                break
        return centres


def _first(points: FloatArray, weight: FloatArray, count: int, draw: int) -> FloatArray:
    """Centres drawn among the points by the square of their distance to those before, each the best of a few draws."""
    rng, lengths = np.random.RandomState(draw), np.square(points).sum(axis=1)

    def squared(places: IntArray) -> FloatArray:
        """The squared distances of a few points to all."""
        found: FloatArray = -2.0 * (points[places] @ points.T) + lengths[places, None] + lengths
        return np.maximum(found, 0.0)

    chosen = [int(rng.choice(len(points), p=weight / weight.sum()))]
    closest = squared(np.array(chosen))[0]
    for _ in range(1, count):
        mass = np.cumsum(weight * closest)
        drawn = rng.uniform(size=2 + int(math.log(count))) * (closest @ weight)
        places = np.minimum(np.searchsorted(mass, drawn), len(points) - 1)
        after = np.minimum(squared(places), closest)
        best = int(np.argmin(after @ weight))
        closest = after[best]
        chosen.append(int(places[best]))
    return points[chosen]


def distances(points: FloatArray, centres: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """In pieces of the points, their squared distances to all centres, less the squared length of each point."""
    doubled, lengths = -2.0 * centres.T, np.square(centres).sum(axis=1)
    for rows in spans(len(points), max(1, _DISTANCES // max(len(centres), 1))):
        found = points[rows] @ doubled
        found += lengths
        yield rows, found


def _nearest(points: FloatArray, centres: FloatArray) -> IntArray:
    """The nearest centre of each point, the first of equally near ones."""
    return np.concatenate([found.argmin(axis=1) for _, found in distances(points, centres)])


def _means(columns: FloatArray, place: IntArray, mass: FloatArray, centres: FloatArray) -> FloatArray:
    """The mean of each cluster; one that has lost all its points stays where it is."""
    sums = np.stack([totals(place, column, len(centres)) for column in columns], axis=1)
    return np.divide(sums, mass[:, None], out=centres.copy(), where=mass[:, None] > 0.0)
