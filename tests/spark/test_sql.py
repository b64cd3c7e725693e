"""A calibrator as SQL, in Spark's own dialect, predicts what `apply` predicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import calcli
from calcli.methods import catalog
from calcli.verbs.export import ExportRequest, export
from tests.support.export import assert_same
from tests.support.samples import breeds, clicks, unseen, visits
from tests.support.spark import Driver

pytest.importorskip("pyspark", reason="needs the extra spark")

SCORE_ONLY = [row.name for row in catalog.specs() if row.closed_form and not row.needs_features]


def assert_same_in_spark(kept: Path, table: pl.DataFrame, driver: Driver, place: Path) -> None:
    scores, there = place / "scores.parquet", place / "there"
    table.write_parquet(scores)
    calcli.apply(kept, scores, place / "here.parquet", bad_rows="null")
    text = export(ExportRequest(kept, dialect="spark", shape="query", table="scores"))
    driver.begin(query={"text": text, "table": str(scores), "output": str(there)})
    driver.answer()
    expected, got = (pl.read_parquet(path).sort("place") for path in (place / "here.parquet", there / "*.parquet"))
    assert_same(got, expected)


@pytest.mark.parametrize(("name", "classes"), [*((name, 2) for name in SCORE_ONLY), ("sms", 4), ("isotonic", 4)])
def test_scores(name: str, classes: int, driver: Driver, tmp_path: Path) -> None:
    frame = clicks(1500).select("label", "logit") if classes == 2 else breeds(800)
    calcli.fit(frame, method=name, output=tmp_path / "kept", holdout="none")
    table = unseen([column for column in frame.columns if column != "label"], rows=200)
    assert_same_in_spark(tmp_path / "kept", table, driver, tmp_path)


@pytest.mark.parametrize(
    ("name", "params"),
    [("mbct", {"trees": 3, "depth": 2}), ("heterogeneous", {"partition": "forest", "trees": 3, "min_rows": 40})],
)
def test_features(name: str, params: dict[str, Any], driver: Driver, tmp_path: Path) -> None:
    """Missing values and levels that were never seen are in the table."""
    calcli.fit(visits(1500), method=name, params=params, output=tmp_path / "kept", holdout="none")
    table = visits(300, seed=1).drop("label").with_columns(place=pl.int_range(pl.len()))
    table = table.with_columns(city=pl.when(pl.col("place") % 11 == 0).then(pl.lit("Nowhere")).otherwise("city"))
    assert_same_in_spark(tmp_path / "kept", table, driver, tmp_path)
