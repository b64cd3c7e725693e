"""What is calibrated on a cluster is what one machine calibrates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from tests.support.samples import breeds, clicks
from tests.support.spark import DAYS, Driver, ordered

pytest.importorskip("pyspark", reason="needs the extra spark")


def applied(driver: Driver, table: Path, place: Path, *words: str, **asked: Any) -> tuple[Path, Path]:
    """The outputs of `kept` in this folder for a table, on one machine and on the cluster."""
    calcli.apply(place / "kept", table, place / "here.parquet", **asked)
    driver.run("apply", place / "kept", table, "-o", place / "there", *words, "--engine", "spark")
    return place / "here.parquet", place / "there"


def test_apply_gives_what_one_machine_gives(days: Path, driver: Driver, tmp_path: Path) -> None:
    """Further columns too, which come by way of Python; `test_formula` has the columns without."""
    kept, here, there = (tmp_path / name for name in ("kept", "here.parquet", "there"))
    calcli.fit(days, method="venn-abers", output=kept)
    calcli.apply(kept, days, here, extra=True)
    done = driver.run("apply", kept, days, "-o", there, "--extra", "--engine", "spark")
    assert "6,000 rows" in done.stderr
    assert ordered(there).equals(ordered(here))
    assert sorted(path.name for path in there.iterdir() if path.is_dir()) == [f"day={day}" for day in DAYS]


def test_a_number_that_only_ranks_has_its_curve_there_too(days: Path, driver: Driver, tmp_path: Path) -> None:
    calcli.fit(days, method="isotonic", rank="logit", features=(), output=tmp_path / "kept")
    here, there = applied(driver, days, tmp_path)
    assert ordered(there).equals(ordered(here))


def test_more_classes_and_chosen_columns(driver: Driver, tmp_path: Path) -> None:
    table = tmp_path / "breeds.parquet"
    breeds().with_row_index("a.b").write_parquet(table)
    calcli.fit(table, method="sms", output=tmp_path / "kept")
    here, there = applied(driver, table, tmp_path, "--keep", "a.b", keep=("a.b",))
    one, other = pl.read_parquet(here), pl.read_parquet(there / "*.parquet").sort("a.b")
    assert other.columns == one.columns
    np.testing.assert_allclose(other.to_numpy(), one.to_numpy(), rtol=0, atol=1e-12)


def test_each_row_joins_the_calibration_rows_wherever_it_is(days: Path, driver: Driver, tmp_path: Path) -> None:
    params = {"relation": "knn:age", "margin": "0", "epochs": "50"}
    calcli.fit(days, method="recal", params=params, output=tmp_path / "kept")
    names = ["calibrated", "calibrated__temperature"]
    one, other = (ordered(path).select(names) for path in applied(driver, days, tmp_path, "--extra", extra=True))
    assert one["calibrated__temperature"].n_unique() > 1000
    np.testing.assert_allclose(other.to_numpy(), one.to_numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "asked",
    [{"cost_fp": 1.0, "cost_fn": 3.0, "abstain": 0.5}, {"sets": 0.9}, {"target": "fpr <= 0.2", "by": "day"}],
    ids=["thresholds", "sets", "groups"],
)
def test_policies_decide_there_as_here(asked: dict[str, Any], days: Path, driver: Driver, tmp_path: Path) -> None:
    calcli.decide(days, output=tmp_path / "kept", **asked)
    here, there = applied(driver, days, tmp_path)
    assert ordered(there).equals(ordered(here))


def test_intervals_there(driver: Driver, tmp_path: Path) -> None:
    table, mean = tmp_path / "t.parquet", np.linspace(-1, 1, 300)
    truth = mean + np.random.default_rng(0).normal(size=300)
    pl.DataFrame({"target": truth, "mean": mean, "row": range(300)}).write_parquet(table)
    flags = calcli.Flags(label="target")
    calcli.decide(table, output=tmp_path / "kept", intervals=0.8, prediction="mean", flags=flags)
    here, there = applied(driver, table, tmp_path)
    assert pl.read_parquet(there / "*.parquet").sort("row").equals(pl.read_parquet(here))


def test_bad_rows_fail_by_name_or_are_null(days: Path, driver: Driver, tmp_path: Path) -> None:
    kept, table, nulls = tmp_path / "kept", tmp_path / "bad.parquet", tmp_path / "nulls"
    calcli.fit(days, method="platt", output=kept)
    bad = clicks(100).with_columns(logit=pl.when(pl.col("row_id") != 7).then(pl.col("logit")), day=pl.lit("x"))
    bad.write_parquet(table)
    done = driver.run("apply", kept, table, "-o", tmp_path / "there", "--engine", "spark", code=3)
    assert done.stdout == ""
    assert "some rows cannot be used" in done.said
    words = ("apply", kept, table, "-o", nulls, "--bad-rows", "null", "--engine", "spark")
    driver.run(*words)
    assert ordered(nulls).filter(pl.col("calibrated").is_null())["row_id"].to_list() == [7]
    assert "nulls exists already" in driver.run(*words, code=7).said


def test_a_path_into_a_nested_column_is_refused(driver: Driver, tmp_path: Path) -> None:
    table, kept = tmp_path / "nested.parquet", tmp_path / "kept"
    clicks().select(pl.struct("logit").alias("out"), "label").write_parquet(table)
    calcli.fit(table, method="platt", flags=calcli.Flags(logit="out.logit"), output=kept)
    for words in (
        ("fit", table, "-m", "platt", "--logit", "out.logit", "-o", tmp_path / "none"),
        ("apply", kept, table, "-o", tmp_path / "there"),
    ):
        done = driver.run(*words, "--engine", "spark", code=2)
        assert done.stderr.count("\n") == 1
        assert "'out.logit' is no column of its own, and --engine spark reads no others" in done.stderr
