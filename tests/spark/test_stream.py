"""A session that runs already: calibrators are functions of its DataFrames and streams, and verbs read its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
import calcli.spark
from calcli.errors import DataError, FileSystemError, UsageError
from calcli.spark.session import read_table
from tests.support.samples import clicks
from tests.support.shell import ROOT, blocks

pytest.importorskip("pyspark", reason="needs the extra spark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.mark.parametrize(("method", "params"), [("isotonic", {}), ("recal", {"relation": "knn:age", "epochs": 20})])
def test_a_stream_of_files_is_calibrated_as_they_come(
    session: Any, tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    """As the page says: by a formula, and by Arrow batches where there is none; no row is calibrated twice."""
    kept, coming = tmp_path / "kept", tmp_path / "coming"
    calcli.fit(clicks(), method=method, params=params, output=kept, holdout="none")
    coming.mkdir()
    schema, (page,) = None, blocks((ROOT / "docs/growing.md").read_text(), "python")
    for name, place in (("nightly.platt", "kept"), ("coming",) * 2, ("checkpoint",) * 2, ("scored",) * 2):
        page = page.replace(f'"{name}"', repr(str(tmp_path / place)))
    parts = [clicks(200, seed=seed).with_columns(row_id=pl.int_range(pl.len()) + 200 * seed) for seed in range(3)]
    bad = parts[0].with_columns(logit=pl.when(pl.col("row_id") != 7).then(pl.col("logit")))
    for place, part in enumerate([bad, *parts[1:]]):
        part.write_parquet(coming / f"{place}.parquet")
        schema = schema or session.read.parquet(str(coming)).schema
        exec(page, {"spark": session, "schema": schema})
    found = pl.read_parquet(tmp_path / "scored" / "*.parquet").sort("row_id")
    rows_all = pl.concat([bad, *parts[1:]])
    assert found.drop("calibrated").equals(rows_all)
    assert found.filter(pl.col("calibrated").is_null())["row_id"].to_list() == [7]
    good = rows_all.filter(pl.col("logit").is_not_null())
    expected = calcli.load(kept).predict(good)
    np.testing.assert_allclose(found["calibrated"].drop_nulls().to_numpy(), expected, rtol=0, atol=1e-12)


def test_a_table_under_other_names_and_a_bad_row_that_ends_the_query(session: Any, tmp_path: Path) -> None:
    kept, table = tmp_path / "kept", tmp_path / "rows.parquet"
    calcli.fit(clicks(), method="platt", output=kept)
    rows = clicks(50).rename({"logit": "z"}).with_columns(z=pl.when(pl.col("row_id") != 7).then(pl.col("z")))
    rows.write_parquet(table)
    frame = session.read.parquet(str(table))
    named = {"column": "p", "flags": calcli.Flags(logit="z")}
    found = frame.transform(calcli.spark.calibrator(kept, **named)).toArrow()
    assert found.column_names == [*rows.columns, "p"]
    assert found["p"].null_count == 1
    with pytest.raises(Exception, match="some rows cannot be used"):
        frame.transform(calcli.spark.calibrator(kept, bad_rows="fail", **named)).collect()
    with pytest.raises(DataError, match="already has a column 'z'"):
        frame.transform(calcli.spark.calibrator(kept, column="z", flags=calcli.Flags(logit="z")))
    with pytest.raises(DataError, match="no column 'logit'"):
        frame.transform(calcli.spark.calibrator(kept))


def test_tables_are_read_and_written_by_name(session: Any, tmp_path: Path) -> None:
    kept, rows = tmp_path / "kept", clicks(3000)
    rows.write_parquet(tmp_path / "rows.parquet")
    session.sql(f"CREATE DATABASE shop LOCATION '{tmp_path / 'shop'}'")
    session.read.parquet(str(tmp_path / "rows.parquet")).write.saveAsTable("shop.clicks")
    session.table("shop.clicks").createOrReplaceTempView("some")
    calcli.fit("table:shop.clicks", method="platt", output=kept, holdout="none", engine="spark")
    calcli.apply(kept, "table:some", "table:shop.scored", engine="spark")
    found = pl.DataFrame(session.table("shop.scored").toArrow()).sort("row_id")
    assert found.drop("calibrated").equals(rows)
    expected = calcli.load(kept).predict(rows)
    np.testing.assert_allclose(found["calibrated"].to_numpy(), expected, rtol=0, atol=1e-12)
    for table in ("table:shop.clicks", "table:some"):
        report = calcli.evaluate(table, artifacts=(str(kept),), metrics="nll", bootstrap=20, engine="spark")
        local = calcli.evaluate(rows, artifacts=(str(kept),), metrics="nll")
        assert report.differences[0].value == pytest.approx(local.differences[0].value, rel=1e-9)
        assert report.differences[0].lo < report.differences[0].value < report.differences[0].hi
    with pytest.raises(FileSystemError, match="exists already"):
        calcli.apply(kept, "table:shop.clicks", "table:shop.scored", engine="spark")
    with pytest.raises(DataError, match="Spark finds nothing at table:shop"):
        calcli.evaluate("table:shop.none", engine="spark")


def test_tables_of_other_formats_are_read_by_name(session: Any, tmp_path: Path) -> None:
    """Spark knows the file of their rows, but not the place in it."""
    kept, rows = tmp_path / "kept", clicks(3000)
    calcli.fit(rows, method="platt", output=kept)
    rows.write_parquet(tmp_path / "rows.parquet")
    session.sql(f"CREATE DATABASE office LOCATION '{tmp_path / 'office'}'")
    session.read.parquet(str(tmp_path / "rows.parquet")).write.format("orc").saveAsTable("office.clicks")
    given = {"artifacts": (str(kept),), "metrics": "nll"}
    report = calcli.evaluate("table:office.clicks", bootstrap=20, engine="spark", **given)
    assert report.differences[0].value == pytest.approx(calcli.evaluate(rows, **given).differences[0].value, rel=1e-9)
    nights = {"drift": str(kept), "metrics": "nll"}
    found = calcli.evaluate("table:office.clicks", state=tmp_path / "there", engine="spark", **nights).drift
    expected = calcli.evaluate(rows, state=tmp_path / "here", **nights).drift
    assert found["drifted"] == expected["drifted"]
    session.table("office.clicks").createOrReplaceTempView("seen")
    with pytest.raises(UsageError, match="knows rows again by their file, and this table shows none"):
        calcli.evaluate("table:seen", state=tmp_path / "nowhere", engine="spark", **nights)


def test_small_files_are_read_together(session: Any, tmp_path: Path) -> None:
    """In a task for each core, as there is little to read."""
    frame = pl.DataFrame({"logit": [0.0], "label": [1]})
    for place in range(200):
        frame.write_parquet(tmp_path / f"{place}.parquet")
    table = read_table(session, [str(tmp_path)])
    assert table.rdd.getNumPartitions() == session.sparkContext.defaultParallelism
