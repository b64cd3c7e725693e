"""Integers that are names: found, flagged, and read alike in all types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import calcli
from calcli.errors import DataError, UsageError
from calcli.numeric.links import sigmoid
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Feature, Flags
from calcli.tables.load import load
from calcli.tables.source import open_source
from calcli.verbs.export import ExportRequest, export
from tests.support.tables import put

ROWS = 4_000


def clicks_by_site(rows: int = ROWS, seed: int = 0) -> pl.DataFrame:
    """Sites with effects of their own that the score lacks, ages with none, and a few missing values."""
    rng = np.random.default_rng(seed)
    site, score = rng.integers(0, 40, rows), rng.normal(0.0, 1.0, rows)
    effect = np.random.default_rng(99).normal(0.0, 1.0, 40)[site]
    label = (rng.random(rows) < sigmoid(score + effect)).astype(np.int64)
    columns = {"logit": score, "label": label, "site": site * 7 + 100, "age": rng.integers(18, 90, rows)}
    return pl.DataFrame(columns).with_columns(pl.when(pl.col("age") != 20).then(pl.col("site")).alias("site"))


def bound(data: Any, **flags: Any) -> Binding:
    with open_source(data) as source:
        return bind(source, Flags(**flags))


def roles(data: Any, **flags: Any) -> dict[str, str]:
    return {one.name: one.role for one in bound(data, **flags).features}


@pytest.mark.parametrize("suffix", ["parquet", "csv", "arrow", "ndjson"])
def test_names_are_found_by_their_effects_in_every_format(tmp_path: Path, suffix: str) -> None:
    path = put(tmp_path / f"t.{suffix}", clicks_by_site())
    assert roles(path) == {"site": "category", "age": "number"}
    (note,) = bound(path).notes
    assert note.startswith("'site' is read as a category")
    assert note.endswith("--numbers site")
    floats = clicks_by_site().with_columns(pl.col("site", "age").cast(pl.Float64))
    assert roles(floats) == {"site": "category", "age": "number"}
    assert (
        roles(floats.with_columns(site=pl.col("site") + (pl.int_range(pl.len()) == ROWS - 1) * 0.5))["site"] == "number"
    )


def test_names_of_columns_help_where_rows_are_few() -> None:
    few = clicks_by_site(600)
    quiet = few.with_columns(label=pl.Series(np.random.default_rng(5).permutation(few["label"].to_numpy())))
    found = [
        roles(quiet.rename({"site": name}).with_columns(pl.Series("label", quiet["label"].shuffle(seed))))[name]
        for name in ("site", "site_id")
        for seed in range(20)
    ]
    assert found[:20].count("category") <= 2
    assert 5 <= found[20:].count("category") <= 15
    assert bound(few.with_columns(age_id=few["age"].cast(pl.Int8) // 30)).features[-1].role == "number"  # three values


def test_few_values_are_names_by_the_name_of_their_column_alone() -> None:
    rng = np.random.default_rng(0)
    kind, score = rng.integers(0, 9, ROWS), rng.normal(size=ROWS)
    label = rng.random(ROWS) < sigmoid(score + rng.normal(size=9)[kind])
    rows = pl.DataFrame({"logit": score, "label": label, "kind": kind, "kind_code": kind, "kindId": kind})
    assert roles(rows) == {"kind": "number", "kind_code": "category", "kindId": "category"}


def test_flags_say_what_numbers_are(tmp_path: Path) -> None:
    rows = clicks_by_site().with_columns(site_b=pl.col("age") % 5, share=pl.col("logit").abs())
    assert roles(rows, numbers=("site",))["site"] == "number"
    assert roles(rows, categories=("site*", "age")) == {
        **dict.fromkeys(["site", "age", "site_b"], "category"),
        "share": "number",
    }
    assert roles(rows, features=("age", "share"), categories=("a?e",)) == {"age": "category", "share": "number"}
    text = rows.with_columns(pl.col("age").cast(pl.String))
    for path in (text, text.with_columns(pl.col("age").cast(pl.Categorical))):
        assert roles(path)["age"] == "category"
        with open_source(path) as source:
            binding = bind(source, Flags(numbers=("age",)))
            column = load(source, binding, features=True).batch.features["age"]
        assert column.role == "number"
        assert column.values.tolist() == rows["age"].to_list()
    for flags, error, words in (
        ({"categories": ("sites",)}, DataError, "--categories: no column 'sites'"),
        ({"numbers": ("x*",)}, DataError, "--numbers: no column 'x*'"),
        ({"categories": ("s*",), "numbers": ("site",)}, UsageError, "'site' is named by --categories and by --numbers"),
        ({"categories": ("share",)}, DataError, "'share' holds numbers with fractions"),
    ):
        with pytest.raises(error, match=words.replace("*", r"\*")):
            bound(rows, **flags)


@pytest.mark.parametrize("suffix", [None, "parquet", "arrow"])
def test_dictionaries_of_pandas_are_categories(tmp_path: Path, suffix: str | None) -> None:
    frame = clicks_by_site(200).to_pandas()
    frame["age"] = frame["age"].astype("category")
    data: Any = frame
    if suffix is not None:
        data = tmp_path / f"t.{suffix}"
        (frame.to_parquet if suffix == "parquet" else frame.to_feather)(data)
    assert roles(data)["age"] == "category"
    assert roles(data, numbers=("age",))["age"] == "number"


def test_ids_of_64_bits_stay_apart() -> None:
    ids = pl.Series("site", [2**62 + 1, 2**62 + 2, -(2**61) - 1, None] * 50)
    rows = clicks_by_site(200).with_columns(ids)
    with open_source(rows) as source:
        column = load(source, bind(source, Flags(categories=("site",))), features=True).batch.features["site"]
    assert column.levels == tuple(sorted(str(one) for one in ids.drop_nulls().unique()))
    assert [None if code < 0 else int(column.levels[code]) for code in column.values[:4]] == ids[:4].to_list()


def in_other_types(rows: pl.DataFrame, path: Path) -> list[Any]:
    """The rows with their sites in all types in which a table may have them."""
    site = pl.col("site")
    forms = [
        site.cast(pl.Float64),
        site.cast(pl.Float32).fill_null(float("nan")),
        site.cast(pl.String),
        site.cast(pl.Float64).cast(pl.String),
        site.cast(pl.String).cast(pl.Categorical),
        site.cast(pl.Decimal(20, 2)),
        site.cast(pl.UInt16),
    ]
    frames = [rows.with_columns(one) for one in forms]
    return [*frames, put(path, frames[0]), rows.to_pandas()]


def test_a_calibrator_reads_names_in_all_types_as_if_they_were_text(tmp_path: Path) -> None:
    rows, new = clicks_by_site(), clicks_by_site(500, seed=1).with_columns(pl.col("site") + (pl.col("age") == 30))
    text = rows.with_columns(pl.col("site").cast(pl.String))
    kept = tmp_path / "kept"
    few = {"method": "mbct", "params": {"trees": 5}, "holdout": "0.2"}
    calcli.fit(rows, output=kept, **few)
    of_text = calcli.fit(text, **few).model
    assert of_text is not None
    expected = of_text.predict(new.with_columns(pl.col("site").cast(pl.String)))
    assert calcli.load(kept).binding.features[0] == Feature("site", "category", "Int64")
    for one in (new, *in_other_types(new, tmp_path / "new.csv")):
        np.testing.assert_array_equal(calcli.load(kept).predict(one), expected)
        if not isinstance(one, Path | pd.DataFrame) and one["site"].dtype.is_float():
            np.testing.assert_array_equal(of_text.predict(one), expected)
    # In a database too, and a refit keeps what the fit has found.
    query = export(ExportRequest(kept, table="given"))
    for given in (new, *[in_other_types(new, tmp_path / "new.csv")[at] for at in (0, 2, 3, 5)]):  # noqa: B007 DuckDB reads it
        np.testing.assert_allclose(duckdb.sql(query).pl()["calibrated"].to_numpy(), expected, rtol=0, atol=1e-12)
    assert duckdb.sql(export(ExportRequest(kept, check=100))).fetchall() == []
    again = calcli.refit(kept, rows.with_columns(pl.col("logit") * 8.0, pl.col("site").cast(pl.Float64)))
    assert again.kept is None
    assert calcli.load(kept).binding.features[0] == Feature("site", "category", "Int64")
