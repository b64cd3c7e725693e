"""What runs on a cluster gives what one machine gives, whatever happens to a worker."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from tests.shell import ROOT
from tests.spark.conftest import Cluster
from tests.verbs.conftest import breeds, clicks

pytest.importorskip("pyspark", reason="needs the extra calcli[spark]")

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


@pytest.fixture
def days(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of days, two files each."""
    monkeypatch.chdir(tmp_path)
    for place, day in enumerate(DAYS):
        folder = tmp_path / "days" / f"day={day}"
        folder.mkdir(parents=True)
        for part in range(2):
            frame = clicks(1000, seed=2 * place + part).with_columns(
                row_id=pl.col("row_id") + 1000 * (2 * place + part)
            )
            frame.write_parquet(folder / f"{part}.parquet")
    return tmp_path


def run(*arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """In a process of its own, as a user runs it: a Java process stays with the first session that started it."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "calcli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=seconds)


def ordered(path: str) -> pl.DataFrame:
    """What was written, in an order of its own; the days as texts."""
    found = pl.read_parquet(f"{path}/**/*.parquet" if Path(path).is_dir() else path, hive_partitioning=True)
    found = found.with_columns(pl.col("day").cast(pl.String))
    return found.select(sorted(found.columns)).sort("row_id")


@pytest.mark.parametrize("method", ["platt", "venn-abers", "histogram"])
def test_apply_gives_what_one_machine_gives(days: Path, cluster: Cluster, method: str) -> None:
    calcli.fit("days", method=method, output="kept")
    calcli.apply("kept", "days", "here.parquet", extra=True)
    done = run("apply", "kept", "days", "-o", "there", "--extra", "--engine", "spark", "--master", cluster.url)
    assert done.returncode == 0, done.stderr
    assert "6,000 rows" in done.stderr
    assert ordered("there").equals(ordered("here.parquet"))
    assert sorted(path.name for path in Path("there").iterdir() if path.is_dir()) == [f"day={day}" for day in DAYS]


def test_more_classes_and_chosen_columns(days: Path, cluster: Cluster) -> None:
    breeds().with_row_index("row_id").write_parquet("breeds.parquet")
    calcli.fit("breeds.parquet", method="sms", output="kept")
    calcli.apply("kept", "breeds.parquet", "here.parquet", keep=("row_id",))
    arguments = ("breeds.parquet", "-o", "there", "--keep", "row_id", "--engine", "spark", "--master", cluster.url)
    done = run("apply", "kept", *arguments)
    assert done.returncode == 0, done.stderr
    here, there = pl.read_parquet("here.parquet"), pl.read_parquet("there/*.parquet").sort("row_id")
    assert there.columns == here.columns
    np.testing.assert_allclose(there.to_numpy(), here.to_numpy(), rtol=0, atol=1e-12)


def test_each_row_joins_the_calibration_rows_wherever_it_is(days: Path, cluster: Cluster) -> None:
    params = {"relation": "knn:age", "margin": "0", "epochs": "50"}
    calcli.fit("days", method="recal", params=params, output="kept")
    calcli.apply("kept", "days", "here.parquet", extra=True)
    done = run("apply", "kept", "days", "-o", "there", "--extra", "--engine", "spark", "--master", cluster.url)
    assert done.returncode == 0, done.stderr
    names = ["calibrated", "calibrated__temperature"]
    here, there = ordered("here.parquet").select(names), ordered("there").select(names)
    assert here["calibrated__temperature"].n_unique() > 1000
    np.testing.assert_allclose(there.to_numpy(), here.to_numpy(), rtol=0, atol=1e-12)


def test_bad_rows_fail_by_name_or_are_null(days: Path, cluster: Cluster) -> None:
    calcli.fit("days", method="platt", output="kept")
    bad = clicks(100).with_columns(logit=pl.when(pl.col("row_id") != 7).then(pl.col("logit")), day=pl.lit("x"))
    bad.write_parquet("bad.parquet")
    on_spark = ("--engine", "spark", "--master", cluster.url)
    done = run("apply", "kept", "bad.parquet", "-o", "there", *on_spark)
    assert (done.returncode, done.stdout) == (3, "")
    assert "there are rows that cannot be calibrated" in done.stderr
    assert "Traceback" not in done.stderr
    done = run("apply", "kept", "bad.parquet", "-o", "nulls", "--bad-rows", "null", *on_spark)
    assert done.returncode == 0, done.stderr
    found = ordered("nulls")
    assert found.filter(pl.col("calibrated").is_null())["row_id"].to_list() == [7]
    done = run("apply", "kept", "bad.parquet", "-o", "nulls", "--bad-rows", "null", *on_spark)
    assert done.returncode == 7
    assert "nulls exists already" in done.stderr


def test_a_lost_worker_loses_no_row(days: Path, cluster: Cluster) -> None:
    """Killed while rows are being calibrated; a slow calibrator, so that there is a while."""
    calcli.fit("days", method="platt", output="kept")
    many = pl.concat([clicks(20_000, seed=seed).with_columns(day=pl.lit(str(seed))) for seed in range(40)])
    many = many.with_columns(row_id=pl.int_range(pl.len()))
    Path("many").mkdir()
    for place, part in enumerate(many.iter_slices(20_000)):
        part.write_parquet(f"many/{place}.parquet")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, "-m", "calcli", "apply", "kept", "many", "-o", "there", "--engine", "spark"]
    process = subprocess.Popen([*command, "--master", cluster.url], env=env, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while not list(Path("there").glob("_temporary/**/*.parquet")):
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until
        time.sleep(0.02)
    cluster.kill_worker()
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    found = pl.read_parquet("there/*.parquet").sort("row_id")
    assert found["row_id"].equals(many["row_id"])
    expected = calcli.load("kept").predict(many)
    np.testing.assert_allclose(found["calibrated"].to_numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("apply", "kept", "nowhere", "-o", "x", "--engine", "spark"), 3, "Spark finds nothing at nowhere"),
        (("apply", "kept", "-", "-o", "x", "--engine", "spark"), 2, "reads directories and files of Parquet"),
        (("apply", "kept", "days", "-o", "-", "--output-format", "csv", "--engine", "spark"), 2, "writes a directory"),
        (("apply", "kept", "days", "-o", "x", "--master", "spark://h:1"), 2, "add --engine spark"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(days: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    calcli.fit("days", method="platt", output="kept")
    done = run(*arguments)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr
