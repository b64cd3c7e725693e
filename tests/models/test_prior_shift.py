"""Scores for a place where positives are rarer than among the calibration rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import FitError, UsageError
from tests.support.samples import breeds, clicks


def log_odds(p: np.ndarray) -> np.ndarray:
    return np.log(p) - np.log1p(-p)


def test_it_moves_the_calibrated_log_odds_by_that_of_the_rates() -> None:
    frame = clicks()
    plain = calcli.fit(frame, method="platt").model.predict(frame)
    shifted = calcli.fit(frame, method="platt", prior_shift="0.02").model.predict(frame)
    rate = frame["label"].mean()
    expected = log_odds(np.array([0.02]))[0] - np.log(rate / (1 - rate))
    np.testing.assert_allclose(log_odds(shifted) - log_odds(plain), expected, rtol=1e-9)


def test_it_undoes_undersampling() -> None:
    """Negatives are thinned out to a tenth; the shift brings the mean prediction back to the rate before."""
    full = clicks(60_000, seed=3)
    rate = full["label"].mean()
    kept = full.filter((pl.col("label") == 1) | (pl.col("row_id") % 10 == 0))
    model = calcli.fit(kept, method="isotonic", prior_shift=f"{rate}").model
    assert model.predict(full).mean() == pytest.approx(rate, rel=0.02)
    assert calcli.fit(kept, method="isotonic").model.predict(full).mean() > 2 * rate


def test_the_report_weighs_rows_as_they_come_there() -> None:
    full = clicks(30_000, seed=4)
    rate = full["label"].mean()
    kept = full.filter((pl.col("label") == 1) | (pl.col("row_id") % 5 == 0))
    report = calcli.fit(kept, method="platt", prior_shift=f"{rate}").report
    there = calcli.evaluate(full).value("raw", "nll")
    assert report.value("raw", "nll") == pytest.approx(there, rel=0.02)
    assert report.value("platt", "nll") < report.value("raw", "nll")


def test_more_classes_give_the_rate_of_each() -> None:
    frame = breeds()
    rates = "a=0.1,b=0.2,c=0.3,d=0.4"
    plain = calcli.fit(frame, method="temperature").model.predict(frame)
    shifted = calcli.fit(frame, method="temperature", prior_shift=rates).model.predict(frame)
    share = np.array([frame["label"].eq(name).mean() for name in "abcd"])
    expected = plain * np.array([0.1, 0.2, 0.3, 0.4]) / share
    np.testing.assert_allclose(shifted, expected / expected.sum(axis=1, keepdims=True), rtol=1e-9)


def test_rates_go_by_the_names_of_classes_whichever_is_positive() -> None:
    frame = clicks().with_columns(label=pl.when(pl.col("label") == 1).then(pl.lit("a")).otherwise(pl.lit("b")))
    flags = calcli.Flags(positive="a")
    by_name, by_rate = (
        calcli.fit(frame, method="platt", prior_shift=rates, flags=flags).model.predict(frame)
        for rates in ("a=0.02,b=0.98", "0.02")
    )
    np.testing.assert_allclose(by_name, by_rate, rtol=1e-12)


def test_it_is_part_of_the_artifact(here: Path) -> None:
    fitted = calcli.fit("train.parquet", method="platt", prior_shift="0.02").model
    np.testing.assert_array_equal(calcli.load("train.platt").predict(clicks()), fitted.predict(clicks()))


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("2", "between 0 and 1"),
        ("a lot", "between 0 and 1"),
        ("1=0.2", "the rate of 0 is missing"),
        ("0=0.5,1=0.2", "add up to 0.7"),
        ("yes=0.2,no=0.8", "class 'yes'"),
    ],
)
def test_nonsense_is_named(rates: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        calcli.fit(clicks(), method="platt", prior_shift=rates)


def test_a_single_rate_is_for_two_classes() -> None:
    with pytest.raises(UsageError, match="a=RATE,b=RATE"):
        calcli.fit(breeds(), method="temperature", prior_shift="0.1")
    flags = calcli.Flags(classes=("0", "1"))
    with pytest.raises(FitError, match="class 0"):
        calcli.fit(clicks().filter(label=1), method="platt", prior_shift="0.1", flags=flags)


def test_exact_lets_outputs_reach_the_ends() -> None:
    z = np.linspace(-3, 3, 100)
    frame = pl.DataFrame({"label": (z > 0).astype(int), "logit": z})
    exact = calcli.fit(frame, method="isotonic", exact=True).model.predict(frame)
    assert set(exact) == {0.0, 1.0}
    held = calcli.fit(frame, method="isotonic").model.predict(frame)  # fifty rows of a kind, and two of the average
    assert held.min() == pytest.approx(1 / 52)
    assert held.max() == pytest.approx(1 - 1 / 52)
