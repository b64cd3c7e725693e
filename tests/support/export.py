"""Exported calibrators run in DuckDB, and `apply` to compare with."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import calcli
from calcli.export import sql
from calcli.verbs.export import ExportRequest, export


def assert_same(got: pl.DataFrame, expected: pl.DataFrame) -> None:
    """The same calibrated columns, null where the other is."""
    assert difference(got, expected) <= 1e-9


def difference(got: pl.DataFrame, expected: pl.DataFrame) -> float:
    """The largest difference of calibrated columns, which must be null in the same rows."""
    added = [name for name in expected.columns if name.startswith("calibrated")]
    assert added
    a, b = (frame.select(added).to_numpy().astype(float) for frame in (got, expected))
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    return float(np.nanmax(np.abs(a - b)))


def with_trees_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let queries have no tree as a CASE, however small: databases find leaves in lists, or by joins."""
    for most in ("MOST_UNLISTED", "MOST_BRANCHES"):
        monkeypatch.setattr(sql, most, 0)


def in_duckdb(table: pl.DataFrame, request: ExportRequest) -> pl.DataFrame:
    """What DuckDB makes of the exported expression or query."""
    connection = duckdb.connect()
    connection.register("the table", table.to_arrow())
    text = export(request)
    return connection.sql(text if request.shape == "query" else f'SELECT {text} FROM "the table"').pl()


def applied(artifact: str, table: pl.DataFrame, **more: Any) -> pl.DataFrame:
    """The table after `apply`."""
    table.write_parquet("unseen.parquet")
    calcli.apply(artifact, "unseen.parquet", "out.parquet", bad_rows="null", **more)
    return pl.read_parquet("out.parquet")
