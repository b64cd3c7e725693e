"""Estimates on a cluster are those of one machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from tests.support.spark import Driver, assert_near

pytest.importorskip("pyspark", reason="needs the extra spark")


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in three files; rows with a label are few, and in no order of their values."""
    folder, rng = tmp_path_factory.mktemp("judged"), np.random.default_rng(0)
    for place, rows in enumerate((1000, 4000, 2500)):
        prob = rng.beta(1, 3, rows)
        stratum = np.where(prob > 0.3, "high", "low")
        drawn_with = np.where(prob > 0.3, 0.2, 0.05)
        frame = pl.DataFrame(
            {
                "prob": prob,
                "truth": (rng.random(rows) < 0.8 * prob).astype(int),
                "weight": rng.choice([0.0, 0.5, 2.0], rows),
                "stratum": stratum,
                "drawn_with": drawn_with,
                "known": rng.random(rows) < drawn_with,
                "unit": rng.integers(0, 2000, rows),
                "task": rng.choice(["art", "law"], rows),
                "system": np.resize(["new", "old"], rows),
                "item": 10_000 * place + np.arange(rows) // 2,
            }
        )
        label = pl.when("known").then("truth")
        frame.with_columns(label=label, grade=10 * label + 3 * pl.col("prob")).write_parquet(
            folder / f"{place}.parquet"
        )
    return folder


@pytest.mark.parametrize(
    ("words", "given"),
    [
        (("--by", "task"), {"by": ("task",)}),
        (
            ("--weight", "weight", "--strata", "stratum", "--by", "task", "--resample-by", "unit"),
            {"weight": "weight", "strata": "stratum", "by": ("task",), "resample_by": "unit"},
        ),
        (("--weight", "weight", "--label-prob", "drawn_with"), {"weight": "weight", "label_prob": "drawn_with"}),
        (("--task", "regression", "--label", "grade"), {"task": "regression", "label": "grade"}),
        (
            ("--versus", "system", "--id", "item", "--width", "0.02"),
            {"versus": "system", "item": "item", "width": 0.02},
        ),
    ],
)
def test_the_numbers_are_those_of_one_machine(
    judged: Path, driver: Driver, words: tuple[str, ...], given: dict[str, object]
) -> None:
    label = () if "--label" in words else ("--label", "label")
    found = driver.report("estimate", judged, "--prob", "prob", *label, *words)
    report = calcli.estimate(judged, **{"prob": "prob", "label": "label", **given}).to_json()
    for key in ("estimates", "groups", "scores", "warnings", "plan"):
        assert_near(found[key], report[key], rel=1e-9)
    for fact in ("rows", "rows_bad", "weight_sum", "label_rate", "units"):
        assert_near(found["data"][fact], report["data"][fact], rel=1e-12)


def test_what_scores_promise_is_that_of_one_machine(judged: Path, driver: Driver, tmp_path: Path) -> None:
    kept, bare = tmp_path / "kept", tmp_path / "bare.parquet"
    calcli.fit(judged, method="platt", prob="prob", label="truth", output=kept)
    pl.read_parquet(judged / "*.parquet").select("prob").write_parquet(bare)
    for words, given in (((), {}), (("--prior-shift", "estimate"), {"prior_shift": "estimate"})):
        found = driver.report("estimate", bare, "--with", kept, *words)
        report = calcli.estimate(bare, artifact=kept, **given).to_json()
        assert_near(found["estimates"], report["estimates"], rel=1e-9)


def test_what_is_refused_says_what_to_do(judged: Path, driver: Driver, tmp_path: Path) -> None:
    words = ("estimate", judged, "--prob", "prob", "--label", "label", "--engine", "spark")
    chosen = ("--choose", 10, "-o", tmp_path / "chosen.parquet")
    assert "--choose needs all rows at once" in driver.run(*words, *chosen, code=2).said
    assert "2 values of 'known' have no labelled row" in driver.run(*words, "--strata", "known", code=3).said
    assert "'weight' is 2 in a row which has a label" in driver.run(*words, "--label-prob", "weight", code=3).said
