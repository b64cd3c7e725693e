"""SHAP values, leaves and importances of a model made of trees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from calcli.batch import Column, FloatArray, IntArray
from calcli.errors import DataError, nearest
from calcli.learners import catboost
from calcli.learners.leaf_shap import LeafShap
from calcli.numeric.threads import threads

if TYPE_CHECKING:
    from catboost import CatBoost, Pool


class TreeModel(Protocol):
    """A model made of trees. It finds the features that it was trained on by their names, and ignores all others."""

    @property
    def names(self) -> tuple[str, ...]:
        """Its features, as it names them."""
        ...

    def shap(self, features: Mapping[str, Column]) -> FloatArray:
        """How much each feature moves the model's raw output, shape (n, features); of several outputs side by side."""
        ...

    def leaves(self, features: Mapping[str, Column]) -> IntArray:
        """The leaf of each tree that each row falls into, shape (n, trees)."""
        ...

    def importances(self) -> FloatArray:
        """How much the model depends on each feature, in the order of the names."""
        ...


@dataclass(frozen=True)
class CatBoostTrees:
    """A model of CatBoost."""

    model: CatBoost

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(map(str, self.model.feature_names_))

    @cached_property
    def _leaf_shap(self) -> LeafShap | None:
        return LeafShap.of(self.model)

    def shap(self, features: Mapping[str, Column]) -> FloatArray:
        if self._leaf_shap is not None:
            return self._leaf_shap.sums(self.leaves(features))
        # In the mode that CatBoost chooses by the number of rows a chunk could round otherwise than the whole.
        with catboost.refusals("explain its predictions"):
            contributions = self.model.get_feature_importance(
                self._pool(features), type="ShapValues", shap_mode="UsePreCalc", thread_count=threads()
            )
        return beside_each_other(np.asarray(contributions, dtype=np.float64)[..., :-1])

    def leaves(self, features: Mapping[str, Column]) -> IntArray:
        with catboost.refusals("find leaves"):
            indices = self.model.calc_leaf_indexes(self._pool(features), thread_count=threads())
        return np.asarray(indices, dtype=np.int64)

    def importances(self) -> FloatArray:
        return np.asarray(self.model.get_feature_importance(), dtype=np.float64)

    def _pool(self, features: Mapping[str, Column]) -> Pool:
        if self.model.get_text_feature_indices() or self.model.get_embedding_feature_indices():
            raise DataError("the model uses texts or embeddings, which calcli does not support")
        categories = set(self.model.get_cat_feature_indices())
        return catboost.pool(
            {
                name: _as_category(column, name) if place in categories else as_number(column, name)
                for place, (name, column) in enumerate(matched(self.names, features).items())
            }
        )


def beside_each_other(contributions: FloatArray) -> FloatArray:
    """Those of several outputs, shape (n, outputs, features), as one row for each row."""
    return np.ascontiguousarray(contributions.reshape(len(contributions), -1))


def matched(names: Sequence[str], features: Mapping[str, Column]) -> dict[str, Column]:
    """The columns that a model means, by its names and in their order.

    A model that was trained on an array knows its features by their places only: they are the table's, if there are as
    many.
    """
    if not any(name in features for name in names) and _places(names) and len(names) == len(features):
        return dict(zip(names, features.values(), strict=True))
    for name in names:
        if name not in features:
            match = nearest(name, features)
            raise DataError(
                f"the model was trained on the feature {name!r}, which is none of the table's features",
                hint=f"did you mean {match!r}?" if match else "name its features with --features",
            )
    return {name: features[name] for name in names}


def _places(names: Sequence[str]) -> bool:
    """Whether these are the names that libraries give to columns without one: 0, f0, Column_0."""
    return any([f"{stem}{place}" for place in range(len(names))] == list(names) for stem in ("", "f", "Column_"))


def as_number(column: Column, name: str) -> Column:
    """The column of a feature that is a number to the model."""
    if column.role == "category":
        raise DataError(f"the feature {name!r} is a number in the model and a category here", hint="cast the column")
    return Column("number", column.values)


def _as_category(column: Column, name: str) -> Column:
    """The column of a feature that is a category to CatBoost, which takes whole numbers for texts too."""
    if column.role == "category":
        return column
    missing = np.isnan(column.values)
    whole = np.where(missing, 0.0, column.values)
    if not np.array_equal(whole, np.rint(whole)):
        raise DataError(f"the feature {name!r} is a category in the model and has fractions here")
    distinct, place = np.unique(whole.astype(np.int64), return_inverse=True)
    codes = np.where(missing, -1, place).astype(np.int32)
    return Column("category", codes, tuple(map(str, distinct.tolist())))
