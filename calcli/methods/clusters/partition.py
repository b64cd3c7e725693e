"""Clusters of rows: where their centroids are, and how much each row belongs to them.

A row belongs to the clusters of the nearest centroids with shares proportional to exp(-D_c / (2 T s^2)), D_c its
squared distance to centroid c and s^2 the median of the least such distance over the rows of the fit. At temperature
T = 0 it belongs to the nearest alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import cast

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray, SideInputs
from calcli.learners.clustering import Clustering, centroids
from calcli.learners.encoding import feature_codes, weighted_median
from calcli.learners.points import NearestCentroids, nearest, on_grid, step_of
from calcli.methods.base import Params, number
from calcli.methods.clusters import embedding as embeddings
from calcli.methods.clusters.elbow import elbow, homogeneity, tried
from calcli.methods.clusters.embedding import Embedding, pieces
from calcli.numeric.score_folds import row_keys
from calcli.numeric.sums import totals
from calcli.state import State, nest, unnest

NEAREST = 5
"""A row belongs to so many clusters at most."""

NEGLIGIBLE = 1e-6
"""Beside the share of the nearest, so small a one is none: a fit has nothing from it but rows."""

SAMPLE = 20_000
"""Of more rows than this a sample is clustered."""


@dataclass(frozen=True)
class Shares:
    """How much each row belongs to which clusters.

    Attributes
    ----------
    cluster
        Shape (n, m), the nearest first.
    share
        The same shape; a row's add up to 1.
    """

    cluster: IntArray
    share: FloatArray

    def __getitem__(self, rows: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Shares:
        return Shares(self.cluster[rows], self.share[rows])

    def of_each(self, clusters: int) -> Iterator[tuple[IntArray, FloatArray]]:
        """The rows that belong to each cluster, in their order, and how much."""
        flat, share = self.cluster.ravel(), self.share.ravel()
        order = np.argsort(flat.astype(np.int16), kind="stable")  # so short, numpy sorts them in linear time
        ends = np.searchsorted(flat[order], np.arange(clusters + 1))
        for start, end in pairwise(ends):
            held = order[start:end]
            held = held[share[held] > 0.0]
            yield held // self.cluster.shape[1], share[held]


def shares(near: NearestCentroids, temperature: float, spread: float) -> Shares:
    """How much rows belong to the clusters near them; `spread` is s^2."""
    if temperature == 0.0 or spread == 0.0:
        return Shares(near.place[:, :1], np.ones((len(near.place), 1)))
    further = near.distance - near.distance[:, :1]
    share: FloatArray = np.exp(-further / (2.0 * temperature * spread))
    share[share < NEGLIGIBLE] = 0.0
    return Shares(near.place, share / share.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Partition:
    """Clusters, the one with most rows first.

    Attributes
    ----------
    embedding
        From features to points.
    step
        Of the grid that points and centroids lie on.
    centroids
        Shape (k, d), in steps.
    spread
        s^2, in steps squared.
    """

    embedding: Embedding
    step: float
    centroids: FloatArray
    spread: float = 0.0

    def __len__(self) -> int:
        return len(self.centroids)

    def near(self, batch: Batch, count: int = NEAREST) -> NearestCentroids:
        """The nearest clusters of each row."""
        found = [
            nearest(on_grid(self.embedding.points(piece), self.step), self.centroids, count)
            for piece in pieces(batch.features)
        ]
        if not found:
            return NearestCentroids(np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1)))
        return NearestCentroids(
            np.concatenate([one.place for one in found]), np.concatenate([one.distance for one in found])
        )

    def to_state(self) -> State:
        whole = nest({"embedding": self.embedding.to_state()})
        params = {**whole.params, "step": self.step, "spread": self.spread}
        return State(params, {**whole.arrays, "centroids": self.centroids}, whole.blobs)

    @classmethod
    def of_state(cls, state: State, sides: SideInputs) -> Partition:
        embedding = embeddings.of_state(unnest(state, ["embedding"])["embedding"], sides)
        return cls(embedding, state.number("step"), state.array("centroids"), state.number("spread"))


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> tuple[Partition, NearestCentroids]:
    """The clusters of these rows, and the nearest ones of each row.

    Rows of ``--embedding-data`` are clustered with them. Labels are looked at only to choose the number of clusters.
    """
    embedding = embeddings.fit(batch, sides, params, seed)
    sample = _Sample.of(batch, sides.batches.get("embedding-data"), embedding, seed)
    clustering = cast(Clustering, params["clustering"])
    counts = tried(len(batch)) if params["clusters"] == "auto" else (int(number(params, "clusters")),)
    found = centroids(sample.points, sample.weight, counts, clustering, seed)
    chosen = found[elbow([sample.homogeneity(found[count]) for count in counts], counts)]
    first = Partition(embedding, sample.step, chosen)
    whole = len(sample.label) == len(batch)  # what has been embedded need not be again
    near = nearest(sample.points[: len(batch)], chosen, NEAREST) if whole else first.near(batch)
    order = np.argsort(-totals(near.place[:, 0], batch.weights, len(first)), kind="stable")
    near = NearestCentroids(np.argsort(order)[near.place], near.distance)
    return replace(first, centroids=chosen[order], spread=weighted_median(near.distance[:, 0], batch.weights)), near


@dataclass(frozen=True)
class _Sample:
    """The rows that are clustered, of very many some; those of the calibration rows with their labels.

    Attributes
    ----------
    points, step, weight
        Of all of them, the calibration rows first.
    label
        Of the calibration rows among them.
    """

    points: FloatArray
    step: float
    weight: FloatArray
    label: IntArray

    @classmethod
    def of(cls, batch: Batch, beside: Batch | None, embedding: Embedding, seed: int) -> _Sample:
        share = SAMPLE / (len(batch) + (0 if beside is None else len(beside)))
        rows = _some(batch, share, seed)
        parts, weights = [rows.features], [rows.weights]
        if beside is not None:
            more = _some(beside, share, seed)
            parts.append(more.features)
            weights.append(np.full(len(more), float(batch.weights.mean())))
        points = np.concatenate([embedding.points(piece) for part in parts for piece in pieces(part)])
        step = step_of(points)
        return cls(on_grid(points, step), step, np.concatenate(weights), rows.labels)

    def homogeneity(self, found: FloatArray) -> float:
        """Of the labels in clusters with these centroids."""
        rows = slice(len(self.label))
        place = nearest(self.points[rows], found, 1).place[:, 0]
        return homogeneity(self.label, place, self.weight[rows])


def _some(batch: Batch, share: float, seed: int) -> Batch:
    """A share of the distinct rows, drawn by what they hold; where a row stands twice, it does so in the sample too."""
    if share >= 1.0:
        return batch
    keys = row_keys(feature_codes(batch.features), seed, "clusters")
    distinct = np.unique(keys)
    return batch.take(keys <= distinct[max(1, int(share * len(distinct))) - 1])
