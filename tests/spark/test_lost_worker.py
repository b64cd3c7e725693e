"""A worker that is lost loses no row. The last of the tests on the cluster: another one takes its place."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from tests.support.samples import clicks
from tests.support.spark import Cluster, Driver, in_executors

pytest.importorskip("pyspark", reason="needs the extra spark")

FILES = 40


def test_a_sample_is_the_same(days: Path, tmp_path: Path, cluster: Cluster, driver: Driver) -> None:
    """Killed whenever it may be."""
    words = ["fit", str(days), "-m", "isotonic", "--sample", "2000", "--engine", "spark", "-o"]
    driver.run(*words, str(tmp_path / "before"))
    driver.begin(words=[*words, str(tmp_path / "after")])
    time.sleep(1)
    cluster.kill_worker()
    done = driver.answer()
    cluster.add_worker(tmp_path, "another", driver)
    assert done["code"] == 0, done["stderr"]
    before, after = (calcli.load(tmp_path / name).manifest for name in ("before", "after"))
    assert [one.sha256 for one in before.payloads] == [one.sha256 for one in after.payloads]
    assert before.fit == after.fit


@pytest.fixture
def many(tmp_path: Path) -> tuple[Path, pl.DataFrame]:
    """Many files, and their rows."""
    rows = pl.concat([clicks(20_000, seed=seed) for seed in range(FILES)]).with_columns(row_id=pl.int_range(pl.len()))
    folder = tmp_path / "many"
    folder.mkdir()
    for place, part in enumerate(rows.iter_slices(20_000)):
        part.write_parquet(folder / f"{place}.parquet")
    return folder, rows


def test_every_row_is_counted_once(
    tmp_path: Path, many: tuple[Path, pl.DataFrame], cluster: Cluster, driver: Driver
) -> None:
    """Killed as soon as it begins with another task."""
    table, rows = many
    cluster.add_worker(tmp_path, "worker", driver)
    words = ("evaluate", str(table), "--metrics", "nll,auc", "--bootstrap", "100", "--format", "json")
    driver.begin(words=[*words, "--engine", "spark"])
    driver.until(lambda: in_executors(tmp_path / "worker", "Running task"))
    cluster.kill_worker()
    done = driver.answer()
    assert done["code"] == 0, done["stderr"]
    found = json.loads(done["stdout"])
    assert found["data"]["rows"] == len(rows)
    expected = calcli.evaluate(table, metrics="nll").to_json()["scores"][0]["metrics"]["nll"]["value"]
    assert found["scores"][0]["metrics"]["nll"]["value"] == pytest.approx(expected, rel=1e-12)


def test_every_row_comes_once(
    tmp_path: Path, many: tuple[Path, pl.DataFrame], cluster: Cluster, driver: Driver
) -> None:
    """Killed as soon as some files are written, and most are not."""
    (table, rows), kept, there = many, tmp_path / "kept", tmp_path / "there"
    calcli.fit(clicks(), method="platt", output=kept)
    driver.begin(words=["apply", str(kept), str(table), "-o", str(there), "--engine", "spark"])
    driver.until(lambda: any(there.glob("_temporary/**/*.parquet")))
    assert not (there / "_SUCCESS").exists()
    cluster.kill_worker()
    done = driver.answer()
    assert done["code"] == 0, done["stderr"]
    found = pl.read_parquet(there / "*.parquet").sort("row_id")
    assert found["row_id"].equals(rows["row_id"])
    expected = calcli.load(kept).predict(rows)
    np.testing.assert_allclose(found["calibrated"].to_numpy(), expected, rtol=0, atol=1e-12)
