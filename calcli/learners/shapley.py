"""Shapley values of any function of columns, and of CatBoost's trees, by shap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Column, FloatArray, IntArray
from calcli.numeric.seeded import stream

if TYPE_CHECKING:
    from catboost import CatBoost, Pool

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

    shap's explainer by permutations: `base` is the mean over the background, and the sums are exact.
    """
    import shap

    # shap sees a row as the places of its values among those that occur, so that no value is missing or a text.
    distinct, places = {}, []
    for name, column in columns.items():
        distinct[name], place = np.unique(column.values, return_inverse=True)
        places.append(place)
    table = np.column_stack(places).astype(np.float64)

    def of_places(matrix: FloatArray) -> FloatArray:
        taken = zip(columns.items(), matrix.T.astype(np.int64), strict=True)
        return function({name: Column(one.role, distinct[name][place], one.levels) for (name, one), place in taken})

    masker = shap.maskers.Independent(table[background], max_samples=len(background))
    draw = int(stream(seed, "permutations").integers(2**31))
    explainer = shap.PermutationExplainer(of_places, masker, seed=draw)
    found = explainer(table[rows], max_evals=PERMUTATIONS * (2 * len(columns) + 1), silent=True)
    return Contributions(tuple(columns), float(np.mean(found.base_values)), np.asarray(found.values, dtype=np.float64))


def of_trees(model: CatBoost, data: Pool) -> Contributions:
    """Contributions to the raw output of a CatBoost model with one output, by shap's explainer of trees."""
    import shap

    explainer = shap.TreeExplainer(model)
    values = np.asarray(explainer.shap_values(data), dtype=np.float64)
    return Contributions(tuple(map(str, model.feature_names_)), float(np.squeeze(explainer.expected_value)), values)
