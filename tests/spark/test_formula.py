"""Closed forms are columns of Spark: workers need no Python for them, and say why where they need it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.expressions import Compared, Input, Lookup, Number, Steps, Term, total
from calcli.numeric.links import sigmoid
from calcli.spark.columns import is_short
from tests.support.samples import breeds
from tests.support.shell import calcli as run
from tests.support.shell import environment
from tests.support.spark import Driver, ordered, started

pytest.importorskip("pyspark", reason="needs the extra spark")

LOCAL = ("--engine", "spark", "--master", "local[1]")


@pytest.fixture(scope="module")
def without_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with started(tmp_path_factory.mktemp("driver"), "local[1]", PYSPARK_PYTHON="/bin/false") as found:
        yield found


def test_tables_of_leaves_count_as_long_as_they_are() -> None:
    """Three hundred trees of 64 leaves would take more than Java's memory; a long table of steps is searched."""
    x = Input("x")
    leaves = [Lookup((Compared("<", x, Number(1.0)),) * 6, np.arange(64.0)) for _ in range(300)]
    assert is_short({"y": total(leaves[:10])})
    assert not is_short({"y": total(leaves)})
    values: tuple[Term, ...] = (Number(0.0),) * 501
    assert is_short({"y": Steps(x, np.arange(500.0), values, "left")})


def test_workers_without_python_apply_a_formula(days: Path, without_python: Driver, tmp_path: Path) -> None:
    kept, here, there = tmp_path / "kept", tmp_path / "here.parquet", tmp_path / "there"
    calcli.fit(days, method="isotonic", output=kept)
    calcli.apply(kept, days, here)
    without_python.run("apply", str(kept), str(days), "-o", str(there), "--engine", "spark")
    one, other = ordered(here), ordered(there)
    assert other.drop("calibrated").equals(one.drop("calibrated"))
    np.testing.assert_allclose(other["calibrated"], one["calibrated"], rtol=0, atol=1e-12)


def test_names_are_one_whatever_their_type(without_python: Driver, tmp_path: Path) -> None:
    """By a formula where they are integers; where Spark would write 17.0 for 17, by Python."""
    rng = np.random.default_rng(0)
    site, score = rng.integers(0, 6, 2_000), rng.normal(size=2_000)
    label = (rng.random(2_000) < sigmoid(score + rng.normal(size=6)[site])).astype(int)
    rows = pl.DataFrame({"logit": score, "label": label, "site": site * 10_000_000})
    params = {"trees": 1, "depth": 2}
    model = calcli.fit(
        rows, method="mbct", params=params, categories=("site",), holdout="none", output=tmp_path / "kept"
    ).model
    assert model is not None
    for kind in (pl.Int64, pl.Float64):
        rows.with_columns(pl.col("site").cast(kind)).write_parquet(tmp_path / f"{kind}.parquet")
        words = ("apply", str(tmp_path / "kept"), str(tmp_path / f"{kind}.parquet"), "-o", str(tmp_path / f"{kind}"))
        if kind == pl.Int64:
            without_python.run(*words, "--engine", "spark")
        else:
            done = run(*words, *LOCAL, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        found = pl.read_parquet(tmp_path / f"{kind}" / "*.parquet")
        assert found["logit"].to_list() == rows["logit"].to_list()
        np.testing.assert_allclose(found["calibrated"], model.predict(rows), rtol=0, atol=1e-12)


def test_the_interpreter_that_runs_is_that_of_local_workers(days: Path, tmp_path: Path) -> None:
    calcli.fit(days, method="platt", output=tmp_path / "kept")
    strange = tmp_path / "bin" / "python3"
    strange.parent.mkdir()
    strange.write_text("#!/bin/sh\necho it must not run >&2\nexit 1\n")
    strange.chmod(0o755)
    as_cron = environment(PATH=f"{strange.parent}:/usr/bin:/bin")
    as_cron.pop("PYSPARK_PYTHON", None)
    done = run("apply", "kept", str(days), "-o", "there", "--extra", *LOCAL, cwd=tmp_path, env=as_cron)
    assert done.returncode == 0, done.stderr


def test_the_last_line_of_a_worker_is_shown(days: Path, tmp_path: Path) -> None:
    calcli.fit(days, method="platt", output=tmp_path / "kept")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "calcli.py").write_text("raise ModuleNotFoundError(\"No module named 'calcli'\")\n")
    worker = tmp_path / "python"
    worker.write_text(f'#!/bin/sh\nexport PYTHONPATH="{foreign}:$PYTHONPATH"\nexec python3 "$@"\n')
    worker.chmod(0o755)
    without = environment(PYSPARK_PYTHON=str(worker))
    done = run("apply", "kept", str(days), "-o", "there", "--extra", *LOCAL, cwd=tmp_path, env=without)
    assert done.returncode == 3
    assert "No module named 'calcli'" in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("evaluate", "days"), ("apply", "kept", "days", "-o", "there", "--extra")])
def test_what_needs_python_says_so_in_a_line(
    days: Path, without_python: Driver, tmp_path: Path, words: tuple[str, ...]
) -> None:
    calcli.fit(days, method="platt", output=tmp_path / "kept")
    places = {"days": days, "kept": tmp_path / "kept", "there": tmp_path / "there"}
    done = without_python.run(*(places.get(word, word) for word in words), "--engine", "spark", code=3)
    assert "/bin/false" in done.said
    assert done.stderr.rstrip().count("\n") <= 1


@pytest.mark.parametrize("method", ["venn-abers", "sms", "isotonic", "beta"])
def test_awkward_rows_are_those_of_one_machine(driver: Driver, tmp_path: Path, method: str) -> None:
    kept, table, here, there = (str(tmp_path / name) for name in ("kept", "rows.parquet", "here.parquet", "there"))
    frame = breeds(600).with_row_index("row")
    scores = [name for name in frame.columns if name.startswith("logit")]
    calcli.fit(frame, method=method, output=kept)
    values = [None, float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 700.0, -700.0, 1e-300]
    swap = [
        pl.Series(values * 2, dtype=pl.Float64).extend(frame[name][len(values) * 2 :]).alias(name)
        for name in scores[:1]
    ]
    frame.with_columns(swap).rename({"row": "a `row`.b"}).write_parquet(table)
    calcli.apply(kept, table, here, bad_rows="null")
    driver.run("apply", kept, table, "-o", there, "--bad-rows", "null", "--engine", "spark")
    one, other = pl.read_parquet(here), pl.read_parquet(f"{there}/*.parquet").sort("a `row`.b")
    assert other.columns == one.columns
    added = [name for name in one.columns if name.startswith("calibrated")]
    assert one[added[0]].null_count() == 8
    assert other[added].null_count().equals(one[added].null_count())
    np.testing.assert_allclose(other[added].to_numpy(), one[added].to_numpy(), rtol=0, atol=1e-12)
