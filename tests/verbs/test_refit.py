"""Nights: one that improves, one that worsens, one whose labels were shuffled."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import ArtifactError, UsageError
from calcli.verbs.refit import IN_PLACE, MARGIN, RefitRequest, refit, rollback
from tests.support.artifacts import contents
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks


def night(seed: int, *, shift: float = 0.0, rows: int = 4000) -> pl.DataFrame:
    """Scores that shout, and labels whose log-odds have moved by `shift`."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, rows)
    label = rng.random(rows) < 1 / (1 + np.exp(-(truth + shift)))
    return pl.DataFrame({"label": label.astype(np.int8), "logit": 2 * truth + 0.5})


def run(data: object, **options: object):
    return refit(RefitRequest("m", data, **options))  # type: ignore[arg-type]


@pytest.fixture
def fitted(here: Path) -> Path:
    calcli.fit(night(0), method="platt", output="m")
    return here


def test_a_night_after_a_shift_replaces(fitted: Path) -> None:
    before = calcli.load("m").manifest
    result = run(night(1, shift=1.0))
    assert result.kept is None
    after = calcli.load("m").manifest
    assert after.previous is not None
    assert after.recipe == before.recipe
    assert result.report.value("platt", "nll") < result.report.value(IN_PLACE, "nll") < 1
    assert after.fit["after"]["nll"] == result.report.value("platt", "nll")


def test_a_quiet_night_replaces_too(fitted: Path) -> None:
    """As good as before is good enough: newer rows are better rows."""
    assert run(night(2)).kept is None


def test_shuffled_labels_change_nothing(fitted: Path) -> None:
    """What was learned from noise loses to no calibration, because the scores no longer mean anything to it."""
    rng = np.random.default_rng(3)
    truth = rng.normal(-1, 1.2, 60)
    frame = pl.DataFrame({"label": rng.permutation((rng.random(60) < 0.3).astype(np.int8)), "logit": truth})
    calcli.fit(frame.head(40), method="histogram", output="m", params={"bins": 20})
    before = contents("m")
    result = run(frame)
    assert result.kept is not None
    assert "worse than" in result.kept
    assert result.report.chosen == IN_PLACE
    assert contents("m") == before


def test_a_worse_recipe_on_new_rows_changes_nothing(fitted: Path) -> None:
    """The one in place was fitted on many rows; the night brings so few that fine bins of them cannot compete."""
    loud = pl.col("logit") * 4  # so wrong that no calibration is worse than either
    calcli.fit(night(0, rows=20_000).with_columns(loud), method="histogram", output="m", params={"bins": 20})
    before = contents("m")
    result = run(night(4, rows=300).with_columns(loud))
    assert "in place" in (result.kept or "")
    assert contents("m") == before
    jsonschema.validate(json.loads(json.dumps(result.report.to_json(), allow_nan=False)), REPORT_SCHEMA)


def test_the_margin_is_a_share_of_the_loss_without_calibration(fitted: Path) -> None:
    report = run(night(5, rows=600)).report
    gaps = [each for each in report.differences if each.metric == "nll" and each.score == "platt"]
    assert {each.versus for each in gaps} == {"raw", IN_PLACE}
    worst = max(each.value for each in gaps)
    replaced = calcli.load("m").manifest.previous is not None
    assert replaced == (worst <= MARGIN * report.value("raw", "nll"))


def test_strict_asks_the_interval(fitted: Path) -> None:
    """Few rows cannot show that a quiet night is not worse; a shifted one can."""
    assert run(night(6, rows=300), strict=True).kept is not None
    assert run(night(1, shift=1.5), strict=True).kept is None
    with pytest.raises(UsageError, match="interval"):
        run(night(1), strict=True, guard="auc")


def test_rows_of_the_fit_in_place_are_not_judged_on(fitted: Path) -> None:
    night(0).write_parquet("monday.parquet")
    night(7).write_parquet("tuesday.parquet")
    calcli.fit("monday.parquet", method="platt", output="m")
    result = run(["monday.parquet", "tuesday.parquet"])
    assert [warned.code for warned in result.report.warnings] == ["seen-before"]
    assert calcli.load("m").manifest.fit["holdout"]["rows"] == 4000
    assert calcli.load("m").manifest.fit["rows"] == 8000
    again = run(["monday.parquet", "tuesday.parquet"])
    assert "compared on rows" in again.report.warnings[0].message


def test_rollback_brings_the_last_one_back(fitted: Path) -> None:
    before = calcli.load("m").predict(night(9))
    run(night(1, shift=1.0))
    changed = calcli.load("m").predict(night(9))
    assert (before != changed).any()
    rollback("m")
    np.testing.assert_array_equal(calcli.load("m").predict(night(9)), before)
    rollback("m")
    np.testing.assert_array_equal(calcli.load("m").predict(night(9)), changed)


def test_parameters_and_flags_are_repeated(here: Path) -> None:
    frame = clicks().rename({"logit": "z", "label": "clicked"})
    flags = calcli.Flags(label="clicked", logit="z", weight="w")
    calcli.fit(frame, method="histogram", output="m", params={"bins": 6}, flags=flags, holdout="cv:3")
    result = run(clicks(seed=1).rename({"logit": "z", "label": "clicked"}))
    manifest = calcli.load("m").manifest
    assert manifest.previous is not None or result.kept
    assert manifest.params["bins"] == 6
    assert manifest.binding["weight"] == "w"
    assert manifest.fit["holdout"]["scheme"] == "cv:3"


def test_auto_is_asked_again(here: Path) -> None:
    calcli.fit(night(0), output="m")
    assert calcli.load("m").manifest.requested == "auto"
    run(night(1, shift=1.0))
    manifest = calcli.load("m").manifest
    assert manifest.previous is not None
    assert manifest.requested == "auto"


def test_what_cannot_be_refitted_is_said(here: Path) -> None:
    with pytest.raises(ArtifactError):
        run(night(1))
    calcli.fit(night(0), method="platt", output="m", holdout="none")
    with pytest.raises(UsageError, match="--holdout none"):
        run(night(1))
    with pytest.raises(ArtifactError, match="previous"):
        rollback("m")


def test_labels_that_were_shuffled_are_noticed(fitted: Path) -> None:
    before = contents("m")
    frame = night(8)
    shuffled = frame.with_columns(label=pl.Series(np.random.default_rng(0).permutation(frame["label"].to_numpy())))
    result = run(shuffled)
    assert "right labels" in (result.kept or "")
    assert result.report.value("platt", "nll") < result.report.value(IN_PLACE, "nll")  # the comparison alone is fooled
    assert contents("m") == before
    calcli.fit(shuffled, method="platt", output="never")  # scores that never said anything may go on saying nothing
    assert refit(RefitRequest("never", shuffled)).kept is None


def test_labels_that_have_not_come_in_are_noticed(fitted: Path) -> None:
    before = contents("m")
    assert "have the others come in yet" in (run(night(8).with_columns(label=pl.lit(0, dtype=pl.Int8))).kept or "")
    assert contents("m") == before


def test_the_guard_against_wrong_labels_needs_no_metric_of_the_report(here: Path) -> None:
    calcli.fit(night(0), method="platt", output="m", metrics="nll")
    frame = night(8)
    shuffled = frame.with_columns(label=pl.Series(np.random.default_rng(0).permutation(frame["label"].to_numpy())))
    assert "right labels" in (run(shuffled).kept or "")


def test_more_classes_are_guarded_too(here: Path) -> None:
    frame = breeds(3000)
    calcli.fit(frame, method="temperature", output="m")
    assert run(breeds(3000, seed=1)).kept is None
    shuffled = frame.with_columns(label=pl.Series(np.random.default_rng(0).permutation(frame["label"].to_numpy())))
    assert "right labels" in (run(shuffled).kept or "")


def test_units_are_those_of_the_recipe_or_others(here: Path) -> None:
    def table(seed: int, shift: float = 0.0) -> pl.DataFrame:
        return night(seed, shift=shift).with_columns(
            user=pl.Series(np.arange(4000) % 80), minute=pl.Series(np.arange(4000))
        )

    calcli.fit(table(0), method="platt", output="m", resample_by="user")
    by_user, by_minute = run(table(1)), run(table(2, shift=1.0), order_by="minute")
    assert by_minute.kept is None
    assert by_user.report.data.units == {"column": "user", "count": 80, "in_order": False}
    assert by_minute.report.data.units == {"column": "minute", "count": 4000, "in_order": True}
    recipe = calcli.load("m").manifest.recipe
    assert (recipe["resample_by"], recipe["order_by"]) == (None, "minute")
