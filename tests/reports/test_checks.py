"""Warnings about scores that are not what they are taken for, and about rows of units that nobody named."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import mannwhitneyu

import calcli
from calcli.batch import Batch
from calcli.numeric.links import scores
from calcli.reports.groups import LabelCheck, alike, score_warnings
from calcli.tables.binding_types import Binding, Score
from calcli.tables.features import named_like_units

BINARY = Binding("label", "int", (0, 1), 1, Score("prob", ("prob",)))
THREE = Binding("label", "int", (0, 1, 2), None, Score("prob", ("p_0", "p_1", "p_2")))


def said(prob: np.ndarray, label: np.ndarray, binding: Binding = BINARY) -> list[str]:
    ranking = LabelCheck.of(Batch(scores(prob), label))
    return [warning.code for warning in score_warnings(ranking, prob, binding)]


def test_only_scores_that_rank_backwards_are_said_to() -> None:
    """By the test of Mann and Whitney: four standard errors are a one-sided p of 3.2e-5."""
    rng = np.random.default_rng(0)
    flagged = 0
    for shift in np.linspace(-1.0, 1.0, 41):
        prob = rng.uniform(size=300)
        label = (rng.uniform(size=300) < 0.5 + 0.9 * shift * (prob - 0.5)).astype(int)
        p = mannwhitneyu(prob[label == 1], prob[label == 0], alternative="less", method="asymptotic").pvalue
        if 0.5 < p / 3.17e-5 < 2.0:  # the continuity correction moves the border a little
            continue
        assert said(prob, label) == (["ranks-backwards"] if p < 3.17e-5 else [])
        flagged += p < 3.17e-5
    assert flagged > 3


def test_columns_in_another_order_are_noticed() -> None:
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, 300)
    prob = rng.dirichlet([1, 1, 1], 300) * 0.5 + 0.5 * np.eye(3)[label]
    assert said(prob, label, THREE) == []
    assert said(prob[:, [1, 2, 0]], label, THREE) == ["ranks-backwards"]


@pytest.mark.parametrize(
    ("values", "rows", "codes"),
    [
        ((0.0, 1.0), 20, ["two-values"]),
        ((0.3, 0.7), 20, ["two-values"]),
        ((0.0, 1.0), 19, []),
        ((0.0, 0.5, 1.0), 300, []),
        ((0.5,), 300, []),
    ],
)
def test_two_values_are_no_probabilities(values: tuple[float, ...], rows: int, codes: list[str]) -> None:
    rng = np.random.default_rng(1)
    prob = rng.permutation(np.resize(values, rows))
    assert said(prob, np.resize([0, 1], rows)) == codes


def test_decisions_among_more_classes_are_no_probabilities() -> None:
    label = np.resize([0, 1, 2], 30)
    assert said(np.eye(3)[label], label, THREE) == ["two-values"]


@pytest.mark.parametrize(
    ("names", "are_units"),
    [
        (["user_id", "userId", "USER_ID", "customer key", "session", "patients", "device-uuid"], True),
        (["user_age", "device", "campaign_id", "id", "new_user", "", "7", "users_per_day"], False),
    ],
)
def test_names_of_units(names: list[str], are_units: bool) -> None:
    assert [named_like_units(name) for name in names] == [are_units] * len(names)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [np.full(60, 5), np.arange(1, 25)], ids=["even", "uneven"])
def test_rows_that_are_independent_are_called_alike_as_often_as_the_level_says(sizes: np.ndarray) -> None:
    unit, found = np.repeat(np.arange(len(sizes)), sizes), []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        prob = rng.beta(1, 4, len(unit))
        found.append(alike(((rng.random(len(unit)) < prob) - prob)[:, None], unit))
    assert np.mean(np.array(found) <= 0.1) == pytest.approx(0.1, abs=0.075)


def table(spread: float) -> pl.DataFrame:
    rng = np.random.default_rng(0)
    user, z = np.repeat(np.arange(100), 10), rng.normal(size=1000)
    label = rng.random(1000) < 1 / (1 + np.exp(-z - spread * rng.normal(size=100)[user]))
    return pl.DataFrame({"user_id": user, "logit": z, "label": label.astype(int), "x": rng.normal(size=1000)})


def warned(frame: pl.DataFrame, **options: str) -> list[str]:
    report = calcli.compare(frame, **options).report if "methods" in options else calcli.fit(frame, **options).report
    return [warning.message for warning in report.warnings if warning.code == "units"]


def test_users_that_share_more_than_their_scores_are_named_with_the_flag() -> None:
    for how in ({"method": "platt"}, {"methods": "platt"}):
        (message,) = warned(table(1.0), **how)
        assert "--resample-by user_id" in message
        assert "(10 on average)" in message
        assert not warned(table(1.0), resample_by="user_id", **how)
    assert not warned(table(0.0), method="platt")
    for column in (pl.struct("user_id"), pl.int_range(1000)):
        assert not warned(table(1.0).with_columns(user_id=column), method="platt")
    with_nulls = table(1.0).with_columns(user_id=pl.when(pl.col("user_id") > 0).then("user_id"))
    assert len(warned(with_nulls, method="platt")) == 1
