"""What is calibrated on a cluster is what one machine calibrates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from tests.support.samples import breeds, clicks
from tests.support.spark import DAYS, Driver, ordered, write_days

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.fixture
def days(tmp_path: Path) -> Path:
    return write_days(tmp_path / "days")


def test_apply_gives_what_one_machine_gives(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Further columns too, which come by way of Python; `test_formula` has the columns without."""
    kept, here, there = (tmp_path / name for name in ("kept", "here.parquet", "there"))
    calcli.fit(days, method="venn-abers", output=kept)
    calcli.apply(kept, days, here, extra=True)
    done = driver.run("apply", str(kept), str(days), "-o", str(there), "--extra", "--engine", "spark")
    assert done.code == 0, done.stderr
    assert "6,000 rows" in done.stderr
    assert ordered(there).equals(ordered(here))
    assert sorted(path.name for path in there.iterdir() if path.is_dir()) == [f"day={day}" for day in DAYS]


def test_more_classes_and_chosen_columns(driver: Driver, tmp_path: Path) -> None:
    table, kept, here, there = (str(tmp_path / name) for name in ("breeds.parquet", "kept", "here.parquet", "there"))
    breeds().with_row_index("a.b").write_parquet(table)
    calcli.fit(table, method="sms", output=kept)
    calcli.apply(kept, table, here, keep=("a.b",))
    done = driver.run("apply", kept, table, "-o", there, "--keep", "a.b", "--engine", "spark")
    assert done.code == 0, done.stderr
    one, other = pl.read_parquet(here), pl.read_parquet(f"{there}/*.parquet").sort("a.b")
    assert other.columns == one.columns
    np.testing.assert_allclose(other.to_numpy(), one.to_numpy(), rtol=0, atol=1e-12)


def test_each_row_joins_the_calibration_rows_wherever_it_is(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, here, there = (tmp_path / name for name in ("kept", "here.parquet", "there"))
    params = {"relation": "knn:age", "margin": "0", "epochs": "50"}
    calcli.fit(days, method="recal", params=params, output=kept)
    calcli.apply(kept, days, here, extra=True)
    done = driver.run("apply", str(kept), str(days), "-o", str(there), "--extra", "--engine", "spark")
    assert done.code == 0, done.stderr
    names = ["calibrated", "calibrated__temperature"]
    one, other = ordered(here).select(names), ordered(there).select(names)
    assert one["calibrated__temperature"].n_unique() > 1000
    np.testing.assert_allclose(other.to_numpy(), one.to_numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "asked", [{"cost_fp": 1.0, "cost_fn": 3.0, "abstain": 0.5}, {"sets": 0.9}], ids=["thresholds", "sets"]
)
def test_policies_decide_there_as_here(asked: dict[str, Any], days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, here, there = (tmp_path / name for name in ("kept", "here.parquet", "there"))
    calcli.decide(days, output=kept, **asked)
    calcli.apply(kept, days, here)
    done = driver.run("apply", str(kept), str(days), "-o", str(there), "--engine", "spark")
    assert done.code == 0, done.stderr
    assert ordered(there).equals(ordered(here))


def test_intervals_there(driver: Driver, tmp_path: Path) -> None:
    table, kept, here, there = (str(tmp_path / name) for name in ("t.parquet", "kept", "here.parquet", "there"))
    mean = np.linspace(-1, 1, 300)
    truth = mean + np.random.default_rng(0).normal(size=300)
    pl.DataFrame({"target": truth, "mean": mean, "row": range(300)}).write_parquet(table)
    calcli.decide(table, output=kept, intervals=0.8, prediction="mean", flags=calcli.Flags(label="target"))
    calcli.apply(kept, table, here)
    done = driver.run("apply", kept, table, "-o", there, "--engine", "spark")
    assert done.code == 0, done.stderr
    assert pl.read_parquet(f"{there}/*.parquet").sort("row").equals(pl.read_parquet(here))


def test_bad_rows_fail_by_name_or_are_null(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, table, nulls = (str(tmp_path / name) for name in ("kept", "bad.parquet", "nulls"))
    calcli.fit(days, method="platt", output=kept)
    bad = clicks(100).with_columns(logit=pl.when(pl.col("row_id") != 7).then(pl.col("logit")), day=pl.lit("x"))
    bad.write_parquet(table)
    done = driver.run("apply", kept, table, "-o", str(tmp_path / "there"), "--engine", "spark")
    assert (done.code, done.stdout) == (3, "")
    assert "some rows cannot be used" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr
    words = ("apply", kept, table, "-o", nulls, "--bad-rows", "null", "--engine", "spark")
    done = driver.run(*words)
    assert done.code == 0, done.stderr
    found = ordered(Path(nulls))
    assert found.filter(pl.col("calibrated").is_null())["row_id"].to_list() == [7]
    done = driver.run(*words)
    assert done.code == 7
    assert "nulls exists already" in done.stderr.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("apply", "kept", "nowhere", "-o", "x", "--engine", "spark"), 3, "Spark finds nothing at"),
        (("apply", "kept", "-", "-o", "x", "--engine", "spark"), 2, "reads directories and files of Parquet"),
        (
            ("apply", "kept", "days", "-o", "-", "--output-format", "csv", "--engine", "spark"),
            2,
            "reads and writes Par",
        ),
        (("apply", "kept", "days", "-o", "-", "--output-format", "parquet", "--engine", "spark"), 2, "-o DIR"),
        (("apply", "kept", "days", "-o", "x", "--master", "spark://h:1"), 2, "add --engine spark"),
        (("fit", "days", "-o", "x", "--master", "spark://h:1"), 2, "add --engine spark"),
        (("evaluate", "days", "--master", "spark://h:1"), 2, "add --engine spark"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    days: Path, driver: Driver, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    calcli.fit(days, method="platt", output=tmp_path / "kept")
    places = {name: str(tmp_path / name) for name in ("kept", "days", "nowhere", "x")}
    done = driver.run(*(places.get(word, word) for word in words))
    assert done.code == code
    assert said in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_a_path_into_a_nested_column_is_refused(driver: Driver, tmp_path: Path) -> None:
    table, kept = str(tmp_path / "nested.parquet"), str(tmp_path / "kept")
    clicks().select(pl.struct("logit").alias("out"), "label").write_parquet(table)
    words = ("--engine", "spark", "-m", "platt", "--logit", "out.logit", "-o", str(tmp_path / "none"))
    refused = driver.run("fit", table, *words)
    calcli.fit(table, method="platt", flags=calcli.Flags(logit="out.logit"), output=kept)
    applied = driver.run("apply", kept, table, "-o", str(tmp_path / "there"), "--engine", "spark")
    for done in (refused, applied):
        assert (done.code, done.stderr.count("\n")) == (2, 1), done.stderr
        assert "'out.logit' is no column of its own, and --engine spark reads no others" in done.stderr
