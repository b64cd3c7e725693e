"""What is fitted on a cluster is what one machine fits, and is held against rows that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.models.held_out import Holdout, KeyedFolds
from calcli.spark.session import KEY, KEYS
from tests.support.samples import breeds
from tests.support.spark import Driver, assert_near, assert_same_numbers, ordered, parts

pytest.importorskip("pyspark", reason="needs the extra spark")

SUMMED = ("platt", "temperature", "isotonic", "bbq")
"""Of every kind of sums one or two; `test_passes` has all methods, without a cluster."""


@pytest.mark.parametrize("method", SUMMED)
def test_the_artifact_is_that_of_one_machine(days: Path, driver: Driver, tmp_path: Path, method: str) -> None:
    there = tmp_path / "there"
    flags = ("--weight", "w", "--prior-shift", "0.2", "--holdout", "none")
    done = driver.run("fit", days, "-m", method, "-o", there, "--engine", "spark", *flags)
    assert done.stdout == f"{there}\n"
    kept = calcli.load(there)
    here = calcli.fit(
        days, method=method, prior_shift="0.2", holdout="none", flags=calcli.Flags(weight="w"), output=tmp_path / "here"
    ).model
    ours, theirs = here.calibrator.to_state(), kept.calibrator.to_state()
    assert_near(theirs.params, ours.params, rel=1e-9)
    assert theirs.arrays.keys() == ours.arrays.keys()
    for name, array in ours.arrays.items():
        np.testing.assert_allclose(theirs.arrays[name], array, rtol=1e-8, atol=1e-9)
    frame = ordered(days)
    np.testing.assert_allclose(kept.predict(frame), here.predict(frame), rtol=0, atol=1e-10)
    for fact in ("rows", "weight_sum", "label_rate", "before"):
        assert_near(kept.manifest.fit[fact], here.manifest.fit[fact], rel=1e-4)
    assert kept.binding == here.binding
    assert kept.manifest.recipe == here.manifest.recipe


def without(report: dict[str, Any], metric: str) -> dict[str, float]:
    """Take a metric out of a report; its value by score."""
    del report["definitions"][metric]
    report["differences"] = [one for one in report["differences"] if one["metric"] != metric]
    return {score["name"]: score["metrics"].pop(metric)["value"] for score in report["scores"]}


def test_held_out_rows_are_predicted_from_the_others(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Their folds follow from the keys of rows; the numbers are those of the predictions that follow from the folds."""
    found = driver.report("fit", days, "-m", "beta", "--weight", "w", "--seed", "3", "-o", tmp_path / "there")
    driver.begin(keys={"paths": [str(days)], "leaving": ["label", "w"], "seed": 3, "output": str(tmp_path / "keys")})
    driver.answer()
    key = pl.read_parquet(tmp_path / "keys" / "*.parquet").sort("row_id")[KEY].to_numpy()
    fold = KeyedFolds(Holdout("cv", folds=5), KEYS).of(key)
    assert np.bincount(fold).min() > 1000
    frame, weighed = ordered(days), calcli.Flags(weight="w")
    prob = np.zeros(len(frame))
    for index in range(5):
        rest = calcli.fit(frame.filter(fold != index), method="beta", holdout="none", flags=weighed).model
        prob[fold == index] = rest.predict(frame.filter(fold == index))
    flags = calcli.Flags(weight="w")
    frame, auc = frame.with_columns(beta=prob), without(found, "auc")
    metrics = ",".join(found["definitions"])
    assert_same_numbers(found, calcli.evaluate(frame, scores=("beta",), flags=flags, metrics=metrics).to_json())
    # Ranked within each fold, which counts as it has pairs of a positive and a negative row.
    held = [frame.filter(fold == index) for index in range(5)]
    each = [calcli.evaluate(part, scores=("beta",), flags=flags, metrics="auc").value("beta", "auc") for part in held]
    pairs = [np.prod([part.filter(pl.col("label") == label)["w"].sum() for label in (0, 1)]) for part in held]
    assert auc["beta"] == pytest.approx(np.average(each, weights=pairs), abs=1e-4)
    residuals = calcli.load(tmp_path / "there").manifest.fit["residuals"]
    z = np.log(prob / (1 - prob))
    assert residuals["centre"][0] == pytest.approx(np.average(z, weights=frame["w"]), abs=1e-9)
    level = np.average(frame["label"].to_numpy() - prob, weights=frame["w"])
    assert residuals["mean"][0][0] == pytest.approx(level, abs=1e-9)


def test_it_does_not_matter_how_the_rows_are_laid_out(days: Path, driver: Driver, tmp_path: Path) -> None:
    """One file in another order, the days in a column, is the same table."""
    (tmp_path / "flat").mkdir()
    whole = pl.concat([frame.with_columns(day=pl.lit(day)) for day, frame in parts()])
    whole.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "flat" / "all.parquet")
    reports = []
    for place in (days, tmp_path / "flat"):
        kept = str(tmp_path / f"{place.name}.platt")
        driver.run("fit", str(place), "-m", "platt", "-o", kept, "--holdout", "0.25", "--engine", "spark")
        reports.append(calcli.load(kept).manifest)
    one, other = reports
    assert one.fit["holdout"] == other.fit["holdout"]
    assert 1300 < one.fit["holdout"]["rows"] < 1700
    assert_near(dict(other.fit), dict(one.fit), abs=1e-9)
    states = [calcli.load(tmp_path / f"{name}.platt").calibrator.to_state() for name in ("days", "flat")]
    assert_near(states[0].params, states[1].params, rel=1e-9)
    assert states[0].params["rows"] == 6000 - one.fit["holdout"]["rows"]


def test_the_same_again_is_the_same_to_the_last_bit(days: Path, driver: Driver, tmp_path: Path) -> None:
    for name in ("one", "two"):
        words = ("fit", str(days), "-m", "spline", "--weight", "w", "-o", str(tmp_path / name), "--engine", "spark")
        driver.run(*words)
    one, two = (calcli.load(tmp_path / name).manifest for name in ("one", "two"))
    assert one.fit == two.fit
    assert [each.sha256 for each in one.payloads] == [each.sha256 for each in two.payloads]


def test_more_classes(driver: Driver, tmp_path: Path) -> None:
    breeds().with_row_index("row_id").write_parquet(tmp_path / "breeds.parquet")
    table, kept = str(tmp_path / "breeds.parquet"), str(tmp_path / "there")
    driver.run("fit", table, "-m", "platt", "-o", kept, "--engine", "spark")
    here = calcli.fit(table, method="platt", output=tmp_path / "here").model
    np.testing.assert_allclose(calcli.load(kept).predict(table), here.predict(table), rtol=0, atol=1e-10)


def test_bad_rows_fail_by_reason_or_are_left_out(days: Path, driver: Driver, tmp_path: Path) -> None:
    frame = ordered(days).with_columns(logit=pl.when(pl.col("row_id") != 7).then(pl.col("logit")))
    frame.write_parquet(tmp_path / "bad.parquet")
    words = ("fit", str(tmp_path / "bad.parquet"), "-m", "platt", "-o", str(tmp_path / "there"), "--engine", "spark")
    done = driver.run(*words, code=3)
    assert done.stdout == ""
    assert "1 bad row of 6,000: the score is missing" in done.stderr
    driver.run(*words, "--bad-rows", "null")
    here = calcli.fit(frame.filter(pl.col("row_id") != 7), method="platt").model
    assert calcli.load(tmp_path / "there").predict(ordered(days)) == pytest.approx(here.predict(ordered(days)))
