"""Shapley values against their closed form, their definition and the package shap."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

import numpy as np
import pytest

from calcli.batch import Column, FloatArray
from calcli.learners.tree_models import of_function

ROWS, BACKGROUND = np.arange(5), np.arange(10, 40)


def test_of_a_sum_each_column_adds_its_distance_from_the_mean_of_the_background() -> None:
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

    found = of_function(lambda given: np.sum(parts(given), axis=0), columns, ROWS, BACKGROUND, seed=1)
    whole = np.column_stack(parts(columns))
    assert found.names == ("x", "kind", "holes")
    assert found.base == pytest.approx(whole[BACKGROUND].sum(axis=1).mean())
    np.testing.assert_allclose(found.values, whole[ROWS] - whole[BACKGROUND].mean(axis=0), atol=1e-9)


def of_pairs(table: FloatArray) -> FloatArray:
    return np.asarray(table[:, 0] * table[:, 1] + np.maximum(table[:, 2], table[:, 3]) - table[:, 1] * table[:, 3])


def of_all(table: FloatArray) -> FloatArray:
    return np.asarray(np.exp(0.3 * table.sum(axis=1)) + table[:, 0] * table[:, 1] * table[:, 2])


def test_where_two_columns_interact_values_are_the_mean_over_all_orders() -> None:
    table = np.random.default_rng(2).normal(size=(40, 4))
    columns = {name: Column("number", values) for name, values in zip("abcd", table.T, strict=True)}
    found = of_function(
        lambda given: of_pairs(np.column_stack([given[name].values for name in "abcd"])), columns, ROWS, BACKGROUND, 1
    )
    for row in ROWS:
        added = np.zeros(4)
        orders = list(permutations(range(4)))
        for order in orders:
            mixed = table[BACKGROUND].copy()
            before = of_pairs(mixed).mean()
            for place in order:
                mixed[:, place] = table[row, place]
                added[place] += of_pairs(mixed).mean() - before
                before = of_pairs(mixed).mean()
        np.testing.assert_allclose(found.values[row], added / len(orders), atol=1e-12)


@pytest.mark.slow
def test_values_are_as_near_to_those_of_shap_as_these_are_to_each_other() -> None:
    """It compiles for seconds in each process."""
    shap = pytest.importorskip("shap")
    table = np.random.default_rng(3).normal(size=(40, 6))
    columns = {name: Column("number", values) for name, values in zip("abcdef", table.T, strict=True)}
    masker = shap.maskers.Independent(table[BACKGROUND], max_samples=len(BACKGROUND))
    theirs = [
        shap.PermutationExplainer(of_all, masker, seed=seed)(table[ROWS], max_evals=130, silent=True).values
        for seed in range(4)
    ]
    ours = [
        of_function(
            lambda given: of_all(np.column_stack([given[name].values for name in "abcdef"])),
            columns,
            ROWS,
            BACKGROUND,
            seed,
        ).values
        for seed in range(4)
    ]
    spread = np.std(theirs, axis=0, ddof=1).mean()
    assert np.std(ours, axis=0, ddof=1).mean() < 2 * spread
    assert np.abs(np.mean(ours, axis=0) - np.mean(theirs, axis=0)).mean() < 2 * spread
