"""Nights: one that improves, one that worsens, one whose labels were shuffled, and years of quiet ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import Batch
from calcli.errors import ArtifactError, DataError, UsageError
from calcli.models.policy import IN_PLACE
from calcli.models.requests import RefitRequest
from calcli.numeric.e_process import NightSums
from calcli.numeric.links import sigmoid
from calcli.verbs.refit import refit, rollback
from calcli.verbs.refit_calibrator import MARGIN, NEARER, NIGHTS, UNKNOWN, Evidence, NightEffect
from tests.support.artifacts import contents
from tests.support.drift import learned
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
    result = run(night(1, shift=3.0))
    assert result.kept is None
    after = calcli.load("m").manifest
    assert after.previous is not None
    assert after.recipe == before.recipe
    assert result.report.value("platt", "nll") < result.report.value(IN_PLACE, "nll")
    assert after.fit["after"]["nll"] == result.report.value("platt", "nll")


def test_a_quiet_night_changes_nothing(fitted: Path) -> None:
    """As good as before is not shown to be better: the one in place was fitted on more rows than it looks."""
    before = contents("m")
    result = run(night(2))
    assert result.usual
    assert "not shown to be better" in (result.kept or "")
    assert contents("m") == before


def test_the_evidence_is_the_log_likelihood_of_the_held_out_rows(fitted: Path) -> None:
    for frame in (night(2, rows=700), night(1, shift=3.0)):
        result = run(frame)
        (gap,) = (
            one.value
            for one in result.report.differences
            if (one.score, one.versus, one.metric) == ("platt", IN_PLACE, "nll")
        )
        assert result.evidence.evidence == pytest.approx(-gap * frame.height)
        assert (result.kept is None) == (result.evidence.evidence >= result.evidence.threshold)
        assert result.report.refit == {
            "replaced": result.kept is None,
            "evidence": result.evidence.evidence,
            "threshold": result.evidence.threshold,
            "nights": 1,
            "known": "assumed",
            "reason": result.kept and result.kept.removesuffix("; nothing was changed"),
        }


def test_the_threshold_is_the_year_s_or_two_standard_errors() -> None:
    """A thousand rows that gain alike show more than one row that gains as much as all of them."""
    rows = Batch(score=np.zeros(1000), label=np.ones(1000, dtype=np.int64))
    before = np.full(1000, 0.5)
    even, one = np.full(1000, 0.5 * np.exp(0.012)), np.full(1000, 0.5)
    one[0] = 0.5 * np.exp(0.69)
    for after, factor in ((even, 1), (one, 20)):
        weighted = replace(rows, weight=np.full(1000, float(factor)))
        found = Evidence.of(weighted, before, after, NightEffect(1.0, NIGHTS, "pooled"))
        gain = np.log(after / 0.5)
        assert found.evidence == pytest.approx(factor * gain.sum())
        assert found.threshold == pytest.approx(max(np.log(7300), 2 * factor * np.sqrt(1000) * gain.std()))
        assert (found.lacking("a") is None) == (after is even)


def test_of_a_few_nights_the_spread_is_assumed_and_luck_is_half_of_the_difference() -> None:
    """A night alone: what its rows share has the variance (0.3 x 0.25)^2, the mean of 1,000 of p = 0.5 0.25 / 1,000."""
    rows, even = 1000, np.ones(1000)
    sums = NightSums.of(np.zeros(rows), np.zeros(rows), np.ones((1, rows)), even)
    found = NightEffect.of([[sums]], None)
    assert found == (pytest.approx(1 + (UNKNOWN * 0.25) ** 2 / (0.25 / rows)), 1, "assumed")
    assert NightEffect.of([[sums]] * 4, None).factor == pytest.approx(found.factor)
    batch = Batch(score=np.zeros(rows), label=np.ones(rows, dtype=np.int64))
    threshold = Evidence.of(batch, even / 2, even * 0.6, found).threshold
    assert threshold == pytest.approx(NEARER * found.factor * np.log(7300))


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_pooled_nights_tell_how_much_they_differ(spread: float) -> None:
    """The factor is 1 + rows x chance x variance, as nights have it, and not much more where they do not differ."""
    rng, rows, found = np.random.default_rng(0), 1000, []
    for _ in range(40):
        nights = []
        for _ in range(30):
            residual = (rng.random(rows) < sigmoid(np.full(rows, rng.normal(0, spread)))) - 0.5
            nights.append([NightSums.of(np.zeros(rows), residual, np.ones((1, rows)), np.ones(rows))])
        found.append(NightEffect.of(nights, None))
    true = 1 + rows * 0.25 * spread**2
    assert {one.known for one in found} == {"pooled"}
    assert np.median([one.factor for one in found]) == pytest.approx(true, rel=0.5)
    assert np.quantile([one.factor for one in found], 0.1) > true / 2


def test_a_lasting_change_is_no_difference_of_nights() -> None:
    rng, nights = np.random.default_rng(1), []
    for place in range(30):
        residual = (rng.random(1000) < sigmoid(np.full(1000, 0.3 * (place >= 15)))) - 0.5
        nights.append([NightSums.of(np.zeros(1000), residual, np.ones((1, 1000)), np.ones(1000))])
    assert NightEffect.of(nights, None).factor < 3


def test_a_night_that_is_odd_by_itself_replaces_nothing(here: Path) -> None:
    """Nights that differ by 0.3: thirty files together, and any of them alone."""
    calcli.fit(night(0, rows=5000), method="platt", output="m", metrics="nll")
    shared = np.random.default_rng(3).normal(0, 0.3, 30)
    for index, effect in enumerate(shared.tolist()):
        night(300 + index, rows=1000, shift=effect).write_parquet(f"{index:02}.parquet")
    for index in np.argsort(-abs(shared))[:5]:
        assert run(f"{index:02}.parquet").usual
    assert run("[0-9]*.parquet", pool_nights=30).usual


def test_the_log_of_drift_tells_how_much_nights_differ(fitted: Path) -> None:
    """Of one night it says that it is worth more than is assumed; nights that differ less are asked for less."""
    frame = night(1, shift=1.0)
    assert run(frame).evidence.known == "assumed"
    assert run(frame).usual
    night(5, rows=1000).write_parquet("first.parquet")
    calcli.evaluate("first.parquet", drift="m", metrics="nll")
    learned("m.drift.json")
    found = run(frame)
    assert (found.evidence.known, found.kept) == ("log", None)


@pytest.mark.parametrize("method", ["platt", pytest.param("isotonic", marks=pytest.mark.slow)])
def test_calibration_that_has_not_moved_is_not_given_away(here: Path, method: str) -> None:
    """Nights of a fifth of the rows of the fit; some of them look better, and on average they are worse."""
    calcli.fit(night(0, rows=2500), method=method, output="m", metrics="nll", holdout="cv:2")
    results = [run(night(100 + index, rows=500)) for index in range(12)]
    assert all(result.usual for result in results)
    gains = [result.evidence.evidence for result in results]
    assert max(gains) > 0 > np.mean(gains)


def test_pooled_nights_show_what_no_single_one_does(here: Path) -> None:
    """A shift of 0.5 in 200 rows a night: 4.2 nats each, less what the fit costs."""
    calcli.fit(night(0, rows=5000), method="platt", output="m")
    for index in range(12):
        night(200 + index, rows=200, shift=0.5).write_parquet(f"{index:02}.parquet")
    assert all(run(f"{index:02}.parquet").usual for index in range(0, 12, 3))
    assert run("[0-9]*.parquet", pool_nights=12).kept is None
    assert calcli.load("m").manifest.fit["rows"] == 2400


def test_of_a_pool_the_last_files_by_name_are_read(fitted: Path) -> None:
    for index in (3, 1, 2):
        night(index, rows=100 * index, shift=3.0).write_csv(f"{index}.csv", separator="|")
    result = run("[0-9]*.csv", pool_nights=2)
    assert [file["path"] for file in result.report.data.files] == ["2.csv", "3.csv"]
    assert result.report.data.rows == 500
    assert run("[0-9]*.csv", pool_nights=9).report.data.rows == 600
    with pytest.raises(UsageError, match="--pool-nights 2 counts files, and the frame is none"):
        run(night(1), pool_nights=2)
    with pytest.raises(UsageError, match="at least one"):
        run("[0-9]*.csv", pool_nights=0)


def test_nights_that_were_fitted_on_are_not_compared_on_again(fitted: Path) -> None:
    """A window moves on by a night; one of its nights has no rows."""
    for index in range(4):
        night(index, rows=0 if index == 2 else 1000, shift=3.0).write_csv(f"{index}.csv", separator="|")
    assert run("[0-9]*.csv", pool_nights=4).kept is None
    night(9, rows=1000, shift=3.0).write_csv("4.csv", separator="|")
    result = run("[0-9]*.csv", pool_nights=4)
    assert [one.message for one in result.report.warnings] == [
        "2,000 of 3,000 rows were in the files that the artifact in place was fitted on, "
        "and are left out of the comparison"
    ]


def test_rows_without_a_label_are_left_out_where_that_is_asked_for(fitted: Path) -> None:
    """As the hint of the refusal says: the same evidence as without these rows."""
    late = night(1).with_columns(pl.when(pl.int_range(pl.len()) % 4 > 0).then("label").alias("label"))
    with pytest.raises(DataError, match="1,000 bad rows of 4,000: the label is missing"):
        run(late)
    result, without = run(late, bad_rows="null"), run(late.drop_nulls("label"))
    assert result.report.data.rows_bad == 1000
    assert result.evidence == without.evidence


def test_a_handful_of_rows_says_nothing_about_the_labels(fitted: Path) -> None:
    """As well ranked as at the fit, but too few for that to be beyond chance: a usual night, without a warning."""
    rows = pl.DataFrame({"label": [0, 0, 1], "logit": [-1.0, 0.0, 1.0]})
    assert run(rows).usual


@pytest.mark.parametrize("wrong", ["labels may be wrong", "of one class"])
def test_a_night_of_wrong_labels_is_found_among_others(fitted: Path, wrong: str) -> None:
    """Beside nine others its scores still rank the labels of all rows together."""
    for index in range(10):
        frame = night(index, rows=500)
        label = frame["label"].to_numpy()
        if index == 9:
            label = np.random.default_rng(0).permutation(label) if wrong == "labels may be wrong" else 0 * label
        frame.with_columns(label=pl.Series(label)).write_parquet(f"{index}.parquet")
    before = contents("m")
    result = run("[0-9]*.parquet", pool_nights=10)
    assert wrong in (result.kept or "")
    assert "9.parquet" in (result.kept or "")
    assert not result.usual
    assert contents("m") == before


def test_a_small_night_of_one_class_is_no_reason(fitted: Path) -> None:
    night(1, shift=3.0).write_parquet("1.parquet")
    night(2, rows=5).with_columns(label=pl.lit(0, dtype=pl.Int8)).write_parquet("2.parquet")
    assert run("[0-9]*.parquet").kept is None


def test_better_than_the_one_in_place_is_not_enough(fitted: Path) -> None:
    """The scores are right by now, the one in place is far off, and fine bins of few rows are worse than nothing."""
    right = (pl.col("logit") - 0.5) / 2
    calcli.fit(night(0, shift=3.0).with_columns(right), method="histogram", output="m", params={"bins": 20})
    before = contents("m")
    result = run(night(1, rows=400).with_columns(right))
    assert result.evidence.lacking("histogram") is None
    (gap,) = (
        one.value
        for one in result.report.differences
        if (one.score, one.versus, one.metric) == ("histogram", "raw", "nll")
    )
    assert gap > result.guard.margin == pytest.approx(MARGIN * result.report.value("raw", "nll"))
    assert "worse than no calibration" in (result.kept or "")
    assert not result.usual
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
    REPORT_SCHEMA.validate(json.loads(json.dumps(result.report.to_json(), allow_nan=False)))


def test_rows_of_the_fit_in_place_are_not_judged_on(fitted: Path) -> None:
    night(0).write_parquet("monday.parquet")
    night(7, shift=3.0).write_parquet("tuesday.parquet")
    calcli.fit("monday.parquet", method="platt", output="m")
    result = run(["monday.parquet", "tuesday.parquet"])
    assert [warned.code for warned in result.report.warnings] == ["seen-before"]
    assert result.kept is None
    assert calcli.load("m").manifest.fit["holdout"]["rows"] == 4000
    assert calcli.load("m").manifest.fit["rows"] == 8000
    again = run(["monday.parquet", "tuesday.parquet"])
    assert "favours it in the comparison" in again.report.warnings[0].message


def test_rollback_brings_the_last_one_back(fitted: Path) -> None:
    before = calcli.load("m").predict(night(9))
    run(night(1, shift=3.0))
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
    calcli.fit(night(0), output="m", simple=True, holdout="cv:2")
    assert calcli.load("m").manifest.requested == "auto"
    run(night(1, shift=3.0))
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
    assert "the labels may be wrong" in (result.kept or "")
    assert result.report.value("platt", "nll") < result.report.value(IN_PLACE, "nll")  # the comparison alone is fooled
    assert contents("m") == before
    calcli.fit(shuffled, method="platt", output="never")  # scores that never said anything may go on saying nothing
    assert refit(RefitRequest("never", shuffled)).usual


def test_labels_that_have_not_come_in_are_noticed(fitted: Path) -> None:
    before = contents("m")
    kept = run(night(8).with_columns(label=pl.lit(0, dtype=pl.Int8))).kept
    assert "the others may not have come in yet" in (kept or "")
    assert contents("m") == before


def test_the_guard_against_wrong_labels_needs_no_metric_of_the_report(here: Path) -> None:
    calcli.fit(night(0), method="platt", output="m", metrics="nll")
    frame = night(8)
    shuffled = frame.with_columns(label=pl.Series(np.random.default_rng(0).permutation(frame["label"].to_numpy())))
    assert "the labels may be wrong" in (run(shuffled).kept or "")


def test_more_classes_are_guarded_too(here: Path) -> None:
    frame = breeds(3000)
    calcli.fit(frame, method="temperature", output="m")
    assert run(breeds(3000, seed=1)).usual
    shuffled = frame.with_columns(label=pl.Series(np.random.default_rng(0).permutation(frame["label"].to_numpy())))
    assert "the labels may be wrong" in (run(shuffled).kept or "")


def test_units_are_those_of_the_recipe_or_others(here: Path) -> None:
    def table(seed: int, shift: float = 0.0) -> pl.DataFrame:
        return night(seed, shift=shift).with_columns(
            user=pl.Series(np.arange(4000) % 80), minute=pl.Series(np.arange(4000))
        )

    calcli.fit(table(0), method="platt", output="m", resample_by="user")
    by_user, by_minute = run(table(1)), run(table(2, shift=3.0), order_by="minute")
    assert by_minute.kept is None
    assert by_user.report.data.units == {"column": "user", "count": 80, "in_order": False}
    assert by_minute.report.data.units == {"column": "minute", "count": 4000, "in_order": True}
    recipe = calcli.load("m").manifest.recipe
    assert (recipe["resample_by"], recipe["order_by"]) == (None, "minute")
