"""Models made of trees: their SHAP values, leaves and importances.

Users hand in models of CatBoost, XGBoost and LightGBM, as these libraries write them. The library that wrote a file
reads it: CatBoost comes with calcli, the others must be installed. No pickle is ever loaded. Shapley values of any
function of columns come from orders in which a row learns them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, IntArray
from calcli.errors import DataError, MissingExtraError, nearest
from calcli.learners import catboost, cbm
from calcli.learners.oblivious import LeafShap
from calcli.numeric.seeded import stream
from calcli.numeric.threads import threads

if TYPE_CHECKING:
    import lightgbm
    import xgboost
    from catboost import CatBoost, Pool

_PICKLES = (b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"(dp", b"ccopy_reg")
"""The first bytes of pickles, joblib's and zipped ones."""


class TreeModel(Protocol):
    """A model made of trees. It finds the features that it was trained on by their names, and ignores all others."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its features, as it writes them."""
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
        return beside_each_other(_shap_values(self.model, self._pool(features))[..., :-1])

    def leaves(self, features: Mapping[str, Column]) -> IntArray:
        with catboost.refusals("find leaves"):
            indices = self.model.calc_leaf_indexes(self._pool(features), thread_count=1)
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


def _shap_values(model: CatBoost, data: Pool) -> FloatArray:
    """CatBoost's SHAP values of a model, and after those of the features the value that they are added to."""
    # In the mode that CatBoost chooses by the number of rows a chunk could round otherwise than the whole.
    with catboost.refusals("explain its predictions"):
        values = model.get_feature_importance(data, type="ShapValues", shap_mode="UsePreCalc", thread_count=threads())
    return np.asarray(values, dtype=np.float64)


def beside_each_other(contributions: FloatArray) -> FloatArray:
    """The contributions to several outputs, shape (n, outputs, features), as one row for each row."""
    return np.ascontiguousarray(contributions.reshape(len(contributions), -1))


def matched(names: Sequence[str], features: Mapping[str, Column]) -> dict[str, Column]:
    """The columns of a model's features, in its order.

    A model that was trained on an array knows its features by their places only: they are the table's features if there
    are as many of them.
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


def read_model(content: bytes) -> TreeModel:
    """The model in a file, whoever wrote it."""
    if content.startswith(cbm.START):
        try:
            return CatBoostTrees(catboost.read(content))
        except ValueError as error:
            raise DataError(str(error)) from None
    head = content[:4096].lstrip()
    if head.startswith(b"tree") and b"feature_names=" in content[:1_000_000]:
        return _lightgbm(content)
    if head.startswith(b"{") and b"learner" in content[:4096]:
        return _xgboost(content)
    if content.startswith(_PICKLES):
        raise DataError(
            "the model is a pickle, which could run any code and is never loaded",
            hint="save it with the library's own save_model: CatBoost .cbm, XGBoost .json or .ubj, LightGBM .txt",
        )
    raise DataError(
        "the model is not one that CatBoost (.cbm), XGBoost (.json, .ubj) or LightGBM (.txt) wrote",
        hint="save it with the library's own save_model",
    )


def _lightgbm(content: bytes) -> TreeModel:
    try:
        import lightgbm
    except ImportError:
        raise _missing("LightGBM", "lightgbm") from None
    try:
        return LightGBMTrees(lightgbm.Booster(model_str=content.decode()))
    except (lightgbm.basic.LightGBMError, ValueError) as error:
        raise DataError(f"LightGBM cannot read the model: {_first_line(error)}") from None


def _xgboost(content: bytes) -> TreeModel:
    try:
        import xgboost
    except ImportError:
        raise _missing("XGBoost", "xgboost") from None
    booster = xgboost.Booster()
    try:
        booster.load_model(bytearray(content))
    except (xgboost.core.XGBoostError, ValueError) as error:
        raise DataError(f"XGBoost cannot read the model: {_first_line(error)}") from None
    if "c" in (booster.feature_types or ()):
        raise DataError(
            "the XGBoost model has categories, but its file does not contain their codes",
            hint="leave out --model to use a surrogate model",
        )
    return XGBoostTrees(booster)


def _missing(library: str, package: str) -> MissingExtraError:
    return MissingExtraError(
        f"reading a {library} model needs the package {package!r}, which is not installed",
        hint=f"try: pip install {package}",
    )


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0].strip() if lines else type(error).__name__


@dataclass(frozen=True)
class LightGBMTrees:
    """A model of LightGBM. Its categories must have been texts, which its file keeps."""

    booster: lightgbm.Booster

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.booster.feature_name())

    def shap(self, features: Mapping[str, Column]) -> FloatArray:
        contributions = np.asarray(self.booster.predict(self._frame(features), pred_contrib=True), dtype=np.float64)
        outputs = self.booster.num_model_per_iteration()
        return beside_each_other(contributions.reshape(len(contributions), outputs, -1)[..., :-1])

    def leaves(self, features: Mapping[str, Column]) -> IntArray:
        indices = self.booster.predict(self._frame(features), pred_leaf=True)
        return np.asarray(indices, dtype=np.int64).reshape(len(indices), -1)

    def importances(self) -> FloatArray:
        return np.asarray(self.booster.feature_importance("gain"), dtype=np.float64)

    def _frame(self, features: Mapping[str, Column]) -> Any:
        """The columns as pandas keeps them, from which LightGBM knows its categories."""
        import pandas as pd

        known = {name.replace(" ", "_"): column for name, column in features.items()}  # as LightGBM writes names
        columns = matched(self.names, known)
        categories = [name for name, column in columns.items() if column.role == "category"]
        kept = self.booster.pandas_categorical or []
        if len(categories) != len(kept):
            raise DataError(
                f"the LightGBM model was trained on {len(kept)} categories, and {len(categories)} of its features are "
                "categories here",
                hint="cast the columns as they were",
            )
        return pd.DataFrame({name: _pandas(column) for name, column in columns.items()})


def _pandas(column: Column) -> Any:
    import pandas as pd

    if column.role != "category":
        return column.values
    return pd.Categorical.from_codes(column.values.astype(np.int32), list(column.levels))


@dataclass(frozen=True)
class XGBoostTrees:
    """A model of XGBoost, of numbers alone."""

    booster: xgboost.Booster

    @property
    def names(self) -> tuple[str, ...]:
        given = self.booster.feature_names
        return tuple(given) if given else tuple(f"f{place}" for place in range(self.booster.num_features()))

    def shap(self, features: Mapping[str, Column]) -> FloatArray:
        contributions = self.booster.predict(self._matrix(features), pred_contribs=True)
        return beside_each_other(np.asarray(contributions, dtype=np.float64)[..., :-1])

    def leaves(self, features: Mapping[str, Column]) -> IntArray:
        indices = self.booster.predict(self._matrix(features), pred_leaf=True)
        return np.asarray(indices, dtype=np.int64).reshape(len(indices), -1)

    def importances(self) -> FloatArray:
        gains: dict[str, Any] = self.booster.get_score(importance_type="total_gain")
        return np.array([float(gains.get(name, 0.0)) for name in self.names])

    def _matrix(self, features: Mapping[str, Column]) -> Any:
        import xgboost

        values = [as_number(column, name).values for name, column in matched(self.names, features).items()]
        return xgboost.DMatrix(np.column_stack(values), feature_names=self.booster.feature_names)


Function = Callable[[Mapping[str, Column]], FloatArray]
"""A function of columns that gives a number for each row."""

PERMUTATIONS = 10
"""How many orders of the columns, and their reverses, are tried for each row."""


@dataclass(frozen=True, slots=True)
class Contributions:
    """The parts of each column in a number: `base` and the `values` of a row, shape (n, columns), add up to it."""

    names: tuple[str, ...]
    base: float
    values: FloatArray


def of_function(
    function: Function, columns: Mapping[str, Column], rows: IntArray, background: IntArray, seed: int
) -> Contributions:
    """Contributions to the function of some rows. A column not known yet takes the values of the background rows.

    Each row learns its columns in orders by chance, and in their reverses: a column adds the mean of the steps that it
    makes. `base` is the mean over the background, and the sums are exact; so are the values, where no more than two
    columns interact.
    """
    rng, each_row = stream(seed, "permutations"), np.arange(len(rows))
    values = np.zeros((len(rows), len(columns)))

    def expected(known: NDArray[np.bool_]) -> FloatArray:
        """The mean of the function over the background, of each row with its known columns."""
        mixed = {}
        for place, (name, one) in enumerate(columns.items()):
            taken = np.where(known[:, place, None], one.values[rows, None], one.values[background])
            mixed[name] = Column(one.role, taken.ravel(), one.levels)
        return np.asarray(function(mixed).reshape(len(rows), -1).mean(axis=1))

    base, whole = expected(np.zeros(values.shape, dtype=np.bool_)), expected(np.ones(values.shape, dtype=np.bool_))
    for _ in range(PERMUTATIONS):
        forth = rng.permuted(np.tile(np.arange(len(columns)), (len(rows), 1)), axis=1)
        for order in (forth, forth[:, ::-1]):
            known, before = np.zeros(values.shape, dtype=np.bool_), base
            for step, place in enumerate(order.T, start=1):
                known[each_row, place] = True
                after = whole if step == len(columns) else expected(known)
                values[each_row, place] += (after - before) / (2 * PERMUTATIONS)
                before = after
    return Contributions(tuple(columns), float(base[0]), values)


def of_trees(model: CatBoost, data: Pool) -> Contributions:
    """Contributions to the raw output of a CatBoost model with one output."""
    found = _shap_values(model, data)
    return Contributions(tuple(map(str, model.feature_names_)), float(found[0, -1]), found[:, :-1])
