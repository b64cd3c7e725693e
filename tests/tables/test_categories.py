"""Categories are the same rows and levels whether they come as texts or with codes of their own."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calcli.tables.arrays import feature_column
from calcli.tables.features import Feature

TEXTS = ["é", None, "b", "a", "b", "10", "9"]


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(["zz", "9", "b", "é", "a", "10"])])
@pytest.mark.parametrize("texts", [TEXTS, [None, None], []])
def test_coded_categories_are_those_of_their_texts(dtype: pl.DataType, texts: list[str | None]) -> None:
    plain = pl.Series("x", texts, dtype=pl.String)
    feature = Feature("x", "category", "string")
    expected, got = (feature_column(values, feature, 0) for values in (plain, plain.cast(dtype)))
    assert got.levels == expected.levels
    np.testing.assert_array_equal(got.values, expected.values)
    assert got.values.dtype == expected.values.dtype == np.int32
