"""Clusters of rows: the embedding by which they are near each other, the centroids, the shares of each row in clusters.

SHAP values are the contributions of the features to the model's score; leaves are those that a row falls into (He et
al. 2014). Both come from the user's model, or from a surrogate that is trained here. The others use the columns alone.

A row belongs to the clusters of the nearest centroids with shares proportional to exp(-D_c / (2 T s^2)), D_c its
squared distance to centroid c and s^2 the median of the least such distance over the rows of the fit. At temperature
T = 0 it belongs to the nearest alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import numpy as np

from calcli.batch import Batch, Column, FloatArray, Group, IntArray, SideInputs
from calcli.errors import DataError, UsageError
from calcli.learners import catboost, tree_models
from calcli.learners.catboost import surrogate
from calcli.learners.encoding import (
    Clustering,
    Encoding,
    NearestCentroids,
    centroids,
    feature_codes,
    nearest,
    on_grid,
    step_of,
    weighted_median,
)
from calcli.learners.tree_models import CatBoostTrees, TreeModel
from calcli.methods.base import Params, number
from calcli.numeric.bins import totals
from calcli.numeric.seeded import row_keys
from calcli.numeric.side_by_side import on_threads
from calcli.state import State, nest, unnest

Kind: TypeAlias = Literal["shap", "leaves", "columns", "features", "top"]

TREES = 16
"""How many trees the embedding ``leaves`` uses at most, evenly spaced."""

TOP = 0.15
"""The share of the features that the embedding ``top`` keeps, as the paper's comparison does."""

_SURROGATE = "surrogate.cbm"


Embedding: TypeAlias = "Nothing | Plain | Shap | Leaves"
"""A map from features to points, shape (n, d). Its state lacks only a user's model, which the artifact keeps as a side
input.
"""


def pieces(features: Mapping[str, Column], rows: int = 8192) -> Iterator[dict[str, Column]]:
    """The features, some rows at a time: embedding takes far more memory than its result."""
    for start in range(0, len(next(iter(features.values())).values), rows):
        yield {name: column.take(slice(start, start + rows)) for name, column in features.items()}


def fit_embedding(batch: Batch, sides: SideInputs, params: Params, seed: int) -> Embedding:
    """The embedding that the parameters ask for, from rows of positive weight."""
    kind = cast(Kind, params["embedding"])
    features, weight = batch.features, batch.weights
    if kind == "features":
        return _plain(Encoding.of(features, weight))
    if kind == "columns":
        return Plain(Encoding.of(_named(features, str(params["columns"])), weight, standardise=False))
    own: CatBoostTrees | None = None
    if "model" in sides.blobs:
        model = tree_models.read_model(sides.blobs["model"])
    elif (stand_in := surrogate(batch, seed)) is None:
        return Nothing()
    else:
        model = own = CatBoostTrees(stand_in)
    if kind == "top":
        return _plain(Encoding.of(_most_important(model, features), weight))
    return Shap(model, own) if kind == "shap" else Leaves.of(model, own, features)


def _plain(encoding: Encoding) -> Embedding:
    """The embedding by an encoding; of words that seldom repeat there are no coordinates."""
    return Plain(encoding) if encoding.numbers or any(encoding.levels) else Nothing()


def of_state(state: State, sides: SideInputs) -> Embedding:
    """The embedding that `to_state` kept; `sides` hold the user's model, if it uses one."""
    kind = state.params["kind"]
    if kind == "plain":
        return Plain(Encoding.of_state(unnest(state, ["encoding"])["encoding"]))
    if kind == "nothing":
        return Nothing()
    content = state.blobs.get(_SURROGATE)
    own = None if content is None else _surrogate(content)
    model = own or tree_models.read_model(sides.blobs["model"])
    if kind == "shap":
        return Shap(model, own)
    return Leaves(model, own, *(state.array(name).astype(np.int64) for name in ("tree", "leaf")))


@lru_cache(maxsize=4)
def _surrogate(content: bytes) -> CatBoostTrees:
    """The surrogate in a file, which the states of all splits share, with the tables of its SHAP values."""
    return CatBoostTrees(catboost.read(content))


def _blobs(own: CatBoostTrees | None) -> dict[str, bytes]:
    return {} if own is None else {_SURROGATE: catboost.to_bytes(own.model)}


def _named(features: Mapping[str, Column], start: str) -> dict[str, Column]:
    """The numeric features whose names begin with `start`."""
    numbers = {
        name: column for name, column in features.items() if name.startswith(start) and column.role != "category"
    }
    if not numbers:
        raise DataError(
            f"no numeric feature has a name that starts with {start!r}", hint="name the prefix: --set columns=PREFIX"
        )
    return numbers


def _most_important(model: TreeModel, features: Mapping[str, Column]) -> dict[str, Column]:
    """The top 15 % of the model's features, at least one."""
    names = [name for name in model.names if name in features]
    if len(names) < len(model.names):
        raise UsageError(
            "embedding=top needs a model whose features have the table's names",
            hint="leave out --model, or: --set embedding=shap",
        )
    count = max(1, round(TOP * len(names)))
    order = np.argsort(-model.importances(), kind="stable")[:count]
    return {names[place]: features[names[place]] for place in sorted(order)}


@dataclass(frozen=True)
class Nothing:
    """One point for all rows, where no two differ in what says how alike they are."""

    def points(self, features: Mapping[str, Column]) -> FloatArray:
        return np.zeros((len(next(iter(features.values())).values), 1))

    def to_state(self) -> State:
        return State({"kind": "nothing"})


@dataclass(frozen=True)
class Plain:
    """Columns as they are encoded."""

    encoding: Encoding

    def points(self, features: Mapping[str, Column]) -> FloatArray:
        return self.encoding.coordinates(features)

    def to_state(self) -> State:
        whole = nest({"encoding": self.encoding.to_state()})
        return State({**whole.params, "kind": "plain"}, whole.arrays)


@dataclass(frozen=True)
class Shap:
    """A model's SHAP values; `own` is the same model if it is our surrogate, which the state keeps."""

    model: TreeModel
    own: CatBoostTrees | None

    def points(self, features: Mapping[str, Column]) -> FloatArray:
        return self.model.shap(features)

    def to_state(self) -> State:
        return State({"kind": "shap"}, blobs=_blobs(self.own))


@dataclass(frozen=True)
class Leaves:
    """One-hot codes of the leaves that rows of the fit fell into."""

    model: TreeModel
    own: CatBoostTrees | None
    tree: IntArray
    leaf: IntArray

    @classmethod
    def of(cls, model: TreeModel, own: CatBoostTrees | None, features: Mapping[str, Column]) -> Leaves:
        count = model.leaves(next(pieces(features, 1))).shape[1]
        trees = np.unique(np.linspace(0, count - 1, min(count, TREES)).astype(np.int64))
        of_rows = np.concatenate([model.leaves(piece)[:, trees] for piece in pieces(features)])
        leaves = [np.unique(column) for column in of_rows.T]
        return cls(model, own, np.repeat(trees, [len(of_tree) for of_tree in leaves]), np.concatenate(leaves))

    def points(self, features: Mapping[str, Column]) -> FloatArray:
        return np.asarray(self.model.leaves(features)[:, self.tree] == self.leaf, dtype=np.float64)

    def to_state(self) -> State:
        return State({"kind": "leaves"}, {"tree": self.tree, "leaf": self.leaf}, _blobs(self.own))


COUNTS = tuple(range(5, 101, 5))

ROWS_EACH = 200
"""``clusters=auto`` tries those of `COUNTS` that leave at least `ROWS_EACH` rows for each cluster."""

NEAREST = 5
"""A row belongs to at most so many clusters."""

NEGLIGIBLE = 1e-6
"""Shares smaller than this times that of the nearest cluster are 0: they would only cost time."""

SAMPLE = 20_000
"""If there are more rows than this, a sample of them is clustered."""


@dataclass(frozen=True)
class Shares:
    """The clusters of each row, shape (n, m), the nearest first, and its shares in them, which add up to 1."""

    cluster: IntArray
    share: FloatArray

    def __getitem__(self, rows: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Shares:
        return Shares(self.cluster[rows], self.share[rows])

    def of_each(self, clusters: int) -> Iterator[Group]:
        """The rows that belong to each cluster, in their order, weighted by their shares."""
        flat, share = self.cluster.ravel(), self.share.ravel()
        order = np.argsort(flat.astype(np.int16), kind="stable")  # so short, numpy sorts them in linear time
        ends = np.searchsorted(flat[order], np.arange(clusters + 1))
        for start, end in pairwise(ends):
            members = order[start:end]
            members = members[share[members] > 0.0]
            yield Group(members // self.cluster.shape[1], share[members])


def shares(near: NearestCentroids, temperature: float, spread: float) -> Shares:
    """The shares of rows in the clusters near them; `spread` is s^2."""
    if temperature == 0.0 or spread == 0.0:
        return Shares(near.place[:, :1], np.ones((len(near.place), 1)))
    further = near.distance - near.distance[:, :1]
    share: FloatArray = np.exp(-further / (2.0 * temperature * spread))
    share[share < NEGLIGIBLE] = 0.0
    return Shares(near.place, share / share.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class Partition:
    """Clusters, the heaviest first.

    Points and centroids, shape (k, d), are in units of `step`, the spacing of the grid that they lie on; `spread` is
    s^2 in squared steps.
    """

    embedding: Embedding
    step: float
    centroids: FloatArray
    spread: float = 0.0

    def __len__(self) -> int:
        return len(self.centroids)

    def near(self, batch: Batch, count: int = NEAREST) -> NearestCentroids:
        """The nearest clusters of each row."""

        def near_of(piece: Mapping[str, Column]) -> NearestCentroids:
            return nearest(on_grid(self.embedding.points(piece), self.step), self.centroids, count)

        near = on_threads(near_of, pieces(batch.features))
        if not near:
            return NearestCentroids(np.zeros((0, 1), dtype=np.int64), np.zeros((0, 1)))
        return NearestCentroids(
            np.concatenate([piece.place for piece in near]), np.concatenate([piece.distance for piece in near])
        )

    def to_state(self) -> State:
        whole = nest({"embedding": self.embedding.to_state()})
        params = {**whole.params, "step": self.step, "spread": self.spread}
        return State(params, {**whole.arrays, "centroids": self.centroids}, whole.blobs)

    @classmethod
    def of_state(cls, state: State, sides: SideInputs) -> Partition:
        embedding = of_state(unnest(state, ["embedding"])["embedding"], sides)
        return cls(embedding, state.number("step"), state.array("centroids"), state.number("spread"))


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> tuple[Partition, NearestCentroids]:
    """The clusters of these rows, and the nearest ones of each row.

    Rows of ``--embedding-data`` are clustered with them. Labels matter only for the choice of the number of clusters.
    """
    if "model" not in sides.blobs:  # a user's model may know its features by their places
        batch = batch.by_name
    # Cluster a sample, with the number of clusters at the elbow of the homogeneity of labels.
    embedding = fit_embedding(batch, sides, params, seed)
    sample = _Sample.of(batch, sides.batches.get("embedding-data"), embedding, seed)
    clustering = cast(Clustering, params["clustering"])
    counts = tried(len(batch)) if params["clusters"] == "auto" else (int(number(params, "clusters")),)
    by_count = centroids(sample.points, sample.weight, counts, clustering, seed)
    chosen = by_count[elbow([sample.homogeneity(by_count[count]) for count in counts], counts)]
    # Find the nearest clusters of all rows.
    first = Partition(embedding, sample.step, chosen)
    whole = len(sample.label) == len(batch)  # then all rows have been embedded already
    near = nearest(sample.points[: len(batch)], chosen, NEAREST) if whole else first.near(batch)
    # Number the clusters by weight.
    order = np.argsort(-totals(near.place[:, 0], batch.weights, len(first)), kind="stable")
    near = NearestCentroids(np.argsort(order)[near.place], near.distance)
    return replace(first, centroids=chosen[order], spread=weighted_median(near.distance[:, 0], batch.weights)), near


@dataclass(frozen=True)
class _Sample:
    """The rows that are clustered, all or a sample, calibration rows first; only those have a `label`."""

    points: FloatArray
    step: float
    weight: FloatArray
    label: IntArray

    @classmethod
    def of(cls, batch: Batch, others: Batch | None, embedding: Embedding, seed: int) -> _Sample:
        share = SAMPLE / (len(batch) + (0 if others is None else len(others)))
        rows = _some(batch, share, seed)
        parts, weights = [rows.features], [rows.weights]
        if others is not None:
            more = _some(others, share, seed)
            parts.append(more.features)
            weights.append(np.full(len(more), float(batch.weights.mean())))
        points = np.concatenate(on_threads(embedding.points, [piece for part in parts for piece in pieces(part)]))
        step = step_of(points)
        return cls(on_grid(points, step), step, np.concatenate(weights), rows.labels)

    def homogeneity(self, centres: FloatArray) -> float:
        """The homogeneity of the labels in clusters with these centroids."""
        rows = slice(len(self.label))
        place = nearest(self.points[rows], centres, 1).place[:, 0]
        return homogeneity(self.label, place, self.weight[rows])


def _some(batch: Batch, share: float, seed: int) -> Batch:
    """A share of the distinct rows, drawn by a hash of their features; equal rows are in the sample together."""
    if share >= 1.0:
        return batch
    keys = row_keys(feature_codes(batch.features), seed, "clusters")
    distinct = np.unique(keys)
    return batch.take(keys <= distinct[max(1, int(share * len(distinct))) - 1])


def tried(rows: int) -> tuple[int, ...]:
    """The numbers of clusters to try for so many rows."""
    return tuple(count for count in COUNTS if count * ROWS_EACH <= rows) or (max(1, rows // ROWS_EACH),)


def elbow(homogeneity: Sequence[float], counts: Sequence[int]) -> int:
    """The number of clusters at which homogeneity is furthest above the straight line from the first to the last.

    Both axes are scaled to [0, 1]; homogeneity is replaced by its running maximum. The smaller number wins ties.
    """
    above = _scaled(np.maximum.accumulate(np.array(homogeneity))) - _scaled(np.array(counts, dtype=np.float64))
    return counts[int(np.argmax(np.round(above, 12)))]


def _scaled(rising: FloatArray) -> FloatArray:
    height = rising[-1] - rising[0]
    return np.asarray((rising - rising[0]) / (height if height > 0 else 1.0), dtype=np.float64)


def homogeneity(label: IntArray, cluster: IntArray, weight: FloatArray) -> float:
    """1 - H(label | cluster) / H(label) (Rosenberg & Hirschberg 2007); 1 where all labels agree."""
    classes, count = int(label.max()) + 1, int(cluster.max()) + 1
    table = totals(cluster * classes + label, weight / weight.sum(), count * classes).reshape(count, classes)
    entropy = _entropy(table.sum(axis=0))
    return 1.0 if entropy <= 0 else 1.0 - (_entropy(table.ravel()) - _entropy(table.sum(axis=1))) / entropy


def _entropy(share: FloatArray) -> float:
    positive = share[share > 0]
    return -float((positive * np.log(positive)).sum())
