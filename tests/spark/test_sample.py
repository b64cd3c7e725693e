"""What needs rows is fitted on a sample of a cluster's, and measured on all others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.models.auto import Evidence
from calcli.models.policy import EVIDENCE
from calcli.spark import sample
from calcli.spark.session import KEY
from calcli.verbs.refit_calibrator import STANDARD_ERRORS
from tests.support.spark import Driver, assert_near, assert_same_numbers, ordered, parts

pytest.importorskip("pyspark", reason="needs the extra spark")

WEIGHED = calcli.Flags(weight="w")
FAST = {"trees": 3, "link": "odds", "lambda": 30}


@pytest.fixture(scope="module")
def keyed(days: Path, driver: Driver, tmp_path_factory: pytest.TempPathFactory) -> pl.DataFrame:
    """The rows in the order of their keys."""
    place = tmp_path_factory.mktemp("keys") / "keys"
    return in_order(days, driver, place, leaving=["label", "w"])


def in_order(days: Path, driver: Driver, place: Path, leaving: list[str]) -> pl.DataFrame:
    driver.begin(keys={"paths": [str(days)], "leaving": leaving, "seed": 0, "output": str(place)})
    driver.answer()
    return ordered(days).join(pl.read_parquet(place / "*.parquet"), on="row_id").sort(KEY, "row_id")


def drawn(keyed: pl.DataFrame, rows: int) -> pl.DataFrame:
    """Of each label its share of so many rows, those of the lowest keys."""
    shares = [
        part.head(round(rows * len(part) / len(keyed))) for part in keyed.partition_by("label", maintain_order=True)
    ]
    return pl.concat(shares).sort(KEY).drop(KEY)


def payloads(place: Path) -> list[str]:
    return [each.sha256 for each in calcli.load(place).manifest.payloads]


def test_effects_are_fitted_on_more_rows_than_others(
    days: Path, session: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sample, "MOST_ROWS", 2000)
    for method, sampled in (("effects", None), ("recal", 2000)):
        place = tmp_path / method
        calcli.fit(days, method=method, engine="spark", output=place, params={"pairs": 0} if sampled is None else {})
        found = calcli.load(place).manifest.fit.get("sample")
        assert (found and found["rows"]) == sampled


def test_a_table_that_is_no_larger_comes_whole(days: Path, driver: Driver, keyed: pl.DataFrame, tmp_path: Path) -> None:
    """The same bytes as from its rows in the order of their keys, features and folds too."""
    settings = [word for item in FAST.items() for word in ("--set", "{}={}".format(*item))]
    words = ("-m", "mbct", *settings, "--weight", "w", "--guard", "nll")
    found = driver.report("fit", days, *words, "-o", tmp_path / "there")
    rows = keyed.drop(KEY)
    here = calcli.fit(rows, method="mbct", params=FAST, flags=WEIGHED, guard="nll", output=tmp_path / "here")
    assert payloads(tmp_path / "there") == payloads(tmp_path / "here")
    assert here.report is not None
    expected = here.report.to_json()
    for fact in ("scores", "differences", "curves", "data", "warnings"):
        if fact == "scores":
            for score in (*found[fact], *expected[fact]):
                score["seconds"] = None
        assert_near(found[fact], expected[fact], rel=1e-12)


def test_a_sample_is_fitted_and_measured_on_all_other_rows(
    days: Path, driver: Driver, keyed: pl.DataFrame, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    words = ("-m", "heterogeneous", "--weight", "w", "--sample", "2000")
    found = driver.report("fit", days, *words, "-o", there)
    rows = drawn(keyed, 2000)
    here = calcli.fit(rows, method="heterogeneous", holdout="none", flags=WEIGHED, output=tmp_path / "here").model
    assert payloads(there) == payloads(tmp_path / "here")
    others = ordered(days).join(rows, on="row_id", how="anti").sort("row_id")
    assert len(others) == 4000
    measured = others.with_columns(heterogeneous=here.predict(others))
    metrics = ",".join(name for name in found["definitions"] if name != "auc")
    report = calcli.evaluate(measured, scores=("heterogeneous",), flags=WEIGHED, metrics=metrics).to_json()
    # The table is the whole one; its other numbers are those of the other rows.
    assert (found["data"]["rows"], report["data"]["rows"]) == (6000, 4000)
    found["data"] = report["data"]
    for score in found["scores"]:
        del score["metrics"]["auc"]
    found["differences"] = [one for one in found["differences"] if one["metric"] != "auc"]
    assert_same_numbers(found, report)
    manifest = calcli.load(there).manifest
    assert manifest.fit["sample"] == {"rows": 2000, "of": 6000, "by": "label"}
    assert manifest.fit["rows"] == 2000
    assert manifest.fit["holdout"] == {"scheme": "others", "rows": 4000, "refit_on_all": True}
    assert manifest.fit["label_rate"] == pytest.approx(np.average(keyed["label"], weights=keyed["w"]), abs=1e-3)
    assert [one["message"] for one in found["warnings"] if one["code"] == "sample"] == [
        "fitted on a sample of 2,000 of 6,000 rows, drawn at random by 'label'"
    ]


def test_units_are_drawn_whole(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Their intervals count units, as on one machine."""
    words = ("-m", "platt", "--sample", "3000", "--resample-by", "age", "--metrics", "nll")
    found = driver.report("fit", days, *words, "-o", tmp_path / "there")
    leaving = [name for name in ordered(days).columns if name != "age"]
    keyed = in_order(days, driver, tmp_path / "keys", leaving)
    sample = calcli.load(tmp_path / "there").manifest.fit["sample"]
    rows = keyed.filter(pl.col(KEY) < keyed[KEY][3000])
    assert sample == {"rows": len(rows), "of": 6000, "by": "age"}
    assert not set(rows["age"]) & set(keyed.filter(pl.col(KEY) >= keyed[KEY][3000])["age"])
    here = calcli.fit(rows.drop(KEY), method="platt", holdout="none").model
    others = keyed.filter(pl.col(KEY) >= keyed[KEY][3000]).drop(KEY).with_columns(p=pl.lit(0.0))
    others = others.with_columns(p=here.predict(others))
    report = calcli.evaluate(others, scores=("p",), metrics="nll", resample_by="age")
    difference, expected = found["differences"][0], report.differences[0]
    for end in ("value", "lo", "hi"):
        assert difference[end] == pytest.approx(getattr(expected, end), rel=1e-9)


def test_the_layout_of_the_rows_does_not_matter(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Nor that rows are copies of each other: each counts by itself."""
    columns = ["label", "logit", "day"]
    whole = pl.concat([frame.with_columns(day=pl.lit(day)) for day, frame in parts()]).select(columns)
    whole = whole.with_columns(pl.col("logit").round(0))
    (tmp_path / "many").mkdir()
    for place, part in enumerate(whole.iter_slices(900)):
        part.write_parquet(tmp_path / "many" / f"{place}.parquet")
    whole.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "one.parquet")
    reports = []
    for name in ("many", "one.parquet"):
        words = ("-m", "histogram", "--sample", "1500")
        reports.append(driver.report("fit", tmp_path / name, *words, "-o", tmp_path / f"{name}.kept"))
    assert payloads(tmp_path / "many.kept") == payloads(tmp_path / "one.parquet.kept")
    assert_near(reports[0]["differences"], reports[1]["differences"], abs=1e-12)
    manifest = calcli.load(tmp_path / "many.kept").manifest
    assert manifest.fit["sample"]["rows"] == 1500


def test_auto_is_the_default(days: Path, driver: Driver, tmp_path: Path) -> None:
    found = driver.report("fit", days, "--sample", "1500", "-o", tmp_path / "there")
    kept = calcli.load(tmp_path / "there")
    assert found["chosen"] == kept.method != "identity"
    assert kept.manifest.recipe["method"] == "auto"
    assert kept.manifest.fit["holdout"]["rows"] == 4500
    assert kept.manifest.fit["difference"]["nll"]["hi"] < 0


def test_methods_are_compared_on_the_rows_outside_the_sample(
    days: Path, driver: Driver, keyed: pl.DataFrame, tmp_path: Path
) -> None:
    words = ("--methods", "platt,isotonic", "--weight", "w", "--sample", "2000", "--metrics", "nll,brier")
    found = driver.report("compare", days, *words)
    rows = drawn(keyed, 2000)
    choice = calcli.compare(rows, methods="platt,isotonic", flags=WEIGHED, metrics="nll,brier").choice
    assert found["chosen"] == choice.name
    names = ("platt", "isotonic")
    fits = {name: calcli.fit(rows, method=name, holdout="none", flags=WEIGHED).model for name in names}
    others = ordered(days).join(rows, on="row_id", how="anti").sort("row_id")
    others = others.with_columns(**{name: model.predict(others) for name, model in fits.items()})
    report = calcli.evaluate(others, scores=names, flags=WEIGHED, metrics="nll,brier")
    for metric in ("nll", "brier"):
        values = {score["name"]: score["metrics"][metric]["value"] for score in found["scores"]}
        assert values.keys() == {"identity", *names}
        assert values["identity"] == pytest.approx(report.value("raw", metric), rel=1e-12)
        for name in names:
            assert values[name] == pytest.approx(report.value(name, metric), rel=1e-12)
    expected = {(one.score, one.metric): one for one in report.differences}
    compared = [one for one in found["differences"] if one["versus"] == "identity"]
    assert len(compared) == len(expected)
    for one in compared:
        assert one["hi"] == pytest.approx(expected[one["score"], one["metric"]].hi, rel=1e-9)
    versus = {one["versus"] for one in found["differences"]}
    assert versus == {"identity", choice.name}


@pytest.mark.parametrize("by", [None, "age"])
def test_a_refit_is_judged_on_the_rows_outside_the_sample(
    days: Path, driver: Driver, tmp_path: Path, by: str | None
) -> None:
    """By their likelihood, in which rows of a unit count as one."""
    place = tmp_path / "kept"
    frame = ordered(days)
    worse = frame.with_columns(pl.col("logit") + 0.2)
    calcli.fit(worse, method="platt", resample_by=by, output=place)
    old = calcli.load(place)
    words = ("refit", place, days, "--sample", "3000", "--format", "json", "--engine", "spark")
    driver.begin(words=[*map(str, words)])
    done = driver.answer()
    found = json.loads(done["stdout"])
    assert done["code"] == (not found["refit"]["replaced"])
    leaving = ["label"] if by is None else [name for name in frame.columns if name != by]
    keyed = in_order(days, driver, tmp_path / "keys", leaving)
    rows = drawn(keyed, 3000) if by is None else keyed.filter(pl.col(KEY) < keyed[KEY][3000]).drop(KEY)
    new = calcli.fit(rows, method="platt", holdout="none").model
    others = frame.join(rows, on="row_id", how="anti")
    label = others["label"].to_numpy()
    gain = np.log(np.where(label == 1, new.predict(others), 1 - new.predict(others)))
    gain -= np.log(np.where(label == 1, old.predict(others), 1 - old.predict(others)))
    assert found["refit"]["evidence"] == pytest.approx(gain.sum(), rel=1e-9)
    units = None if by is None else others[by].to_numpy().astype(np.int64)
    evidence = Evidence.of(gain, None, units)
    expected = max(EVIDENCE * evidence.effect, STANDARD_ERRORS * evidence.error)
    assert found["refit"]["threshold"] == pytest.approx(expected, rel=1e-9)
    replaced = gain.sum() >= expected
    assert found["refit"]["replaced"] == replaced
    manifest = calcli.load(place).manifest
    assert ("sample" in manifest.fit) == replaced
    assert {one["versus"] for one in found["differences"]} == {"raw", "in place"}
