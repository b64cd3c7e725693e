"""`refit` of policies that have no calibrator: replaced if the new rows refute them, and not by the luck of a night."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.cli.main import main
from calcli.errors import UsageError
from calcli.verbs.decide import DecideRequest, decide
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import clicks

TARGET = calcli.Flags(label="target")


def shifted(rows: int, seed: int, by: float) -> pl.DataFrame:
    return clicks(rows, seed=seed).select("label", logit=pl.col("logit") + by)


def test_a_promise_that_holds_stays_and_a_broken_one_is_renewed(here: Path) -> None:
    decide(DecideRequest(clicks(4000), target="precision >= 0.5", output="p"))
    before = calcli.load("p")
    quiet = calcli.refit("p", clicks(4000, seed=1))
    assert quiet.usual
    assert "promised precision >= 0.5" in (quiet.kept or "")
    assert calcli.load("p").sha256 == before.sha256
    result = calcli.refit("p", shifted(6000, 2, 1.5))
    assert result.kept is None
    REPORT_SCHEMA.validate(result.report.to_json())
    place, new = result.report.decisions
    assert (place["score"], new["score"]) == ("in place", "new")
    assert result.report.refit["evidence"] == pytest.approx(-math.log(place["promise"]["p"]))
    after = calcli.load("p")
    assert after.policy.rule.band.high > before.policy.rule.band.high
    assert after.policy.target == before.policy.target
    fresh = calcli.evaluate(shifted(6000, 3, 1.5), artifacts=("p",)).decisions[0]
    assert fresh["promise"]["broken"] is False
    assert after.manifest.previous is not None


def test_nothing_new_that_meets_the_target_changes_nothing(here: Path) -> None:
    decide(DecideRequest(clicks(4000), target="precision >= 0.5", output="p"))
    before = calcli.load("p").sha256
    few = clicks(6000, seed=1)
    label = few["label"].to_numpy() * (np.arange(6000) % 20 == 0)
    result = calcli.refit("p", few.with_columns(label=label))
    assert "no threshold has precision >= 0.5" in (result.kept or "")
    assert not result.usual
    assert calcli.load("p").sha256 == before


def test_costs_are_lower_by_more_than_chance_gives(here: Path) -> None:
    """The score was right, so that the threshold followed from the costs; then the scores moved."""
    rng = np.random.default_rng(0)
    true = rng.normal(-1, 1.5, 20_000)
    table = pl.DataFrame({"label": (rng.random(20_000) < 1 / (1 + np.exp(-true))).astype(int), "logit": true})
    decide(DecideRequest(table.head(8000), cost_fp=1.0, cost_fn=9.0, output="p"))
    assert calcli.load("p").policy.rule.band.high == pytest.approx(0.1)
    assert calcli.refit("p", table[8000:14_000]).usual
    moved = table[14_000:].with_columns(logit=pl.col("logit") - 3.0)
    result = calcli.refit("p", moved)
    assert result.kept is None
    assert calcli.load("p").policy.rule.band.high < 0.02


def amounts(rows: int, seed: int, scale: float = 1.0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=rows)
    return pl.DataFrame({"target": mean + scale * rng.normal(size=rows), "mean": mean})


def test_intervals_are_renewed_where_they_hold_too_few(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide(DecideRequest(amounts(2000, 0), intervals=0.9, prediction="mean", flags=TARGET, output="p"))
    assert calcli.refit("p", amounts(1000, 1)).usual
    wider = amounts(1000, 2, 1.5)
    wider.write_parquet("wider.parquet")
    assert main(["refit", "p", "wider.parquet"]) == 0
    out = capsys.readouterr()
    assert out.out == "p\n"
    assert "p is replaced: the one in place promised coverage >= 0.9" in " ".join(out.err.split())
    (entry,) = calcli.evaluate(amounts(2000, 3, 1.5), artifacts=("p",)).decisions
    assert entry["promise"]["broken"] is False
    # The same file again: its rows have chosen what is in place, so that a warning says that they judge it too.
    result = calcli.refit("p", "wider.parquet")
    assert {warning.code for warning in result.report.warnings} == {"seen-before"}


@pytest.mark.slow
def test_luck_replaces_nothing(here: Path) -> None:
    """A policy of 500 rows, chosen for a target, looked at on 100 nights: by chance on one of 7,300."""
    decide(DecideRequest(clicks(500), target="recall >= 0.8", output="p"))
    replaced = 0
    for night in range(100):
        replaced += calcli.refit("p", clicks(300, seed=night + 1)).kept is None
    assert replaced <= 1


def test_a_score_that_is_another_one_is_refused(here: Path) -> None:
    decide(DecideRequest(clicks(500), budget=30, output="p"))
    with pytest.raises(UsageError, match="budget=30 is no limit"):
        calcli.refit("p", clicks(20))
