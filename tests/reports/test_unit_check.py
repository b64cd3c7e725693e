from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.reports.checks import alike
from calcli.tables.features import named_like_units


@pytest.mark.parametrize("name", ["user_id", "userId", "USER_ID", "customer key", "session", "patients", "device-uuid"])
def test_names_of_units(name: str) -> None:
    assert named_like_units(name)


@pytest.mark.parametrize("name", ["user_age", "device", "campaign_id", "id", "new_user", "", "7", "users_per_day"])
def test_other_names(name: str) -> None:
    assert not named_like_units(name)


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
    reports = [
        calcli.fit(frame, method="platt", **options).report,
        calcli.compare(frame, methods="platt", **options).report,
    ]
    return [warning.message for report in reports for warning in report.warnings if warning.code == "units"]


def test_users_that_share_more_than_their_scores_are_named_with_the_flag() -> None:
    first, second = warned(table(1.0))
    assert first == second
    assert "--resample-by user_id" in first
    assert "(10 on average)" in first
    assert not warned(table(1.0), resample_by="user_id")
    assert not warned(table(0.0))
    assert not warned(table(1.0).with_columns(user_id=pl.struct("user_id")))
    assert not warned(table(1.0).with_columns(user_id=pl.int_range(1000)))
    assert len(warned(table(1.0).with_columns(user_id=pl.when(pl.col("user_id") > 0).then("user_id")))) == 2
