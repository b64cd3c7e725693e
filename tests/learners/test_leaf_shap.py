"""The tables give what CatBoost gives, also in leaves that no row of the fit fell into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calcli.batch import Column, FloatArray
from calcli.learners.catboost import pool
from calcli.learners.leaf_shap import LeafShap
from tests.support.cases import features

catboost = pytest.importorskip("catboost", reason="needs the extra trees")


def table(rows: int, seed: int) -> dict[str, Column]:
    rng = np.random.default_rng(seed)
    return {**features(rows, rng), "other": Column("category", rng.integers(0, 2, rows).astype(np.int32), ("u", "v"))}


def trained(outputs: int, weights: tuple[int, int] = (1, 3), **settings: Any) -> Any:
    """A model of numbers with holes, flags and categories, of rows with such weights."""
    rng = np.random.default_rng(3)
    columns = table(600, 3)
    number = np.nan_to_num(columns["number"].values, nan=-1.0)
    both = columns["place"].values == columns["other"].values
    target = np.column_stack([number**2 + 2 * both, np.sin(3 * number), number])[:, :outputs]
    common = {"iterations": 30, "verbose": 0, "allow_writing_files": False, "random_seed": 1, "thread_count": 1}
    model = catboost.CatBoost({**common, "loss_function": "RMSE" if outputs == 1 else "MultiRMSE", **settings})
    return model.fit(pool(columns, target.squeeze(), rng.integers(*weights, 600).astype(np.float64)))


def both(model: Any, columns: dict[str, Column]) -> tuple[FloatArray, FloatArray]:
    data, tables = pool(columns), LeafShap.of(model)
    assert tables is not None
    theirs = np.asarray(model.get_feature_importance(data, type="ShapValues"))[..., :-1]
    return tables.sums(np.asarray(model.calc_leaf_indexes(data), dtype=np.int64)), theirs.reshape(len(theirs), -1)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("depth", [1, 4, 7])
def test_they_are_those_of_catboost(outputs: int, depth: int) -> None:
    model = trained(outputs, depth=depth, max_ctr_complexity=1)
    ours, theirs = both(model, table(2000, 4))
    assert np.abs(theirs).max() > 0.1
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "settings",
    [
        {"grow_policy": "Lossguide"},
        {"depth": 10},
        {"weights": (0, 2)},
        {"depth": 6, "max_ctr_complexity": 3, "one_hot_max_size": 1},
    ],
    ids=["not oblivious", "too deep", "rows without weight", "several features in a split"],
)
def test_trees_without_tables(settings: dict[str, Any]) -> None:
    assert LeafShap.of(trained(1, **settings)) is None
