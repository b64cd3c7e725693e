from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm
from sklearn.metrics import log_loss

import calcli
from calcli.batch import Batch
from calcli.errors import DataError, UsageError
from calcli.methods import calibrator, catalog
from calcli.methods.scaling.linear import Platt, Temperature
from calcli.metrics.base import Scored
from calcli.metrics.paired import paired
from calcli.metrics.proper import nll
from calcli.models import model_selection, workers
from calcli.numeric.seeded import folds, stream
from calcli.reports.schema import Difference
from calcli.verbs.compare import CompareRequest, compare
from tests.support.reports import REPORT_SCHEMA
from tests.support.samples import breeds, clicks

FEW = "platt,temperature,histogram"


def run(data: object, **options: object):
    return compare(CompareRequest(data, **{"methods": FEW, **options}))  # type: ignore[arg-type]


def test_all_methods_predict_the_same_rows_out_of_fold(here: Path) -> None:
    report = run("train.parquet", seed=4).report
    assert [score.name for score in report.scores] == ["identity", "temperature", "platt", "histogram"]
    frame = clicks()
    batch = Batch(frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64))
    fold = folds(len(batch), 5, stream(4, "folds"))
    for name in ("platt", "histogram"):
        row, prob = catalog.find(name), np.empty(len(batch))
        for index in range(5):
            fitted = calibrator.fit(row, batch.take(fold != index), row.resolve())
            prob[fold == index] = fitted.predict(batch.take(fold == index))
        assert report.value(name, "nll") == pytest.approx(log_loss(batch.labels, prob), rel=1e-9)
    assert report.value("identity", "nll") == pytest.approx(
        log_loss(batch.labels, 1 / (1 + np.exp(-batch.score))), rel=1e-9
    )


def test_differences_are_to_no_calibration_and_to_the_chosen(here: Path) -> None:
    result = run("train.parquet")
    assert result.choice.name == "platt"
    pairs = {(each.score, each.versus) for each in result.report.differences if each.metric == "nll"}
    names = {"temperature", "platt", "histogram"}
    assert pairs == {(name, "identity") for name in names} | {
        (name, "platt") for name in {"identity", *names} - {"platt"}
    }
    gain = next(each for each in result.report.differences if each.metric == "nll" and each.score == "platt")
    assert gain.hi < 0


def test_its_interval_is_that_of_a_fit_on_the_same_folds(here: Path) -> None:
    """Both are wider than those of the rows alone: the folds have fitted each other's calibrators."""
    rows = clicks().head(300)
    compared, fitted = run(rows).report, calcli.fit(rows, method="platt").report
    one, other = (
        next(each for each in report.differences if (each.score, each.versus, each.metric) == ("platt", raw, "nll"))
        for report, raw in ((compared, "identity"), (fitted, "raw"))
    )
    assert (one.value, one.lo, one.hi, one.p) == pytest.approx((other.value, other.lo, other.hi, other.p))
    batch = Batch(rows["logit"].to_numpy(), rows["label"].to_numpy().astype(np.int64))
    fold, spec = folds(300, 5, stream(0, "folds")), catalog.find("platt")
    prob = np.empty(300)
    for index in range(5):
        calibrated = calibrator.fit(spec, batch.take(fold != index), spec.resolve())
        prob[fold == index] = calibrated.predict(batch.take(fold == index))
    label, raw = batch.labels, 1 / (1 + np.exp(-batch.score))
    alone = paired(Scored(label, prob), Scored(label, raw), nll.rows)
    assert one.value == pytest.approx(alone.value)
    assert one.hi - one.lo > 1.02 * (alone.hi - alone.lo)


def test_the_report_keeps_to_the_schema(here: Path) -> None:
    for frame in (clicks(), breeds()):
        report = run(frame, methods="platt,isotonic").report
        REPORT_SCHEMA.validate(json.loads(json.dumps(report.to_json(), allow_nan=False)))


@pytest.mark.slow
def test_nothing_beats_scores_that_are_right() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(-1, 1.5, 3000)
    frame = pl.DataFrame({"label": (rng.random(3000) < 1 / (1 + np.exp(-z))).astype(int), "logit": z})
    result = run(frame, methods="all")
    assert result.choice.name == "identity"
    assert "no calibration" in result.choice.why


@pytest.mark.slow
def test_the_simplest_within_one_standard_error_is_chosen() -> None:
    """A factor is what was done to the scores: nothing with more than a slope and an intercept is worth it."""
    rng = np.random.default_rng(1)
    z = rng.normal(0, 1.5, 4000)
    frame = pl.DataFrame({"label": (rng.random(4000) < 1 / (1 + np.exp(-z))).astype(int), "logit": 3 * z})
    assert run(frame, methods="all").choice.name in ("temperature", "platt")


def test_a_method_that_fails_is_a_row_with_its_reason(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise FloatingPointError("sparks")

    monkeypatch.setattr(Platt, "gather", explode)
    report = run("train.parquet").report
    assert report.score("platt").status == "failed"
    assert report.score("platt").reason == "FloatingPointError: sparks"
    assert report.score("histogram").status == "ok"
    REPORT_SCHEMA.validate(report.to_json())


def test_the_budget_skips_all_but_the_identity(here: Path) -> None:
    report = run("train.parquet", budget=0.0).report
    statuses = {score.name: score.status for score in report.scores}
    assert statuses == {"identity": "ok", "temperature": "skipped", "platt": "skipped", "histogram": "skipped"}
    assert "budget" in [warned.code for warned in report.warnings]


def test_a_slow_method_ends_with_its_fold(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second with each fit."""
    finish, seconds = Temperature.finish, [0.0]

    def slow(*args: object):
        seconds[0] += 1.0
        return finish(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Temperature, "finish", slow)
    for module in (model_selection, workers):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    report = run("train.parquet", methods="temperature", budget=1.5).report
    assert report.score("temperature").status == "skipped"
    assert seconds == [2.0]


def test_groups_stay_together_and_time_goes_forward(here: Path) -> None:
    """One label per group, and scores that know only the group: rows that leak across folds would be predicted."""
    rng = np.random.default_rng(2)
    group = np.repeat(np.arange(100), 20)
    frame = pl.DataFrame(
        {
            "group": group,
            "label": (rng.random(100) < 0.5).astype(int)[group],
            "logit": rng.normal(0, 1, 100)[group],
            "day": rng.permutation(2000) // 50,
        }
    )
    memory = {"methods": "histogram", "params": {"histogram.bins": 1000}}
    assert run(frame, **memory).report.value("histogram", "nll") < 0.3
    assert run(frame, resample_by="group", **memory).report.value("histogram", "nll") > 0.6
    ordered = run(frame, methods="isotonic", order_by="day", folds=3).report
    assert ordered.data.rows == 2000
    assert ordered.value("identity", "nll") is not None


def test_select_keeps_the_choice_fitted_on_all_rows(here: Path) -> None:
    result = run("train.parquet", select="best")
    assert result.selected is not None
    assert result.report.artifact == "best"
    model = calcli.load("best")
    assert model.method == result.choice.name
    row = catalog.find(model.method)
    frame = clicks()
    batch = Batch(frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64))
    np.testing.assert_array_equal(model.predict(frame), calibrator.fit(row, batch, row.resolve()).predict(batch))


def test_parameters_go_to_their_method(here: Path) -> None:
    one = run("train.parquet", params={"histogram.bins": "3"}).report
    other = run("train.parquet").report
    assert one.value("histogram", "nll") != other.value("histogram", "nll")
    assert one.value("platt", "nll") == other.value("platt", "nll")


def test_what_is_asked_wrongly_is_named(here: Path) -> None:
    with pytest.raises(UsageError, match="'platt'"):
        run("train.parquet", methods="plat")
    with pytest.raises(UsageError, match="not compared"):
        run("train.parquet", methods="platt", params={"histogram.bins": 3})
    with pytest.raises(UsageError, match="--order-by"):
        run("train.parquet", order_by="age", resample_by="age")
    with pytest.raises(DataError, match="'age'"):
        run("train.parquet", resample_by="agee")


@pytest.mark.parametrize("by", [None, "age"])
def test_how_sure_the_choice_is(here: Path, by: str | None) -> None:
    result = run("train.parquet", resample_by=by)
    rows = result.report.scores
    assert sum(row.best for row in rows) == pytest.approx(1.0)
    best = min(rows, key=lambda row: row.metrics["nll"].value)
    assert best.as_good
    assert best.best == max(row.best for row in rows)
    assert not result.report.score("identity").as_good
    page = json.loads(json.dumps(result.report.to_json(), allow_nan=False))
    REPORT_SCHEMA.validate(page)


def test_the_gain_of_the_winner_allows_for_the_choice(here: Path) -> None:
    """Of m methods the end that luck has moved is the one of an interval at 1 - 0.05 / m (Bonferroni)."""

    def gain(methods: str) -> Difference:
        result = run("train.parquet", methods=methods)
        assert result.choice.name == "platt"
        about = ("platt", "identity", "nll")
        (one,) = (one for one in result.report.differences if (one.score, one.versus, one.metric) == about)
        return one

    alone, among = gain("platt"), gain("platt,isotonic,histogram,bbq")
    assert alone.value == among.value
    assert alone.lo == among.lo
    assert alone.value is not None
    assert alone.hi is not None
    assert among.hi is not None
    assert among.hi - alone.value == pytest.approx((alone.hi - alone.value) * norm.isf(0.025 / 4) / norm.isf(0.025))


def test_the_reason_quotes_no_losses(here: Path) -> None:
    """`fit` says the reason above its report, which may be of other rows and folds: one number for one thing."""
    result = run("train.parquet", methods="platt,isotonic")
    assert "lowest held-out log-loss" in result.choice.why
    for row in result.report.scores:
        assert f"{row.metrics['nll'].value:.3f}"[1:] not in result.choice.why


def test_the_criterion_decides_and_a_calibration_error_is_refused(here: Path) -> None:
    result = run("train.parquet", criterion="brier")
    assert "Brier score" in result.choice.why
    for name in ("ece", "mvce"):
        with pytest.raises(UsageError, match="a constant prediction, the base rate, has a calibration error near 0"):
            run("train.parquet", criterion=name)
        with pytest.raises(UsageError, match="choose by nll, brier"):
            calcli.fit("train.parquet", criterion=name)
    with pytest.raises(UsageError, match="only means over rows"):
        run("train.parquet", criterion="auc")
