"""Policies in DuckDB and ONNX: the decisions of `apply`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tests.support.samples import breeds, clicks

ASKED: dict[str, dict[str, Any]] = {
    "threshold": {"cost_fp": 1.0, "cost_fn": 5.0},
    "left open": {"cost_fp": 1.0, "cost_fn": 2.0, "abstain": 0.3},
    "by uncertainty": {"coverage": 0.7, "uncertainty": "w"},
}


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "m", method="platt", holdout="none")
    return here


@pytest.mark.parametrize(("kind", "scale"), [*((kind, "prob") for kind in ASKED), (next(iter(ASKED)), "logit")])
def test_sql_decides_as_apply_does(kind: str, scale: Any, fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", **ASKED[kind])
    table = clicks(300, seed=2).with_columns(
        pl.when(pl.col("row_id") % 7 == 0).then(None).otherwise("logit").alias("logit")
    )
    got = in_duckdb(table, ExportRequest("p", scale=scale))
    expected = applied("p", table, scale=scale)["decision"]
    assert expected.n_unique() == 3  # yes, no, and null
    assert got["decision"].cast(pl.Int64).to_list() == expected.to_list()
    assert duckdb.sql(export(ExportRequest("p", scale=scale, check=50))).fetchall() == []


def test_sql_decides_by_group(fitted: Path) -> None:
    calcli.decide(sites(clicks(seed=1), ["x", "y", None]), artifact="m", output="p", target="fpr <= 0.2", by="site")
    table = sites(clicks(300, seed=2), ["x", "new", None, "y"])
    expected = applied("p", table)["decision"]
    assert in_duckdb(table, ExportRequest("p"))["decision"].to_list() == expected.cast(pl.Float64).to_list()
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


def test_sql_finds_groups_of_numbers(fitted: Path) -> None:
    calcli.decide(sites(clicks(seed=1), [1, 2, None]), artifact="m", output="p", target="fpr <= 0.2", by="site")
    for numbers in ([1, 2, 3, None], [1.0, 2.0, 2.5, None]):
        table = sites(clicks(300, seed=2), numbers)
        expected = applied("p", table)["decision"]
        assert in_duckdb(table, ExportRequest("p"))["decision"].to_list() == expected.cast(pl.Float64).to_list()
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


def test_onnx_decides_too(fitted: Path) -> None:
    """`export_onnx` runs the model beside `apply` before it gives it."""
    pytest.importorskip("onnxruntime")
    calcli.decide(clicks(seed=1), artifact="m", output="p", cost_fp=1.0, cost_fn=2.0, abstain=0.3)
    from calcli.export import onnx

    columns = {"logit": np.array([-9.0, 0.0, 9.0])}
    *_, decision = onnx.run(export_onnx(ExportRequest("p")), columns)
    np.testing.assert_array_equal(np.ravel(decision), [0.0, np.nan, 1.0])


OF_CLASSES: dict[str, dict[str, Any]] = {
    "matrix": {"cost_file": "costs.csv", "abstain": 0.45},
    "thresholds": {"target": "precision >= 0.5"},
    "the likeliest two": {"target": "accuracy >= 0.8", "top": 2},
    "the likeliest three": {"cost_fp": 1.0, "cost_fn": 4.0, "top": 3},
    "by uncertainty": {"coverage": 0.6, "uncertainty": "known"},
    "lac": {"sets": 0.8},
    "lac of classes": {"sets": 0.8, "by_class": True},
    "aps of groups": {"sets": 0.8, "set_score": "aps", "by": "site"},
}


def sites(table: pl.DataFrame, names: Sequence[str | float | None]) -> pl.DataFrame:
    """The table with a group of each row, and a number that is not always known."""
    rows = len(table)
    known = pl.Series([None if place % 11 == 0 else place % 7 / 7 for place in range(rows)])
    return table.with_columns(site=pl.Series([names[place % len(names)] for place in range(rows)]), known=known)


@pytest.mark.slow
@pytest.mark.parametrize("kind", OF_CLASSES)
def test_sql_gives_the_classes_that_apply_gives(kind: str, here: Path) -> None:
    calcli.fit(breeds(), method="temperature", output="m", holdout="none")
    Path("costs.csv").write_text(",a,b,c,d\na,0,1,1,1\nb,1,0,1,1\nc,1,1,0,1\nd,1,3,1,0\n")
    calcli.decide(sites(breeds(1000, seed=1), ["x", "y", None]), artifact="m", output="p", **OF_CLASSES[kind])
    table = sites(breeds(400, seed=2), ["x", "new", None, "y"])
    table = table.with_columns(logit_b=pl.when(pl.col("logit_b") > 4).then(None).otherwise("logit_b"))
    got, expected = in_duckdb(table, ExportRequest("p", shape="query", table="the table", keep=())), applied("p", table)
    bad = expected["calibrated_a"].is_null()
    assert 0 < bad.sum() < 100
    if "set" in expected.columns:
        members = {f"in_{name}": expected["set"].str.split("|").list.contains(name) for name in "abcd"}
    else:
        members = {f"decision_{name}": (expected["decision"] == name).fill_null(False) for name in "abcd"}
    for name, held in members.items():
        assert got[name].is_null().to_list() == bad.to_list()
        assert got[name].filter(~bad).to_list() == held.filter(~bad).cast(pl.Float64).to_list()
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


@pytest.mark.parametrize("score", ["lac", "aps"])
def test_sets_of_two_classes(score: str, fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", sets=0.8, set_score=score)
    table = clicks(300, seed=2)
    got, expected = in_duckdb(table, ExportRequest("p")), applied("p", table)["set"].str.split("|")
    for name in "01":
        assert got[f"in_{name}"].to_list() == expected.list.contains(name).cast(pl.Float64).to_list()


@pytest.mark.parametrize("abstain", [None, 0.3])
def test_each_row_by_its_costs(abstain: float | None, fitted: Path) -> None:
    calcli.decide(
        clicks(seed=1), artifact="m", output="p", cost_fp="w", cost_fn=2.0, cost_tp=0.5, cost="w", abstain=abstain
    )
    unknown = pl.Series([None, float("nan"), float("inf"), -1.0])
    table = clicks(300, seed=2)
    table = table.with_columns(w=pl.concat([unknown, table["w"][4:]]))
    got, expected = in_duckdb(table, ExportRequest("p"))["decision"], applied("p", table)["decision"]
    assert expected.is_null().to_list()[:4] == [True] * 4
    assert got.cast(pl.Int64).to_list() == expected.to_list()
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


AMOUNTS: dict[str, dict[str, Any]] = {
    "absolute": {"prediction": "mean"},
    "variance": {"prediction": "mean", "variance": "spread"},
    "spread of groups": {"prediction": "mean", "spread": "spread", "by": "site"},
    "quantiles": {"quantiles": ("low", "high")},
    "above": {"prediction": "mean", "side": "lower"},
}


def amounts(rows: int, seed: int) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    mean, spread = rng.normal(size=rows), rng.choice([0.0, 0.5, 2.0], rows)
    low, high = mean - 2.0, mean + rng.choice([-3.0, 2.0], rows)
    truth = mean + np.sqrt(spread) * rng.normal(size=rows)
    return pl.DataFrame({"target": truth, "mean": mean, "spread": spread, "low": low, "high": high})


@pytest.mark.parametrize("kind", AMOUNTS)
def test_intervals_are_those_of_apply(kind: str, here: Path) -> None:
    """An end that is infinite in `apply` is missing, or no column at all."""
    flags = calcli.Flags(label="target")
    table = sites(amounts(600, 1), ["x"] * 50 + [None] * 49 + ["few"])
    calcli.decide(table, output="p", intervals=0.8, flags=flags, **AMOUNTS[kind])
    fresh = sites(amounts(200, 2), ["x", "few", None, "new"]).with_columns(
        mean=pl.when(pl.col("mean") > 1.5).then(None).otherwise("mean"),
        spread=pl.when(pl.col("spread") > 1).then(-pl.col("spread")).otherwise("spread"),
    )
    got, expected = in_duckdb(fresh, ExportRequest("p")), applied("p", fresh)
    for name in ["lo"] if kind == "above" else ["lo", "hi"]:
        finite = expected[name].is_finite().fill_null(False)
        assert got[name].is_not_null().to_list() == finite.to_list()
        np.testing.assert_allclose(got[name].filter(finite), expected[name].filter(finite), rtol=0, atol=1e-12)
    assert ("hi" in got.columns) is (kind != "above")
    assert duckdb.sql(export(ExportRequest("p", check=50))).fetchall() == []


def test_onnx_gives_sets_and_intervals_too(fitted: Path) -> None:
    """`export_onnx` runs each model beside `apply` before it gives it."""
    pytest.importorskip("onnxruntime")
    calcli.decide(clicks(seed=1), artifact="m", output="p", sets=0.8, set_score="aps")
    export_onnx(ExportRequest("p"))
    calcli.decide(amounts(600, 1), output="i", intervals=0.8, flags=calcli.Flags(label="target"), **AMOUNTS["variance"])
    export_onnx(ExportRequest("i"))


def test_randomised_sets_are_not_exported(fitted: Path) -> None:
    calcli.decide(clicks(seed=1), artifact="m", output="p", sets=0.9, set_score="aps-randomised")
    with pytest.raises(UsageError, match="--set-score lac or aps"):
        export(ExportRequest("p"))
