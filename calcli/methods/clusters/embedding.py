"""Embeddings of rows, by which they are clustered.

SHAP values are the contributions of the features to the model's score; leaves are those that a row falls into (He et
al. 2014). Both come from the user's model, or from a surrogate that is trained here. The others use the columns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

import numpy as np

from calcli.batch import Batch, Column, FloatArray, IntArray, SideInputs
from calcli.errors import DataError, UsageError
from calcli.learners import catboost, tree_models
from calcli.learners.catboost import surrogate
from calcli.learners.encoding import Encoding
from calcli.learners.tree_models import CatBoostTrees, TreeModel
from calcli.methods.base import Params
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


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> Embedding:
    """The embedding that the parameters ask for, from rows of positive weight."""
    kind = cast(Kind, params["embedding"])
    features, weight = batch.features, batch.weights
    if kind == "features":
        return Plain(Encoding.of(features, weight))
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
        return Plain(Encoding.of(_most_important(model, features), weight))
    return Shap(model, own) if kind == "shap" else Leaves.of(model, own, features)


def of_state(state: State, sides: SideInputs) -> Embedding:
    """The embedding that `to_state` kept; `sides` hold the user's model, if it uses one."""
    kind = state.params["kind"]
    if kind == "plain":
        return Plain(Encoding.of_state(unnest(state, ["encoding"])["encoding"]))
    if kind == "nothing":
        return Nothing()
    content = state.blobs.get(_SURROGATE)
    own = None if content is None else CatBoostTrees(catboost.read(content))
    model = own or tree_models.read_model(sides.blobs["model"])
    if kind == "shap":
        return Shap(model, own)
    return Leaves(model, own, *(state.array(name).astype(np.int64) for name in ("tree", "leaf")))


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
    """One point for all rows, where no two differ."""

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
