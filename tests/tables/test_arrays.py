"""Categories are the same rows and levels whether they come as texts or with codes of their own."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calcli.tables import arrays
from calcli.tables.arrays import Levels, feature_column
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


CHUNKS = (["b", None, "a"], ["a", "a"], ["c", "b", None, "a"], [None], [], ["zz", "c"], ["a", "b"])


@pytest.mark.parametrize(
    "dtype", [pl.Categorical, pl.Categorical(pl.Categories.random()), pl.Enum(["zz", "c", "b", "a"])]
)
@pytest.mark.parametrize("kept", [0, 3, 1000])
def test_levels_that_are_kept_from_chunk_to_chunk(dtype: pl.DataType, kept: int, monkeypatch) -> None:
    """Nothing else holds the chunks, so that polars may forget what its numbers meant."""
    monkeypatch.setattr(arrays, "MOST_KEPT", kept)
    feature, levels = Feature("x", "category", "string"), Levels()
    before = ()
    for texts in CHUNKS:
        column = feature_column(pl.Series("x", texts, dtype=dtype), feature, 0, levels)
        assert [None if code < 0 else column.levels[code] for code in column.values] == texts
        assert list(column.levels) == sorted(set(column.levels))
        if kept == 1000 and {text for text in texts if text} <= set(before):
            assert column.levels is before
        before = column.levels


def test_columns_have_levels_of_their_own() -> None:
    levels = Levels()
    for name, texts in (("x", ["a", "b"]), ("y", ["c"]), ("x", ["b"])):
        column = feature_column(
            pl.Series(name, texts, dtype=pl.Categorical), Feature(name, "category", "string"), 0, levels
        )
        assert [column.levels[code] for code in column.values] == texts
        assert set(column.levels) == ({"a", "b"} if name == "x" else {"c"})
