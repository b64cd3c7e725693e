"""Rows that count trials: k positives of n are n rows of ones and zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.errors import CalcliError
from calcli.reports.schema import Report

RNG = np.random.default_rng(0)
ROWS = 300
LOGIT = RNG.normal(-1, 1, ROWS)
TRIALS = RNG.integers(0, 9, ROWS)
CLICKS = RNG.binomial(TRIALS, 1 / (1 + np.exp(-0.6 * LOGIT)))
COUNTED = pl.DataFrame({"clicks": CLICKS, "shown": TRIALS, "logit": LOGIT, "place": RNG.choice(["a", "b"], ROWS)})
EACH = COUNTED.select(pl.col("logit", "place").repeat_by("shown").explode(empty_as_null=False)).with_columns(
    label=np.concatenate([np.repeat([1, 0], [k, n - k]) for k, n in zip(CLICKS, TRIALS, strict=True)])
)
FLAGS = {"positives": "clicks", "trials": "shown"}


def numbers(report: Report) -> dict[str, object]:
    whole = report.to_json()
    scores = {score["name"]: score["metrics"] for score in whole["scores"]}
    return {"scores": scores, **{name: whole[name] for name in ("differences", "groups", "curves")}}


@pytest.mark.parametrize("method", ["platt", "isotonic", "spline", "mbct", "effects"])
def test_a_fit_is_that_of_a_row_for_each_trial(method: str) -> None:
    ours = calcli.fit(COUNTED, method=method, holdout="cv:2", **FLAGS)
    own = calcli.fit(EACH, method=method, holdout="cv:2")
    for name, array in own.model.calibrator.state.arrays.items():
        np.testing.assert_array_equal(ours.model.calibrator.state.arrays[name], array)
    assert ours.report.data.rows == own.report.data.rows == TRIALS.sum()
    assert numbers(ours.report) == numbers(own.report)


def test_a_report_is_that_of_a_row_for_each_trial() -> None:
    asked = {"by": ("place",), "metrics": ("nll", "ece", "auc", "mvce")}
    assert numbers(calcli.evaluate(COUNTED, **FLAGS, **asked)) == numbers(calcli.evaluate(EACH, **asked))


def test_an_artifact_knows_its_counts(tmp_path: Path) -> None:
    calcli.fit(COUNTED, method="platt", output=tmp_path / "kept", **FLAGS)
    found = calcli.evaluate(COUNTED, artifacts=(tmp_path / "kept",))
    assert found.data.rows == TRIALS.sum()
    assert found.binding["features"] == []
    assert calcli.apply(tmp_path / "kept", COUNTED.drop("clicks", "shown")).frame.height == ROWS


def test_the_table_of_a_report_is_a_table(tmp_path: Path) -> None:
    """A bin, what was predicted there, the rows and their positives, as other tools report them."""
    bins = pl.DataFrame({"bin": [1, 2], "predicted": [0.1, 0.4], "positives": [9, 44], "rows": [100, 100]})
    found = calcli.evaluate(bins, prob="predicted", positives="positives", trials="rows", metrics=("ece",))
    assert found.scores[0].metrics["ece"].value == pytest.approx(0.5 * 0.01 + 0.5 * 0.04)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"clicks": CLICKS + TRIALS * (np.arange(ROWS) == 7)}, "more positives than trials (first in row 8)"),
        ({"shown": np.where(np.arange(ROWS) == 3, -1, TRIALS)}, "row 4"),
        ({"shown": TRIALS + 0.5}, "a count is no whole number"),
        ({"shown": pl.Series([None, *TRIALS[1:]])}, "the number of trials is missing (first in row 1)"),
    ],
)
def test_what_counts_nothing_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(CalcliError) as found:
        calcli.evaluate(COUNTED.with_columns(**{name: pl.Series(value) for name, value in change.items()}), **FLAGS)
    assert words in str(found.value)


def test_one_flag_without_the_other_is_refused() -> None:
    with pytest.raises(CalcliError, match="positives= goes with trials="):
        calcli.evaluate(COUNTED, positives="clicks")
    with pytest.raises(CalcliError, match="trials= counts rows, and so do weights"):
        calcli.evaluate(COUNTED.with_columns(w=2), **FLAGS, weight="w", weight_kind="counts")
