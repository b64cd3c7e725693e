"""Rows as points, and how far they are from centroids, without rounding.

Coordinates are whole multiples of a step, a millionth of the largest or less. Sums of products of whole numbers are
exact in float64 while they stay below 2^53, so that a distance is the same however many rows are computed together, in
whatever order and on however many threads: a chunk of a table gets what the whole gets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray

_CHUNK = 1 << 21
"""Numbers that are held at a time."""


def step_of(points: FloatArray) -> float:
    """The step at which these coordinates, and others up to twice as large, are whole numbers."""
    largest = float(np.abs(points).max(initial=0.0))
    exponent = math.frexp(largest)[1] if largest > 0.0 else 0
    return math.ldexp(1.0, exponent + 1 - _bits(points.shape[1]))


def on_grid(points: FloatArray, step: float) -> FloatArray:
    """Coordinates as whole multiples of the step; those too large for exact sums are held at the largest that are."""
    most = math.ldexp(1.0, _bits(points.shape[1]))
    placed: FloatArray = points / step
    np.rint(placed, out=placed)
    return np.clip(placed, -most, most, out=placed)


def _bits(columns: int) -> int:
    """4 m^2 summed over the columns stays below 2^53 for coordinates of so many bits."""
    return (51 - math.ceil(math.log2(max(columns, 1)))) // 2


@dataclass(frozen=True, slots=True)
class NearestCentroids:
    """The nearest centroids of each row, the nearest first: which they are, and the squared distances in steps."""

    place: IntArray
    distance: FloatArray


def nearest(points: FloatArray, centroids: FloatArray, count: int) -> NearestCentroids:
    """The `count` nearest centroids; of equally near ones the first."""
    count = min(count, len(centroids))
    place = np.empty((len(points), count), dtype=np.int64)
    distance = np.empty((len(points), count))
    rows = max(1, _CHUNK // max(len(centroids), 1))
    lengths = np.square(centroids).sum(axis=1)
    for start in range(0, len(points), rows):
        some = points[start : start + rows]
        squared = some @ centroids.T
        squared *= -2.0
        squared += lengths
        squared += np.square(some).sum(axis=1)[:, None]
        within = np.arange(len(some))
        for rank in range(count):  # a few are found sooner than all are sorted
            least = squared.argmin(axis=1)
            place[start : start + rows, rank] = least
            distance[start : start + rows, rank] = squared[within, least]
            squared[within, least] = np.inf
    return NearestCentroids(place, distance)
