"""Models that users hand in, as CatBoost, XGBoost and LightGBM write them. No pickle is ever loaded.

The library that wrote a file reads it: CatBoost comes with calcli, the others must be installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from calcli.batch import Column, FloatArray, IntArray
from calcli.errors import DataError, MissingExtraError
from calcli.learners import catboost, cbm
from calcli.learners.tree_model import CatBoostTrees, TreeModel, as_number, beside_each_other, matched

if TYPE_CHECKING:
    import lightgbm
    import xgboost

_PICKLES = (b"\x80", b"PK\x03\x04", b"\x1f\x8b", b"(dp", b"ccopy_reg")
"""How pickles, joblib's and zipped ones begin."""


def read_model(content: bytes) -> TreeModel:
    """The model in a file, whoever wrote it."""
    if content.startswith(cbm.START):
        return _catboost(content)
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


def _catboost(content: bytes) -> TreeModel:
    try:
        return CatBoostTrees(catboost.read(content))
    except ValueError as error:
        raise DataError(str(error)) from None


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
    """A model of LightGBM. Of categories it must have been given texts, which its file keeps."""

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
