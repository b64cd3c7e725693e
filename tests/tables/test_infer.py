"""Types of text columns."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.tables import text
from calcli.tables.source import open_source
from calcli.tables.text import MISSING, infer_schema
from tests.support.tables import ordinary, put_text


@pytest.mark.parametrize(
    ("values", "dtype", "typed"),
    [
        (["1", "-2", "+3"], pl.Int64, [1, -2, 3]),
        (["1", "2.5"], pl.Float64, [1.0, 2.5]),
        (["1", "1e3", "inf"], pl.Float64, [1.0, 1000.0, float("inf")]),
        (["1", "", "NA", None, "3"], pl.Int64, [1, None, None, None, 3]),
        (["1.5", "nan", "NaN", "null"], pl.Float64, [1.5, None, None, None]),
        (["true", "False", "NULL"], pl.Boolean, [True, False, None]),
        (["true", "0"], pl.String, ["true", "0"]),
        (["a", "NA", "", None], pl.String, ["a", "NA", "", None]),
        (["007", "12"], pl.String, ["007", "12"]),
        (["1.5", "007"], pl.String, ["1.5", "007"]),
        (["-01", "2"], pl.String, ["-01", "2"]),
        (["0", "0.5", "-0.5"], pl.Float64, [0.0, 0.5, -0.5]),
        (["99999999999999999999", "1"], pl.Float64, [1e20, 1.0]),
        (["18446744073709551615", "", "1"], pl.UInt64, [2**64 - 1, None, 1]),
        (["9223372036854775808", "-1"], pl.Float64, [2.0**63, -1.0]),
        (["NA", "", None], pl.String, ["NA", "", None]),
        (["1_000", "2"], pl.String, ["1_000", "2"]),
        (["2024-01-01"], pl.String, ["2024-01-01"]),
    ],
)
def test_kinds(tmp_path: Path, values: list[str | None], dtype: pl.DataType, typed: list[object]) -> None:
    pl.DataFrame({"x": values, "y": ["k"] * len(values)}, schema={"x": pl.String, "y": pl.String}).write_csv(
        tmp_path / "a.csv"
    )
    with open_source(tmp_path / "a.csv") as source:
        assert source.schema == {"x": dtype, "y": pl.String}
        assert source.typed().collect()["x"].to_list() == typed
        assert source.typed(["x"]).collect_schema() == {"x": dtype}
        assert source.raw.collect()["x"].to_list() == values


def test_the_last_row_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 2000)
    put_text(tmp_path / "a.csv", "x,y\n" + "1,true\n" * 20_000 + "2.5,maybe\n")
    with open_source(tmp_path / "a.csv") as source:
        assert source.schema == {"x": pl.Float64, "y": pl.String}


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["1", "2.5", "007", "true", "x", *MISSING]) | st.none(), min_size=1, max_size=8))
def test_it_does_not_matter_where_chunks_end(values: list[str | None]) -> None:
    whole = pl.LazyFrame({"x": values}, schema={"x": pl.String})
    parts = pl.concat([pl.LazyFrame({"x": [value]}, schema={"x": pl.String}) for value in values])
    assert infer_schema(whole) == infer_schema(parts)


def test_typed_table_reads_as_it_was_written(tmp_path: Path) -> None:
    frame = ordinary().with_columns(pl.col("day").cast(pl.String))
    frame.write_csv(tmp_path / "a.csv")
    with open_source(tmp_path / "a.csv") as source:
        assert source.typed().collect().equals(frame, null_equal=True)
