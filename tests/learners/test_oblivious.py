"""CatBoost's trees as plain numbers and their SHAP values: beside the model's own, also in leaves without a row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calcli.batch import Column, FloatArray
from calcli.learners import catboost
from calcli.learners.catboost import pool
from calcli.learners.oblivious import Above, LeafShap, Split, exact_cut, trees
from tests.support.cases import features

pytest.importorskip("catboost", reason="needs the extra trees")

LEVELS = ("a", "b", "c", "nan", "d", "e", "f", "")


def rows(count: int, seed: int, *, unseen: bool = False) -> dict[str, Column]:
    rng = np.random.default_rng(seed)
    number = rng.normal(size=count).round(1)
    number[::7] = np.resize([np.nan, np.inf, -np.inf, -0.0], len(number[::7]))
    codes = [rng.integers(-1, len(LEVELS), count).astype(np.int32), rng.integers(-1, 2, count).astype(np.int32)]
    levels = tuple(f"new {one}" if unseen and one in ("b", "d") else one for one in LEVELS)
    return {
        "number": Column("number", number),
        "complete": Column("number", rng.normal(size=count)),
        "many": Column("category", codes[0], levels),
        "two": Column("category", codes[1], ("yes", "no")),
    }


def passes(split: Split, features: dict[str, Column], row: int) -> bool:
    if isinstance(split, bool):
        return split
    column = features[split.feature]
    value = column.values[row]
    if isinstance(split, Above):
        return split.missing if np.isnan(value) else bool(value > split.cut)
    return split.passes(False if value < 0 else column.levels[int(value)])


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_leaves_add_up_to_what_the_model_predicts(outputs: int) -> None:
    known, new = rows(800, 0), rows(300, 1, unseen=True)
    wrong = np.nan_to_num(known["number"].values, posinf=2, neginf=-2) + np.sin(3 * known["many"].values)
    label = (wrong + known["two"].values > np.random.default_rng(2).normal(size=800)).astype(np.int64)
    if outputs == 3:
        label += (known["complete"].values > 0.3).astype(np.int64)
    loss = {"loss_function": "Logloss" if outputs == 1 else "MultiClass", "max_ctr_complexity": 1}
    model = catboost.train(catboost.pool(known, label), {"iterations": 30, "depth": 4, **loss}, seed=0)
    made = trees(model, {"many": LEVELS, "two": ("yes", "no")})
    assert {type(split).__name__ for tree in made for split in tree.splits} >= {"Above", "OneOf"}
    found = np.zeros((300, outputs))
    for row in range(300):
        for tree in made:
            found[row] += tree.values[sum(passes(split, new, row) << place for place, split in enumerate(tree.splits))]
    expected = np.asarray(model.predict(catboost.pool(new), prediction_type="RawFormulaVal")).reshape(300, -1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_combined_features_have_no_conditions() -> None:
    known = rows(800, 0)
    label = ((known["many"].values + known["two"].values) % 2 == 0).astype(np.int64)
    model = catboost.train(catboost.pool(known, label), {"iterations": 20, "max_ctr_complexity": 3}, seed=0)
    with pytest.raises(ValueError, match="may combine categories"):
        trees(model, {"many": LEVELS, "two": ("yes", "no")})


def test_a_cut_of_float64_separates_as_its_border_of_float32() -> None:
    rng = np.random.default_rng(0)
    most = np.finfo(np.float32).max
    borders = np.concatenate(
        [rng.normal(size=300), 10.0 ** rng.uniform(-44, 38, 300), [0.0, most, -most, 0.5, -np.inf]]
    )
    for border in borders.astype(np.float32):
        cut = exact_cut(float(border))
        for x in (cut, np.nextafter(cut, np.inf), np.nextafter(cut, -np.inf), float(border), -cut, np.inf, -np.inf):
            with np.errstate(over="ignore"):
                assert (np.float32(x) > border) == (x > cut)


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
    import catboost as library

    model = library.CatBoost({**common, "loss_function": "RMSE" if outputs == 1 else "MultiRMSE", **settings})
    return model.fit(pool(columns, target.squeeze(), rng.integers(*weights, 600).astype(np.float64)))


def both(model: Any, columns: dict[str, Column]) -> tuple[FloatArray, FloatArray]:
    data, tables = pool(columns), LeafShap.of(model)
    assert tables is not None
    theirs = np.asarray(model.get_feature_importance(data, type="ShapValues"))[..., :-1]
    return tables.sums(np.asarray(model.calc_leaf_indexes(data), dtype=np.int64)), theirs.reshape(len(theirs), -1)


@pytest.mark.parametrize(("outputs", "depth"), [(1, 1), (1, 7), (3, 4)])
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
