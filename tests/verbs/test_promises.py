"""`--drift` of policies: a promise is tested over all nights, with the law that false alarms are rare, ever."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats

import calcli
from calcli.cli.main import main
from calcli.numeric.e_process import STAKES, EProcess, between_nights, log_rate_payoffs, rate_night
from calcli.verbs.decide import DecideRequest, decide
from calcli.verbs.drift_log import LEARNED, OLDER
from tests.support.drift import learned
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import clicks

TARGET = calcli.Flags(label="target")


@pytest.mark.parametrize("at_least", [True, False])
def test_no_bet_can_be_expected_to_gain(at_least: bool) -> None:
    """By all outcomes of five rows: at the bound bets are fair, on the right side they lose, on the wrong they gain."""
    weight, bound = np.array([1.0, 1.0, 2.0, 0.5, 1.0]), 0.5
    for rate in (0.4, 0.5, 0.6):
        expected = np.zeros(len(STAKES))
        for outcome in product((0.0, 1.0), repeat=5):
            hit = np.array(outcome)
            chance = np.prod(np.where(hit > 0, rate, 1 - rate))
            expected += chance * np.exp(log_rate_payoffs(hit, weight, bound, 0.0, at_least=at_least))
        if rate == bound:
            np.testing.assert_allclose(expected, 1.0)
        else:
            assert ((expected < 1.0) == ((rate > bound) == at_least)).all()


def evidence(rng: np.random.Generator, nights: int, rows: int, rate: float, spread: float) -> float:
    """The largest wealth of bets against a rate of 0.9 at least, over nights that share an effect on the log-odds."""
    process, past, most = EProcess.at_first(np.ones(len(STAKES)) / len(STAKES)), [], 0.0
    for count in range(nights):
        p = 1 / (1 + np.exp(-(np.log(rate / (1 - rate)) + spread * rng.normal())))
        hit, weight = (rng.random(rows) < p).astype(float), np.ones(rows)
        night = rate_night(hit, weight, 0.9)
        if count < LEARNED:
            process = process.idle()
        else:
            older = past[: max(LEARNED, math.ceil(OLDER * count))]
            (between,) = between_nights(*(np.array([[one] for one in each]) for each in zip(*older, strict=True)))
            process = process.after(log_rate_payoffs(hit, weight, 0.9, float(between), at_least=True))
        past.append((night.mean[0], night.noise[0]))
        most = max(most, float(np.exp(process.evidence)))
    return most


@pytest.mark.slow
@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_false_alarms_are_rare_over_a_season(spread: float) -> None:
    """Of 100 policies whose rate is just the promised one, at most 5 % are called broken on any of 90 nights."""
    rng = np.random.default_rng(0)
    level = 0.9 if spread == 0.0 else 0.9014  # the mean rate of nights that scatter on the log-odds is 0.9
    wrong = sum(evidence(rng, 90, 100, level, spread) >= 20.0 for _ in range(100))
    assert stats.binomtest(wrong, 100, 0.05, alternative="greater").pvalue > 0.01


def test_a_rate_that_fell_is_found() -> None:
    rng = np.random.default_rng(0)
    assert sum(evidence(rng, 58, 300, 0.84, 0.0) >= 20.0 for _ in range(10)) >= 9


def asked(table: pl.DataFrame, **more: object) -> calcli.Report:
    table.write_parquet("night.parquet")
    return calcli.evaluate("night.parquet", drift="p", metrics="nll", **more)  # type: ignore[arg-type]


def test_a_promise_over_nights(here: Path) -> None:
    """Quiet nights refute nothing together; the night on which positives become rare begins a series that does."""
    calcli.fit(clicks(4000), method="platt", output="m")
    decide(DecideRequest(clicks(4000, seed=1), artifact="m", target="precision >= 0.5", output="p"))
    asked(clicks(1000, seed=9))
    learned("p.drift.json")
    for night in range(5):
        report = asked(clicks(1000, seed=10 + night))
        REPORT_SCHEMA.validate(report.to_json())
        assert report.drift["promise"]["broken"] is False
    again = asked(clicks(1000, seed=14)).drift
    assert again["nights"] == LEARNED + 5  # the last file again
    for night in range(5, 11):
        table = clicks(1000, seed=10 + night)
        rare = (pl.Series(np.arange(1000) % 3 == 0)) & (table["label"] == 1) | (table["label"] == 0)
        found = asked(table.filter(rare)).drift["promise"]
    assert found["broken"] is True
    assert found["target"] == "precision >= 0.5"
    assert 5 <= found["since"] - LEARNED <= 7
    assert main(["evaluate", "night.parquet", "--drift", "p", "-q"]) == 1


def test_intervals_and_scores_as_they_are_have_promises_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They have no calibration to test, but a promise; costs alone promise nothing, and are refused."""
    rng = np.random.default_rng(0)

    def amounts(rows: int, scale: float) -> pl.DataFrame:
        mean = rng.normal(size=rows)
        return pl.DataFrame({"target": mean + scale * rng.normal(size=rows), "mean": mean})

    decide(DecideRequest(amounts(2000, 1.0), intervals=0.9, prediction="mean", flags=TARGET, output="p"))
    asked(amounts(500, 1.0))
    learned("p.drift.json")
    for scale in (1.0, 1.0, 2.0, 2.0, 2.0):
        drift = asked(amounts(500, scale)).drift
        assert (drift["evidence"], drift["drifted"]) == (None, False)
    assert drift["promise"]["broken"] is True
    assert drift["promise"]["since"] == LEARNED + 3
    assert main(["evaluate", "night.parquet", "--drift", "p"]) == 1
    said = capsys.readouterr()
    assert f"BROKEN: the promise coverage >= 0.9 is broken, most likely since night {LEARNED + 3}" in " ".join(
        said.out.split()
    )
    assert "no drift" not in said.out
    decide(DecideRequest(clicks(2000), target="recall >= 0.8", output="p"))
    assert asked(clicks(500, seed=3)).drift["promise"]["broken"] is False
    assert json.loads(Path("p.drift.json").read_text())["nights"][0]["mean"] == []
    decide(DecideRequest(clicks(2000), cost_fp=1.0, cost_fn=2.0, output="p"))
    assert main(["evaluate", "night.parquet", "--drift", "p"]) == 2


def test_each_class_bets_against_its_promise(here: Path) -> None:
    from tests.support.samples import breeds

    calcli.fit(breeds(3000), method="temperature", output="m")
    decide(DecideRequest(breeds(4000, seed=1), artifact="m", target="precision >= 0.55", output="p"))
    assert asked(breeds(800, seed=2)).drift["promise"]["broken"] is False
    learned("p.drift.json")
    for night in range(4):
        table = breeds(800, seed=3 + night)
        label = [("a" if one == "b" and place % 2 else one) for place, one in enumerate(table["label"])]
        promise = asked(table.with_columns(label=pl.Series(label))).drift["promise"]
    assert promise["target"] == "precision >= 0.55 in each class"
    assert promise["broken"] is True
