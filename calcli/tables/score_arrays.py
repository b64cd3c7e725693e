"""Arrays of scores as columns, where they stand in the place of a table."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding
from calcli.tables.scales import check_probabilities


def holds_scores(data: object) -> bool:
    """Whether an argument is an array or a list of numbers, and neither a table nor paths."""
    if isinstance(data, list | tuple):
        return bool(data) and not isinstance(data[0], str | os.PathLike)
    return hasattr(data, "__array__") and not (hasattr(data, "columns") or hasattr(data, "column_names"))


def unmasked(values: Any) -> Any:
    """The values for numpy, with None for those that a mask hides: `numpy.asarray` shows what is behind it."""
    if isinstance(values, pl.LazyFrame):
        return values.collect()
    return np.where(np.ma.getmaskarray(values), None, values.data) if np.ma.is_masked(values) else values


def scores_of(scores: object) -> FloatArray:
    """Scores as float64, shape (n,) or (n, K), all finite; one column is the score of the positive class."""
    array = np.asarray(unmasked(scores))
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: scores are real numbers")
    try:
        values = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the scores are no numbers: {error}") from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise DataError(f"the scores have {values.ndim} dimensions; they are (n,) or (n, classes)")
    if not len(values):
        raise DataError("there are no rows: the scores have 0 sample(s)")
    finite = np.isfinite(values)
    if not finite.all():
        bad = values[~finite][0]
        row = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
        raise DataError(f"the scores contain {'NaN' if np.isnan(bad) else 'infinity'}, first in row {row + 1}")
    return values


def score_columns(scores: FloatArray, names: Sequence[str]) -> list[pl.Series]:
    """The scores as columns of these names."""
    given = 1 if scores.ndim == 1 else scores.shape[1]
    if given != len(names):
        many = "1 column" if given == 1 else f"{given} columns"
        wanted = "1 is" if len(names) == 1 else f"{len(names)} are"
        raise DataError(f"the scores have {many}, and {wanted} expected: {', '.join(names[:8])}")
    if scores.ndim == 1:
        return [pl.Series(names[0], scores)]
    return [pl.Series(name, scores[:, place]) for place, name in enumerate(names)]


def columns_of(scores: FloatArray, binding: Binding) -> list[pl.Series]:
    """The columns that a fitted model reads; scores by class are in the order of their index."""
    order = index_order(binding)
    if binding.score.kind == "prob":
        check_probabilities(scores)
    if scores.ndim == 2 and scores.shape[1] == len(order) == len(binding.score.columns):
        scores = scores[:, [order.index(one) for one in binding.classes]]
    return score_columns(scores, binding.score.columns)
