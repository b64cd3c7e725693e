"""What is measured on a cluster is what one machine measures, as far as it adds up."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path

import polars as pl
import pytest

import calcli
from calcli.metrics.gathered import MANY
from calcli.verbs.drift_log import LEARNED
from tests.support.drift import learned
from tests.support.samples import breeds, clicks, tablets
from tests.support.spark import Driver, assert_near, assert_same_numbers, ordered

pytest.importorskip("pyspark", reason="needs the extra spark")

SUMMED = "nll,brier,brier_sum,accuracy,auc,ece,rmsce,mce,classwise_ece,mvce"


def test_the_numbers_are_those_of_one_machine(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    calcli.fit(ordered(days), method="isotonic", output=kept)
    found = driver.report("evaluate", days, "--with", kept, "--weight", "w", "--metrics", SUMMED)
    report = calcli.evaluate(days, artifacts=(kept,), metrics=SUMMED, flags=calcli.Flags(weight="w")).to_json()
    assert_same_numbers(found, report)
    assert found["binding"] == report["binding"]
    assert [score["source"] for score in found["scores"]] == [score["source"] for score in report["scores"]]


def test_bins_of_equal_mass_are_as_near_as_they_say(days: Path, driver: Driver) -> None:
    metrics = "ece,classwise_ece"
    found = driver.report("evaluate", days, "--binning", "mass", "--metrics", metrics, "--rejection")
    report = calcli.evaluate(days, metrics=metrics, options=calcli.Options(binning="mass"), rejection=True)
    assert found["definitions"]["ece"]["approximation"].startswith("histogram: cut between log-odds 1/4096 apart")
    assert_same_numbers(found, report.to_json())


def test_the_number_of_bins_follows_from_the_number_of_rows(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Rows of weight zero and bad rows do not count."""
    table, metrics = tmp_path / "holey", "ece,classwise_ece"
    frame = ordered(days).with_columns(zeroed=pl.int_range(pl.len()) % 3, holey=1 / (1 + (-pl.col("logit")).exp()))
    table.mkdir()
    frame.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then("holey")).write_parquet(table / "part.parquet")
    words = ("--weight", "zeroed", "--prob", "holey", "--bad-rows", "null", "--metrics", metrics, "--bins", "auto")
    found = driver.report("evaluate", table, *words)
    flags, options = calcli.Flags(weight="zeroed", prob="holey"), calcli.Options(bins="auto")
    report = calcli.evaluate(table, metrics=metrics, options=options, flags=flags, bad_rows="null")
    assert_same_numbers(found, report.to_json())


def test_segments_are_those_of_a_sample(driver: Driver, tmp_path: Path) -> None:
    """Of a small table all rows are drawn, in another order, so that other ones are fresh; ignored columns are none."""
    table = tmp_path / "visits.parquet"
    tablets(8_000).with_columns(paid=pl.col("label")).write_parquet(table)
    words = ("--score", "mended", "--resample-by", "user_id", "--bins", "auto", "--metrics", "nll", "--ignore", "paid")
    found = driver.report("evaluate", table, *words, "--find-segments", "3", "--fail-if", "segments.gap > 0.1")
    raw, mended = found["segment_search"]
    assert (raw["rows"], raw["found"], mended["found"]) == (8_000, 1, 0)
    (segment,) = found["segments"]
    assert "device = tablet" in segment["text"]
    assert segment["gap"] < -0.1
    assert segment["others"][0]["score"] == "mended"
    assert found["gates"][0]["passed"]


def test_more_classes_and_columns(driver: Driver, tmp_path: Path) -> None:
    table, metrics = tmp_path / "breeds.parquet", "nll,brier,auc,ece"
    breeds().with_columns(pl.lit(0.25).alias(f"flat_{name}") for name in "abcd").write_parquet(table)
    found = driver.report("evaluate", table, "--score", "flat", "--metrics", metrics)
    assert_same_numbers(found, calcli.evaluate(table, scores=("flat",), metrics=metrics).to_json())


def test_clusters_are_those_of_an_artifact_or_a_column(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, metrics = str(tmp_path / "kept"), "cece,cece_ada"
    calcli.fit(days, method="ccl", output=kept, params={"clusters": 3}, holdout="none")
    for words, given in (
        (("--with", kept), {"artifacts": (kept,)}),
        (("--clusters-from", "age"), {"clusters_from": "age"}),
    ):
        found = driver.report("evaluate", days, *words, "--metrics", metrics)
        assert_same_numbers(found, calcli.evaluate(days, metrics=metrics, **given).to_json())


def test_what_does_not_add_up_is_null_and_gates_see_the_rest(days: Path, driver: Driver) -> None:
    found = driver.report("evaluate", days, "--metrics", "nll,slope,cece", "--fail-if", "nll > 0.1", code=1)
    metrics = found["scores"][0]["metrics"]
    assert metrics["nll"]["value"] is not None
    assert (metrics["slope"]["value"], metrics["slope"]["reason"]) == (None, MANY)
    assert metrics["cece"]["value"] is None


def test_groups_are_those_of_one_machine(days: Path, driver: Driver) -> None:
    """The test of a group sees narrow cells of the probability, so that its p-value is near that of the rows."""
    summed = SUMMED.removesuffix(",mvce")  # where labels are few, one machine samples it
    found = driver.report("evaluate", days, "--weight", "w", "--by", "age,day", "--metrics", summed)["groups"]
    flags = calcli.Flags(weight="w")
    texts = ordered(days).cast({"age": pl.String})  # here so many numbers would be put into bins
    expected = calcli.evaluate(texts, by=("age", "day"), metrics=summed, flags=flags).to_json()["groups"]
    assert len(expected) > 3
    found, expected = (sorted(one, key=itemgetter("by", "group", "score")) for one in (found, expected))
    for theirs, ours in zip(found, expected, strict=True):
        for key in ("by", "group", "rows", "score"):
            assert theirs[key] == ours[key]
        for name, value in ours["metrics"].items():
            near = 1e-3 if name == "auc" else 1e-9
            assert theirs["metrics"][name]["value"] == pytest.approx(value["value"], abs=near)
        assert theirs["detectable"] == pytest.approx(ours["detectable"], rel=1e-3)
        assert theirs["p"] == pytest.approx(ours["p"], rel=0.05)
        assert (theirs["p_adjusted"] is None) == (ours["p_adjusted"] is None)


def test_differences_from_another_score_and_by_unit(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, other = str(tmp_path / "kept"), str(tmp_path / "other")
    calcli.fit(ordered(days), method="isotonic", output=kept)
    calcli.fit(ordered(days), method="platt", output=other)
    words = ("--with", kept, "--with", other, "--versus", "other", "--metrics", "nll,brier")
    known = {"artifacts": (kept, other), "versus": "other", "metrics": "nll,brier"}
    for more, given in (((), {}), (("--resample-by", "age"), {"resample_by": "age"})):
        found, report = (
            driver.report("evaluate", days, *words, *more),
            calcli.evaluate(days, **known, **given).to_json(),
        )
        assert len(report["differences"]) == 8
        assert_near(found["differences"], report["differences"], abs=1e-9)
        assert found["data"]["units"] == report["data"]["units"]


def test_the_bootstrap_is_as_wide_as_that_of_one_machine(days: Path, driver: Driver, tmp_path: Path) -> None:
    """However the rows lie: rows that agree in all columns are drawn apart, those of a unit together."""
    kept, table = str(tmp_path / "kept"), tmp_path / "narrow"
    calcli.fit(ordered(days), method="platt", output=kept)
    table.mkdir()
    rows = ordered(days).select(pl.col("logit").round(0), "label", unit=pl.col("row_id") % 50)
    for place, part in enumerate(rows.iter_slices(1500)):
        part.write_parquet(table / f"{place}.parquet")
    words = ("evaluate", table, "--with", kept, "--metrics", "nll,brier", "--bootstrap", "1000")
    for more, given in (((), {}), (("--resample-by", "unit"), {"resample_by": "unit"})):
        found = driver.report(*words, *more)
        report = calcli.evaluate(table, artifacts=(kept,), metrics="nll,brier", bootstrap=1000, **given).to_json()
        assert driver.report(*words, *more) == found
        pairs = zip([*found["scores"], *found["differences"]], [*report["scores"], *report["differences"]], strict=True)
        for theirs, ours in pairs:
            alike = [(theirs, ours)]
            if "metrics" in ours:
                alike = [(theirs["metrics"][name], ours["metrics"][name]) for name in ("nll", "brier")]
            for one, other in alike:
                width = other["hi"] - other["lo"]
                assert one["value"] == pytest.approx(other["value"], rel=1e-9)
                assert one["lo"] == pytest.approx(other["lo"], abs=width / 6)
                assert one["hi"] == pytest.approx(other["hi"], abs=width / 6)


def test_drift_is_found_as_on_one_machine(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Night after night, each by its own files; those that were tested before are not counted again."""
    kept, nights = str(tmp_path / "kept"), tmp_path / "nights"
    calcli.fit(ordered(days), method="platt", output=kept)
    nights.mkdir()
    here, there = tmp_path / "here.json", tmp_path / "there.json"
    for night in range(4):
        rows = clicks(1500, seed=night + 70).with_columns(logit=pl.col("logit") + 1.5 * night)
        rows.write_parquet(nights / f"{night}.parquet")
        report = calcli.evaluate(nights, drift=kept, state=here, metrics="nll").to_json()["drift"]
        words, code = ("--drift", kept, "--state", there, "--metrics", "nll"), int(report["drifted"])
        for _ in range(2):  # nothing is new the second time
            found = driver.report("evaluate", nights, *words, code=code)["drift"]
        assert_near(found | {"state": "", "since_at": ""}, report | {"state": "", "since_at": ""}, rel=1e-9)
        if night == 0:
            learned(here)
            learned(there)
    assert report["drifted"]
    logs = [json.loads(path.read_text())["nights"] for path in (here, there)]
    assert [[night["rows"], len(night["sha256"])] for night in logs[1]] == [[1500, 1]] * (LEARNED + 3)
    for one, other in zip(*logs, strict=True):
        assert_near(other["mean"], one["mean"], rel=1e-9)
