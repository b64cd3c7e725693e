"""Clusters of points: their centroids, by k-means or by Ward's method.

Both see each distinct point once, with the weight of all rows that lie there, and in an order that follows from the
points alone. So neither the order of the rows matters, nor whether a row stands twice or weighs twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.seeded import row_keys, stream
from calcli.numeric.sums import totals

Clustering: TypeAlias = Literal["kmeans", "ward"]

_ROWS: Mapping[Clustering, int] = {"kmeans": 100_000, "ward": 8_000}
"""Of more points than this some are clustered; Ward's method holds the distance of every pair."""

_NUMBERS = 1 << 24
"""Nor are more coordinates than this held."""


def centroids(
    points: FloatArray, weight: FloatArray, counts: Sequence[int], clustering: Clustering, seed: int
) -> dict[int, FloatArray]:
    """The centroids of clusterings into so many clusters, or into as many as there are distinct points.

    Parameters
    ----------
    points
        On a grid (see `calcli.learners.points`), and so are the centroids.
    weight
        Non-negative, not all zero.
    counts
        Each gives a clustering of its own.
    seed
        Of the sample and of the first centroids.
    clustering
        ``kmeans``: Lloyd's, once, from k-means++ (scikit-learn). ``ward``: agglomerative, cut at the count (SciPy);
        each distinct point counts once.
    """
    points, weight = _distinct(points, weight, _ROWS[clustering], seed)
    if clustering == "ward":
        return _ward(points, weight, counts)
    return {count: _k_means(points, weight, count, seed) for count in counts}


def _distinct(points: FloatArray, weight: FloatArray, most: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """The distinct points with their weights, in an order drawn by chance; the first ones of very many."""
    _, first, place = np.unique(row_keys(points, seed, "clusters"), return_index=True, return_inverse=True)
    total = totals(place, weight)
    weighted = np.flatnonzero(total > 0)[: min(most, max(1, _NUMBERS // max(points.shape[1], 1)))]
    return points[first[weighted]], total[weighted]


def _k_means(points: FloatArray, weight: FloatArray, count: int, seed: int) -> FloatArray:
    if len(points) <= count:
        return points
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    draw = int(stream(seed, "k-means").integers(2**31))
    with threadpool_limits(1):  # threads would add up in an order of their own
        fitted = KMeans(count, n_init=1, random_state=draw, algorithm="lloyd").fit(points, sample_weight=weight)
    return np.rint(np.asarray(fitted.cluster_centers_, dtype=np.float64))


def _ward(points: FloatArray, weight: FloatArray, counts: Sequence[int]) -> dict[int, FloatArray]:
    centres = {count: points for count in counts if len(points) <= count}  # SciPy 1.13 makes one of them
    if len(centres) == len(counts):
        return centres
    from scipy.cluster.hierarchy import fcluster, ward

    tree = ward(points)
    for count in counts:
        if count not in centres:
            centres[count] = _means(points, weight, fcluster(tree, count, criterion="maxclust") - 1)
    return centres


def _means(points: FloatArray, weight: FloatArray, place: np.ndarray[tuple[int], np.dtype[np.int32]]) -> FloatArray:
    mass = totals(place, weight)
    sums = np.stack([totals(place, weight * column) for column in points.T], axis=1)
    return np.rint(sums / mass[:, None])
