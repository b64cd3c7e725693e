"""Policies in DuckDB and ONNX: the decisions of `apply`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import UsageError
from calcli.verbs.export import ExportRequest, export, export_onnx
from tests.support.export import applied, in_duckdb
from tests.support.samples import clicks

ASKED: dict[str, dict[str, Any]] = {
    "threshold": {"cost_fp": 1.0, "cost_fn": 5.0},
    "left open": {"cost_fp": 1.0, "cost_fn": 2.0, "abstain": 0.3},
    "by uncertainty": {"coverage": 0.7, "uncertainty": "w"},
}


@pytest.fixture
def fitted(here: Path) -> Path:
    calcli.fit(clicks(), method="platt", output="m")
    return here


@pytest.mark.parametrize("kind", ASKED)
@pytest.mark.parametrize("scale", ["prob", "logit"])
def test_sql_decides_as_apply_does(kind: str, scale: Any, fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", **ASKED[kind])
    table = clicks(300, seed=2).with_columns(
        pl.when(pl.col("row_id") % 7 == 0).then(None).otherwise("logit").alias("logit")
    )
    got = in_duckdb(table, ExportRequest("p", scale=scale))
    expected = applied("p", table, scale=scale)["decision"]
    assert expected.n_unique() == 3  # yes, no, and null
    assert got["decision"].cast(pl.Int64).to_list() == expected.to_list()


@pytest.mark.parametrize("kind", ASKED)
def test_the_check_of_an_export_finds_nothing(kind: str, fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", **ASKED[kind])
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


def test_onnx_decides_too(fitted: Path) -> None:
    """`export_onnx` runs the model beside `apply` before it gives it."""
    pytest.importorskip("onnxruntime")
    calcli.decide(clicks(seed=1), artifact="m", output="p", cost_fp=1.0, cost_fn=2.0, abstain=0.3)
    from calcli.export import onnx

    columns = {"logit": np.array([-9.0, 0.0, 9.0])}
    *_, decision = onnx.run(export_onnx(ExportRequest("p")), columns)
    np.testing.assert_array_equal(np.ravel(decision), [0.0, np.nan, 1.0])


def test_sets_are_not_exported(fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", sets=0.9)
    with pytest.raises(UsageError, match="only policies of thresholds"):
        export(ExportRequest("p"))
