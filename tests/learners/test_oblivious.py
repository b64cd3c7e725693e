"""The trees of a CatBoost model as plain numbers: beside the model's own predictions."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Column
from calcli.learners import catboost
from calcli.learners.oblivious import Above, Split, exact_cut, trees

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
