"""Intervals, groups and gates of `evaluate`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.errors import DataError
from calcli.metrics.paired import paired_difference
from tests.support.samples import breeds, clicks
from tests.support.scored import GOLDEN


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "m", method="platt")
    return here


def towns(seed: int = 1) -> pl.DataFrame:
    frame = clicks(seed=seed)
    town = np.array(["oslo", "rome", None])[np.random.default_rng(0).integers(0, 3, len(frame))]
    return frame.with_columns(town=pl.Series(town.tolist(), dtype=pl.String))


def test_groups_are_measured_as_if_they_were_alone(fitted: Path) -> None:
    frame = towns()
    report = calcli.evaluate(frame, artifacts=("m",), by=("town",), metrics="nll,ece")
    assert [(entry["group"], entry["score"]) for entry in report.groups] == [
        (town, score) for score in ("raw", "m") for town in ("oslo", "rome", None)
    ]
    for entry in report.groups:
        alone = calcli.evaluate(frame.filter(pl.col("town").eq_missing(entry["group"])), artifacts=("m",))
        for metric in ("nll", "ece"):
            assert entry["metrics"][metric]["value"] == pytest.approx(alone.value(entry["score"], metric), rel=1e-12)
        assert entry["rows"] == alone.data.rows
        assert 0 < entry["detectable"] < 0.2
        assert entry["p_adjusted"] >= entry["p"]


def test_differences_from_any_score(fitted: Path) -> None:
    """The paired difference of two artifacts: the mean of the rows' differences, and its interval."""
    calcli.fit("train.parquet", method="isotonic", output="i")
    report = calcli.evaluate("test.parquet", artifacts=("m", "i"), versus="m", metrics="brier,auc")
    frame = pl.read_parquet("test.parquet")
    label = frame["label"].to_numpy()
    m, i = (np.square(calcli.load(name).predict(frame) - label) for name in "mi")
    found = {(one.score, one.versus, one.metric): one for one in report.differences}
    one = found["i", "m", "brier"]
    assert one.value == pytest.approx(np.mean(i - m), abs=1e-12)
    beside = paired_difference(i, m, None)
    assert (one.lo, one.hi) == pytest.approx((beside.lo, beside.hi), rel=1e-5)
    assert found["i", "m", "auc"].value == pytest.approx(report.value("i", "auc") - report.value("m", "auc"))
    assert {versus for _, versus, _ in found} == {"raw", "m"}
    drawn = calcli.evaluate("test.parquet", artifacts=("m", "i"), versus="m", metrics="brier,auc", bootstrap=500)
    again = next(each for each in drawn.differences if (each.score, each.versus, each.metric) == ("i", "m", "brier"))
    assert (again.lo, again.hi) == pytest.approx((one.lo, one.hi), abs=0.1 * (beside.hi - beside.lo))
    page = calcli.webpage(report)
    assert "difference from m" in page


@pytest.mark.slow
def test_bootstrap_intervals_agree_with_normal_theory(fitted: Path) -> None:
    drawn = calcli.evaluate("test.parquet", artifacts=("m",), bootstrap=1000, seed=1)
    plain = calcli.evaluate("test.parquet", artifacts=("m",))
    for metric in ("nll", "brier"):
        one, other = (next(each for each in report.differences if each.metric == metric) for report in (drawn, plain))
        assert one.value == other.value
        assert one.lo == pytest.approx(other.lo, rel=0.1)
        assert one.hi == pytest.approx(other.hi, rel=0.1)
    auc = drawn.score("raw").metrics["auc"]
    assert auc.lo < auc.value < auc.hi
    ece = drawn.score("raw").metrics["ece"]
    assert ece.p < 0.01
    assert ece.floor < ece.null_hi < ece.value
    assert drawn.to_json() == calcli.evaluate("test.parquet", artifacts=("m",), bootstrap=1000, seed=1).to_json() | {
        "scores": drawn.to_json()["scores"]  # the seconds differ
    }


def test_units_that_are_drawn_together_widen_the_interval(fitted: Path) -> None:
    """Every row twice: drawn singly there seem to be twice as many."""
    frame = pl.concat([clicks(seed=1)] * 2)
    asked = {"bootstrap": 500, "metrics": "nll"}
    single = calcli.evaluate(frame, **asked).score("raw").metrics["nll"]
    units = calcli.evaluate(frame, resample_by="row_id", **asked).score("raw").metrics["nll"]
    assert (units.hi - units.lo) / (single.hi - single.lo) == pytest.approx(np.sqrt(2), rel=0.2)


def test_units_count_as_one_without_a_bootstrap_too(fitted: Path) -> None:
    """Every row three times: differences and groups know as much as from each row once."""
    frame = clicks(seed=1).with_columns(half=pl.col("row_id").cast(pl.String).str.slice(-1).is_in(list("13579")))
    options = {"artifacts": ("m",), "by": ("half",)}
    once = calcli.evaluate(frame, **options)
    by_unit = calcli.evaluate(pl.concat([frame] * 3), resample_by="row_id", **options)
    assert by_unit.data.units == {"column": "row_id", "count": len(frame), "in_order": False}
    for one, other in zip(once.differences, by_unit.differences, strict=True):
        if one.lo is not None:
            # Student's t of a few hundred effective units in place of the normal
            assert other.hi - other.lo == pytest.approx(one.hi - one.lo, rel=5e-3)
    for one, other in zip(once.groups, by_unit.groups, strict=True):
        if one["score"] == "m":  # which is about as good as it says, so that its gaps are what it expects
            assert other["detectable"] == pytest.approx(one["detectable"], rel=0.1)
    shifts = [
        next(curve for curve in report.curves if curve.score == "raw").diagnosis.shift_p for report in (once, by_unit)
    ]
    assert shifts[1] == pytest.approx(shifts[0], abs=0.05)


def test_gates_are_judged(fitted: Path) -> None:
    expressions = ("nll.diff > 0", "ece > 0.2 or auc < 0.99", "raw.nll > 0")
    report = calcli.evaluate(towns(), artifacts=("m",), fail_if=expressions)
    assert [gate["passed"] for gate in report.gates] == [True, False, False]
    assert report.gates[1]["failed"][0]["metric"] == "auc"


def test_a_gate_sets_the_exit_code(fitted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "test.parquet", "--with", "m", "--fail-if", "nll.diff > 0"]) == 0
    assert main(["evaluate", "test.parquet", "--with", "m", "--fail-if", "auc < 1"]) == 1
    assert main(["evaluate", "test.parquet", "--with", "m", "--fail-if", "acu < 1"]) == 2
    assert "auc" in capsys.readouterr().err
    towns().write_parquet("towns.parquet")
    assert main(["evaluate", "towns.parquet", "--by", "town", "--fail-if", "ece@town > 0.9"]) == 0
    assert main(["evaluate", "towns.parquet", "--by", "town", "--fail-if", "ece@town=oslo > 0.01"]) == 1


def test_what_is_asked_wrongly_is_named(fitted: Path) -> None:
    with pytest.raises(DataError, match="'age'"):
        calcli.evaluate("test.parquet", by=("agee",))
    with pytest.raises(DataError, match="different values"):
        calcli.evaluate(pl.read_parquet("test.parquet").cast({"row_id": pl.String}), by=("row_id",))
    with pytest.raises(DataError, match="null in"):
        calcli.evaluate(towns(), bootstrap=10, resample_by="town")


def test_conventions_and_all_metrics_reach_the_report(here: Path) -> None:
    edge = pl.read_csv(GOLDEN / "edge.csv")
    for name, expected in (("sklearn", 0.2733333333333333), ("netcal", 0.23333333333333328)):  # as the peers say
        options = calcli.Options(bins=10, convention=name)
        assert calcli.evaluate(edge, metrics="ece", options=options).value("raw", "ece") == pytest.approx(expected)
    report = calcli.evaluate(breeds(), metrics="all")
    assert len(report.definitions) > 20
