"""What is measured on a cluster is what one machine measures, as far as it adds up."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import calcli
from calcli.metrics.gathered import MANY
from tests.support.samples import breeds
from tests.support.spark import Driver, assert_same_numbers, ordered, write_days

pytest.importorskip("pyspark", reason="needs the extra spark")

SUMMED = "nll,brier,brier_sum,accuracy,auc,ece,rmsce,mce,classwise_ece,mvce"


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_days(tmp_path_factory.mktemp("evaluate") / "days")


def test_the_numbers_are_those_of_one_machine(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    calcli.fit(ordered(days), method="isotonic", output=kept)
    words = ("--with", kept, "--weight", "w", "--metrics", SUMMED, "--format", "json", "--engine", "spark")
    done = driver.run("evaluate", str(days), *words)
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    report = calcli.evaluate(days, artifacts=(kept,), metrics=SUMMED, flags=calcli.Flags(weight="w")).to_json()
    assert_same_numbers(found, report)
    assert found["binding"] == report["binding"]
    assert [score["source"] for score in found["scores"]] == [score["source"] for score in report["scores"]]


def test_bins_of_equal_mass_are_as_near_as_they_say(days: Path, driver: Driver, tmp_path: Path) -> None:
    words = ("--binning", "mass", "--metrics", "ece,classwise_ece", "--rejection", "--format", "json")
    done = driver.run("evaluate", str(days), *words, "--engine", "spark")
    assert done.code == 0, done.stderr
    found = json.loads(done.stdout)
    options = calcli.Options(binning="mass")
    report = calcli.evaluate(days, metrics="ece,classwise_ece", options=options, rejection=True)
    assert found["definitions"]["ece"]["approximation"].startswith("histogram: cut between log-odds 1/4096 apart")
    assert_same_numbers(found, report.to_json())


def test_the_number_of_bins_follows_from_the_number_of_rows(days: Path, driver: Driver) -> None:
    """Rows of weight zero and bad rows do not count."""
    words = ("--weight", "zeroed", "--prob", "holey", "--bad-rows", "null", "--metrics", "ece,classwise_ece")
    table = days.parent / "holey"
    frame = ordered(days).with_columns(zeroed=pl.int_range(pl.len()) % 3, holey=1 / (1 + (-pl.col("logit")).exp()))
    table.mkdir()
    frame.with_columns(pl.when(pl.int_range(pl.len()) % 5 > 0).then("holey")).write_parquet(table / "part.parquet")
    done = driver.run("evaluate", str(table), *words, "--bins", "auto", "--format", "json", "--engine", "spark")
    assert done.code == 0, done.stderr
    flags = calcli.Flags(weight="zeroed", prob="holey")
    options = calcli.Options(bins="auto")
    report = calcli.evaluate(table, metrics="ece,classwise_ece", options=options, flags=flags, bad_rows="null")
    assert_same_numbers(json.loads(done.stdout), report.to_json())


def test_more_classes_and_columns(driver: Driver, tmp_path: Path) -> None:
    table = str(tmp_path / "breeds.parquet")
    breeds().with_columns(pl.lit(0.25).alias(f"flat_{name}") for name in "abcd").write_parquet(table)
    words = ("--score", "flat", "--metrics", "nll,brier,auc,ece", "--format", "json", "--engine", "spark")
    done = driver.run("evaluate", table, *words)
    assert done.code == 0, done.stderr
    report = calcli.evaluate(table, scores=("flat",), metrics="nll,brier,auc,ece").to_json()
    assert_same_numbers(json.loads(done.stdout), report)


def test_clusters_are_those_of_an_artifact(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept")
    calcli.fit(days, method="ccl", output=kept, params={"clusters": 3}, holdout="none")
    words = ("--metrics", "cece,cece_ada", "--format", "json", "--engine", "spark")
    done = driver.run("evaluate", str(days), "--with", kept, *words)
    assert done.code == 0, done.stderr
    report = calcli.evaluate(days, artifacts=(kept,), metrics="cece,cece_ada")
    assert_same_numbers(json.loads(done.stdout), report.to_json())


def test_what_does_not_add_up_is_null_and_gates_see_the_rest(days: Path, driver: Driver) -> None:
    words = ("--metrics", "nll,slope,cece", "--format", "json", "--fail-if", "nll > 0.1", "--engine", "spark")
    done = driver.run("evaluate", str(days), *words)
    assert done.code == 1, done.stderr
    metrics = json.loads(done.stdout)["scores"][0]["metrics"]
    assert metrics["nll"]["value"] is not None
    assert (metrics["slope"]["value"], metrics["slope"]["reason"]) == (None, MANY)
    assert metrics["cece"]["value"] is None


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--by", "age"), 2, "--by needs all rows at once"),
        (("--bootstrap", "100"), 2, "--bootstrap needs all rows at once"),
        (("--clusters-from", "age"), 2, "--clusters-from needs all rows at once"),
        (("--score", "w"), 3, "looks like percentages, not probabilities"),
        (("--label", "w"), 3, "it looks like a regression target or soft labels"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    days: Path, driver: Driver, words: tuple[str, ...], code: int, said: str
) -> None:
    done = driver.run("evaluate", str(days), "--engine", "spark", *words)
    assert done.code == code
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
