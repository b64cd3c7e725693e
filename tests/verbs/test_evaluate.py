from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import numpy as np
import polars as pl
import pytest
from sklearn.metrics import log_loss

import calcli
from calcli.errors import ArtifactError, DataError, UsageError
from calcli.metrics.paired import paired_difference
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks


@pytest.fixture
def fitted(here: Path, fit_once: Callable[..., None]) -> Path:
    fit_once("train.parquet", "train.platt", method="platt")
    fit_once("train.parquet", "models/iso", method="isotonic")
    return here


def test_raw_and_each_artifact_stand_side_by_side(fitted: Path) -> None:
    report = calcli.evaluate("test.parquet", artifacts=("train.platt", "best=models/iso"))
    assert [score.name for score in report.scores] == ["raw", "train.platt", "best"]
    frame = clicks(seed=1)
    for name, path in (("train.platt", "train.platt"), ("best", "models/iso")):
        prob = calcli.load(path).predict(frame)
        assert report.value(name, "nll") == pytest.approx(log_loss(frame["label"], prob), rel=1e-12)


def test_differences_are_paired_with_the_raw_score(fitted: Path) -> None:
    report = calcli.evaluate("test.parquet", artifacts=("train.platt",), metrics="nll,auc")
    nll, auc = report.differences
    frame = clicks(seed=1)
    label = frame["label"].to_numpy()

    def losses(prob: np.ndarray) -> np.ndarray:
        return -np.log(np.where(label == 1, prob, 1 - prob))

    gap = losses(calcli.load("train.platt").predict(frame)) - losses(1 / (1 + np.exp(-frame["logit"].to_numpy())))
    error = gap.std(ddof=1) / np.sqrt(len(gap))
    assert (nll.score, nll.versus, nll.metric) == ("train.platt", "raw", "nll")
    assert nll.value == pytest.approx(gap.mean(), rel=1e-9)
    assert nll.hi - nll.lo == pytest.approx(2 * 1.959964 * error, rel=0.02)  # skewness moves both ends
    exact = paired_difference(gap, np.zeros(len(gap)), None)
    assert (nll.lo, nll.hi) == pytest.approx((exact.lo, exact.hi), rel=1e-6)
    assert nll.p < 1e-6
    assert auc.value == pytest.approx(report.value("train.platt", "auc") - report.value("raw", "auc"))
    assert auc.lo is None


def test_a_score_that_differs_by_rounding_differs_by_nothing() -> None:
    prob = np.array([0.1, 0.2, 0.3, 0.4])
    frame = pl.DataFrame({"label": [0, 1, 0, 1], "prob": prob, "again": prob * (1 + 3e-16)})
    report = calcli.evaluate(frame, scores=("again",), metrics="nll,brier", fail_if=("nll.diff > 0 or nll.diff < 0",))
    assert report.value("again", "nll") != report.value("raw", "nll")
    assert [(one.value, one.lo, one.hi, one.p) for one in report.differences] == [(0.0, 0.0, 0.0, 1.0)] * 2
    assert report.gates[0]["passed"]


@pytest.mark.parametrize("frame", [clicks(), breeds()], ids=["binary", "multiclass"])
def test_every_report_keeps_to_the_schema(here: Path, frame) -> None:
    fitted = calcli.fit(frame, method="temperature", output="m").report
    for report in (fitted, calcli.evaluate(frame), calcli.evaluate(frame, artifacts=("m",))):
        text = json.dumps(report.to_json(), allow_nan=False)
        REPORT_SCHEMA.validate(json.loads(text))
        assert json.loads(text) == report.to_json()


def test_the_schema_is_strict_enough_to_fail(here: Path) -> None:
    plain = calcli.evaluate(clicks()).to_json()
    for broken in ({"seed": "0"}, {"scores": {}}, {"schema": "calcli.report/2"}, {"curves": {}}):
        with pytest.raises(jsonschema.ValidationError):
            REPORT_SCHEMA.validate(plain | broken)
    missing = {key: value for key, value in plain.items() if key != "definitions"}
    with pytest.raises(jsonschema.ValidationError):
        REPORT_SCHEMA.validate(missing)


def test_names_are_unique_and_raw_is_taken(fitted: Path) -> None:
    with pytest.raises(UsageError, match="two scores"):
        calcli.evaluate("test.parquet", artifacts=("train.platt", "train.platt"))
    with pytest.raises(UsageError, match="uncalibrated"):
        calcli.evaluate("test.parquet", artifacts=("raw=train.platt",))
    with pytest.raises(ArtifactError):
        calcli.evaluate("test.parquet", artifacts=("nowhere",))


def test_an_unseen_label_is_refused(fitted: Path) -> None:
    frame = clicks(seed=1)
    frame[5, "label"] = 2
    with pytest.raises(DataError, match="2"):
        calcli.evaluate(frame, artifacts=("train.platt",))


def test_one_class_alone_still_has_a_log_loss(fitted: Path) -> None:
    report = calcli.evaluate(clicks().filter(label=1), artifacts=("train.platt",))
    assert report.value("raw", "nll") > 0
    auc = report.score("raw").metrics["auc"]
    assert auc.value is None
    assert auc.reason
