"""Features as coordinates, and clusters of such points: centroids by k-means or Ward's method, the nearest of a point.

Numbers are standardised, categories one-hot: rows of different categories have a squared distance of 2, as two rows
have on average in a standardised number.

Coordinates are whole multiples of a step, a millionth of the largest or less. Sums of products of whole numbers are
exact in float64 while they stay below 2^53, so that a distance is the same however many rows are computed together, in
whatever order and on however many threads: a chunk of a table gets what the whole gets.

Both methods see each distinct point once, with the weight of all rows that lie there, and in an order that follows from
the points alone. So neither the order of the rows matters, nor whether a row stands twice or weighs twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, IntArray
from calcli.learners.k_means import distances, k_means
from calcli.numeric.bins import totals
from calcli.numeric.seeded import row_keys, stream
from calcli.state import State, pack_texts, unpack_texts

LEAST_SHARE, MOST_LEVELS = 0.01, 20
"""Levels of a category with this share of the weight get a coordinate, the heaviest first, up to so many."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How features become coordinates."""

    numbers: tuple[str, ...]
    """Names of numbers and booleans, a coordinate each."""

    median: FloatArray
    mean: FloatArray
    scale: FloatArray
    """`median`, `mean`, `scale`: one entry for each. A missing value is replaced by the median; the coordinate is
    (value - mean) / scale, and 0 where the scale is 0, which marks a feature without spread.
    """

    categories: tuple[str, ...]
    """Names of categories."""

    levels: tuple[tuple[str, ...], ...]
    """The levels of each that have a coordinate, 1 for rows of that level and 0 for others. Rare, unseen and missing
    levels have none.
    """

    @classmethod
    def of(cls, features: Mapping[str, Column], weight: FloatArray, *, standardise: bool = True) -> Encoding:
        """The encoding of rows of which some have a positive weight."""
        numbers = tuple(name for name, column in features.items() if column.role != "category")
        categories = tuple(name for name, column in features.items() if column.role == "category")
        moments = [_moments(features[name].values.astype(np.float64), weight) for name in numbers]
        median, mean, scale = np.array(moments, dtype=np.float64).reshape(-1, 3).T
        if not standardise:
            mean, scale = np.zeros_like(mean), np.ones_like(scale)
        levels = tuple(_common_levels(features[name], weight) for name in categories)
        return cls(numbers, median, mean, scale, categories, levels)

    def coordinates(self, features: Mapping[str, Column]) -> FloatArray:
        """The rows as points, shape (n, d); d may be 0."""
        rows = len(next(iter(features.values())).values)
        columns: list[FloatArray] = []
        for place, name in enumerate(self.numbers):
            scale = float(self.scale[place])
            values = features[name].values.astype(np.float64)
            known = np.where(np.isfinite(values), values, self.median[place])
            columns.append((known - self.mean[place]) / scale if scale > 0 else np.zeros(rows))
        for name, levels in zip(self.categories, self.levels, strict=True):
            codes = features[name].recode(levels, unseen=-1)
            columns += [(codes == code).astype(np.float64) for code in range(len(levels))]
        return np.column_stack(columns) if columns else np.zeros((rows, 0))

    def to_state(self) -> State:
        counts = np.array([len(levels) for levels in self.levels], dtype=np.int64)
        moments = {"median": self.median, "mean": self.mean, "scale": self.scale, "level_counts": counts}
        texts = {**pack_texts(self.numbers, "numbers"), **pack_texts(self.categories, "categories")}
        levels = pack_texts([level for levels in self.levels for level in levels], "levels")
        return State(arrays={**moments, **texts, **levels})

    @classmethod
    def of_state(cls, state: State) -> Encoding:
        numbers, categories, texts = (unpack_texts(state.arrays, name) for name in ("numbers", "categories", "levels"))
        ends = np.cumsum(state.array("level_counts").astype(np.int64))
        levels = tuple(texts[start:end] for start, end in pairwise([0, *ends.tolist()]))
        return cls(numbers, state.array("median"), state.array("mean"), state.array("scale"), categories, levels)


def _moments(values: FloatArray, weight: FloatArray) -> tuple[float, float, float]:
    """Median, mean and standard deviation, with missing values replaced by the median."""
    known = np.isfinite(values)
    total = float(weight.sum())
    if not float(weight[known].sum()) > 0:
        return 0.0, 0.0, 0.0
    median = weighted_median(values[known], weight[known])
    filled = np.where(known, values, median)
    mean = float(weight @ filled) / total
    variance = float(weight @ np.square(filled - mean)) / total
    spread = float(np.sqrt(variance))
    return median, mean, spread if np.isfinite(spread) and spread > 1e-12 * abs(mean) else 0.0


def _common_levels(column: Column, weight: FloatArray) -> tuple[str, ...]:
    """The levels that get a coordinate, in alphabetical order."""
    least = LEAST_SHARE * float(weight.sum())
    return tuple(sorted(heaviest_levels(column, level_weights(column, weight), least=least, most=MOST_LEVELS)))


def merged(
    keys: NDArray[np.uint64], weight: FloatArray, order: NDArray[np.uint64] | None = None
) -> tuple[IntArray, FloatArray]:
    """The first of the rows of each key, in the order of the keys or of other ones, and their weight together."""
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.argsort((keys if order is None else order)[first], kind="stable")
    return first[rank], totals(place, weight)[rank]


def feature_codes(features: Mapping[str, Column]) -> FloatArray:
    """A row of numbers for each row, equal bit for bit where the features are equal."""
    columns = [column.values.astype(np.float64) for column in features.values()]
    return np.column_stack([np.where(np.isnan(values), np.nan, values) for values in columns])


def weighted_median(values: FloatArray, weight: FloatArray) -> float:
    """The least value up to which at least half of the weight lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, below[-1] / 2.0)])


def level_weights(column: Column, weight: FloatArray | None) -> FloatArray:
    """The weight of the missing values of a category, and then of each of its levels."""
    return totals(column.values.astype(np.int32, copy=False) + 1, weight, len(column.levels) + 1)


def heaviest_levels(column: Column, weights: FloatArray, *, least: float, most: int) -> tuple[str, ...]:
    """The levels with at least this weight, up to `most`, the heaviest first; see `level_weights`."""
    frequent = np.flatnonzero(weights[1:] >= least)
    ordered = sorted((-float(weights[1 + place]), column.levels[place]) for place in frequent)
    return tuple(level for _, level in ordered[:most])


Clustering: TypeAlias = Literal["kmeans", "ward"]

_ROWS: Mapping[Clustering, int] = {"kmeans": 100_000, "ward": 8_000}
"""A sample of so many points is clustered if there are more; Ward's method holds the distance of every pair."""

_NUMBERS = 1 << 24
"""How many coordinates are held at most."""


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
    """The `count` nearest centroids; the first of equally near ones."""
    count = min(count, len(centroids))
    place = np.empty((len(points), count), dtype=np.int64)
    distance = np.empty((len(points), count))
    for rows, squared in distances(points, centroids):
        np.add(squared, np.square(points[rows]).sum(axis=1)[:, None], out=squared)
        within = np.arange(len(squared))
        for rank in range(count):  # a few are found sooner than all are sorted
            least = squared.argmin(axis=1)
            place[rows, rank] = least
            distance[rows, rank] = squared[within, least]
            squared[within, least] = np.inf
    return NearestCentroids(place, distance)


def centroids(
    points: FloatArray, weight: FloatArray, counts: Sequence[int], clustering: Clustering, seed: int
) -> dict[int, FloatArray]:
    """For each of the counts the centroids of so many clusters, or of as many as there are distinct points.

    Points are on a grid (see `on_grid`), and so are the centroids. ``kmeans`` is Lloyd's, once, from k-means++;
    ``ward`` is agglomerative, cut at the count (SciPy), and counts each distinct point once.
    """
    points, weight = _distinct(points, weight, _ROWS[clustering], seed)
    if clustering == "ward":
        return _ward(points, weight, counts)
    return {count: _k_means(points, weight, count, seed) for count in counts}


def _distinct(points: FloatArray, weight: FloatArray, most: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """The distinct points with their weights, in an order drawn by chance; only the first of very many."""
    first, total = merged(row_keys(points, seed, "clusters"), weight)
    weighted = np.flatnonzero(total > 0)[: min(most, max(1, _NUMBERS // max(points.shape[1], 1)))]
    return points[first[weighted]], total[weighted]


def _k_means(points: FloatArray, weight: FloatArray, count: int, seed: int) -> FloatArray:
    if len(points) <= count:
        return points
    draw = int(stream(seed, "k-means").integers(2**31))
    return np.rint(k_means(points, weight, count, draw))


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
