"""Trees that correct a scaled score: their state, and the probabilities, formulas and contributions that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.expressions import Inputs, Terms, total
from calcli.learners import catboost
from calcli.learners.oblivious import trees
from calcli.learners.tree_models import Contributions, of_trees
from calcli.methods.calibrator import FittedMethod, formula_of
from calcli.methods.trees.coding import sums
from calcli.numeric.links import probabilities, scores
from calcli.numeric.seeded import ordered
from calcli.state import Json, State, nest, pack_texts, unnest, unpack_texts

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

SCORE = "calibrated score"
"""The name of the score among the features, followed by the index of the class if there are several."""

_BLOB = "model.cbm"
_LEVELS = "levels"


@dataclass(frozen=True, slots=True)
class Correction:
    """The calibrator `start` of the score, and the trees that add to its log-odds or log-probabilities.

    `model` is None where there is nothing to correct. `order` has the classes as the trees see them, and `arrays` the
    importances of the features and the levels of categories.
    """

    start: FittedMethod
    model: CatBoost | None
    order: IntArray
    arrays: Mapping[str, NDArray[np.generic]]

    @classmethod
    def grown(cls, start: FittedMethod, model: CatBoost | None, order: IntArray, rows: Batch) -> Correction:
        """The correction by a model that was trained on these rows."""
        if model is None:
            return cls(start, None, order, {})
        importances = catboost.importances(model, pool(rows, start, order))
        return cls(start, model, order, {"importances": importances, "order": order, **_levels_of(rows)})

    @classmethod
    def of_state(cls, state: State) -> Correction:
        start = FittedMethod.from_state(str(state.params["method"]), unnest(state, ["start"])["start"])
        if not state.blobs:
            return cls(start, None, np.empty(0, dtype=np.int64), {})
        return cls(start, _read(state.blobs[_BLOB]), state.array("order").astype(np.int64), state.arrays)

    def to_state(self, params: Mapping[str, Json]) -> State:
        whole = nest({"start": self.start.to_state()})
        own = {**whole.params, **params, "method": self.start.spec.name, "rounds": self.rounds}
        blobs = {} if self.model is None else {_BLOB: catboost.to_bytes(self.model)}
        return State(own, {**whole.arrays, **self.arrays}, blobs)

    @property
    def rounds(self) -> int:
        return 0 if self.model is None else int(self.model.tree_count_)

    @property
    def importances(self) -> dict[str, float]:
        """The importance of each feature, in percent."""
        if self.model is None:
            raise ValueError("it holds no model")
        values = np.asarray(self.arrays["importances"], dtype=np.float64).tolist()
        return dict(zip(self.model.feature_names_, values, strict=True))

    def predict(self, batch: Batch) -> FloatArray:
        prob = self.start.predict(Batch(batch.score))
        if self.model is None:
            return prob
        features = features_of(batch, scores(prob), self.order)
        with catboost.refusals("predict"):
            data = catboost.pool({name: features[name] for name in self.model.feature_names_})
            added = np.asarray(self.model.predict(data, prediction_type="RawFormulaVal"), dtype=np.float64)
        return moved(prob, added, self.order)

    def formula(self, score: Terms, features: Inputs) -> Terms:
        prob = formula_of(self.start, score, {})
        if self.model is None:
            return prob
        order, before = self.order, terms.scores(prob)
        signed = [before[0] if order[0] == 0 else -1.0 * before[0]] if len(prob) == 1 else [before[at] for at in order]
        names = [name for name in self.model.feature_names_ if name not in features]
        columns = {**features, **dict(zip(names, signed, strict=True))}
        added = sums(trees(self.model, self._levels(features)), columns)
        if len(prob) == 1:
            return terms.probabilities((before[0] + (added[0] if order[0] == 0 else -1.0 * added[0]),))
        after = terms.probabilities(tuple(before[at] + more for at, more in zip(order, added, strict=True)))
        whole = total([prob[at] for at in order])
        by_class = dict(zip(order.tolist(), (whole * one for one in after), strict=True))
        return tuple(by_class.get(at, one) for at, one in enumerate(prob))

    def _levels(self, features: Inputs) -> dict[str, tuple[str, ...]]:
        """The levels of each category in the fit."""
        names = [name for name, column in features.items() if column.role == "category"]
        return {name: unpack_texts(self.arrays, f"{_LEVELS}/{name}") for name in names}

    def contributions(self, batch: Batch, rows: IntArray, background: IntArray) -> Contributions | None:
        """The contributions of the trees, with the move of the score by scaling; None without trees."""
        if self.model is None:
            return None
        scaled = scores(self.start.predict(Batch(batch.score)))
        features = features_of(batch, scaled, self.order)
        data = {name: features[name].take(rows) for name in self.model.feature_names_}
        found = of_trees(self.model, catboost.pool(data))
        sign = float(ordered(np.ones(1), self.order)[0])
        score = next(place for place, name in enumerate(found.names) if name not in batch.features)
        move = scaled - batch.score
        mean = float(move[background].mean())
        values = sign * found.values
        values[:, score] += move[rows] - mean
        places = [score, *(place for place in range(len(found.names)) if place != score)]
        return Contributions(tuple(found.names[place] for place in places), sign * found.base + mean, values[:, places])


def pool(rows: Batch, start: FittedMethod, order: IntArray) -> Pool:
    """Training rows for CatBoost, with classes in this order and their scaled scores as baseline."""
    score = scores(start.predict(Batch(rows.score)))
    rank = np.empty(rows.classes, dtype=np.int64)
    rank[order] = np.arange(len(order))
    features = features_of(rows, score, order)
    return catboost.pool(features, rank[rows.labels], rows.weight, baseline=ordered(score, order))


def features_of(rows: Batch, score: FloatArray, order: IntArray) -> dict[str, Column]:
    """The features by name, and the score among them, with the classes in this order."""
    features = dict(rows.by_name.features)
    name = SCORE
    while any(other.startswith(name) for other in features):
        name = f"{name}_"
    if score.ndim == 1:
        return features | {name: Column("number", ordered(score, order))}
    return features | {f"{name} {index}": Column("number", score[:, index]) for index in order}


def moved(prob: FloatArray, added: FloatArray, order: IntArray) -> FloatArray:
    """Probabilities after the trees have added to the scores of these classes, which keep their total."""
    if prob.ndim == 1:
        return probabilities(scores(prob) + ordered(added, order))
    after = prob.copy()
    total = 1.0 if len(order) == prob.shape[1] else prob[:, order].sum(axis=1, keepdims=True)
    after[:, order] = total * probabilities(scores(prob)[:, order] + added)
    return after


def _levels_of(rows: Batch) -> dict[str, NDArray[np.generic]]:
    """The levels of categories, as arrays of a state: CatBoost keeps a hash of each only."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name, column in rows.features.items():
        if column.role == "category":
            codes = [int(code) for code in np.unique(column.values)]
            arrays |= pack_texts([column.levels[code] for code in codes if code >= 0], f"{_LEVELS}/{name}")
    return arrays


@lru_cache(maxsize=4)
def _read(content: bytes) -> CatBoost:
    """The model; it is read once for all chunks of rows."""
    return catboost.read(content)
