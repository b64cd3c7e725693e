"""Shapley values against their closed form: a slow test, because shap compiles for seconds in each process.

`tests/verbs/test_explain.py` asks the same explainer for values that add up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from calcli.batch import Column, FloatArray
from calcli.learners.tree_models import of_function


@pytest.mark.slow
def test_of_a_sum_each_column_adds_its_distance_from_the_mean_of_the_background() -> None:
    pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    numbers, codes = rng.normal(size=40), rng.integers(-1, 3, 40).astype(np.int32)
    holes = np.where(rng.random(40) < 0.3, np.nan, rng.normal(size=40))
    columns = {
        "x": Column("number", numbers),
        "kind": Column("category", codes, ("a", "b", "c")),
        "holes": Column("number", holes),
    }
    effect = np.array([0.5, -1.0, 2.0, 7.0])  # of a, b, c and of a missing one

    def parts(given: Mapping[str, Column]) -> list[FloatArray]:
        hole = given["holes"].values
        kinds = effect[given["kind"].values.astype(np.int64)]
        return [3.0 * given["x"].values, kinds, np.where(np.isnan(hole), 4.0, hole)]

    rows, background = np.arange(5), np.arange(10, 40)
    found = of_function(lambda given: np.sum(parts(given), axis=0), columns, rows, background, seed=1)
    whole = np.column_stack(parts(columns))
    assert found.names == ("x", "kind", "holes")
    assert found.base == pytest.approx(whole[background].sum(axis=1).mean())
    np.testing.assert_allclose(found.values, whole[rows] - whole[background].mean(axis=0), atol=1e-9)
