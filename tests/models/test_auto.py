from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.batch import Batch
from calcli.errors import UsageError
from calcli.listener import SILENT
from calcli.methods import calibrator, catalog, pool
from calcli.methods.catalog import candidates_for
from calcli.models import auto as selection
from calcli.models import held_out, learn
from calcli.models.recipe import Recipe
from calcli.numeric.losses import log_loss
from calcli.reports.schema import Report
from tests.support.cases import wrong_by_feature
from tests.support.samples import breeds, clicks


def test_it_is_the_default_and_says_what_it_chose(here: Path) -> None:
    result = calcli.fit("train.parquet")
    assert result.path == Path("train.auto")
    manifest = calcli.load("train.auto").manifest
    assert manifest.requested == "auto"
    assert manifest.method == result.report.chosen
    assert manifest.method in {row.name for row in candidates_for(2)}
    assert [warned.code for warned in result.report.warnings] == ["choice"]
    assert result.report.value(manifest.method, "nll") < result.report.value("raw", "nll")


def test_no_calibration_stays_where_nothing_beats_it() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(-1, 1.5, 3000)
    frame = pl.DataFrame({"label": (rng.random(3000) < 1 / (1 + np.exp(-z))).astype(int), "logit": z})
    result = calcli.fit(frame, guard="nll")
    assert result.report.chosen == "identity"
    assert result.refused is None


def test_the_identity_is_on_every_short_list() -> None:
    for classes in (2, 3):
        names = [row.name for row in candidates_for(classes)]
        assert names[0] == "identity"
        assert len(names) >= 3


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    run = selection.cross_validate

    def watch(candidates, batch, *args, **options):
        sizes.append(len(batch))
        return run(candidates, batch, *args, **options)

    monkeypatch.setattr(selection, "cross_validate", watch)
    monkeypatch.setattr(selection.pool, "MOST_ROWS", 500)
    calcli.fit(clicks(2000).select("label", "logit"))
    assert sizes == [500]


@pytest.mark.parametrize(("how", "few", "dealt"), [({}, 300, 2), ({}, 299, 1), ({"budget": 60.0}, 300, 1)])
def test_what_is_undecided_is_dealt_again(
    how: dict[str, Any], few: int, dealt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where rows are few, once and with the settings that are known; every gain is undecided if much is asked for."""
    seen, known = [], []
    run = selection.cross_validate

    def watch(candidates, batch, splits, **options):
        seen.append((splits.folds.fold_of, options.get("settle", False)))
        return run(candidates, batch, splits, **options)

    monkeypatch.setattr(selection, "cross_validate", watch)
    monkeypatch.setattr(selection, "EVIDENCE", 1e6)
    monkeypatch.setattr(selection, "OFF", 0.0)
    monkeypatch.setattr(selection, "FEW", few)
    monkeypatch.setattr(learn.FitOutcome, "allowing_for_choice", lambda self, _: known.append(self.deals) or ())
    assert calcli.fit(clicks(300).select("label", "logit"), **how).report.chosen == "identity"
    assert [settle for _, settle in seen] == [True, False][:dealt]
    assert [one is not None for one in known] == [dealt == 2]
    assert (np.diff([fold for fold, _ in seen], axis=0) != 0).any(axis=1).all()


@pytest.mark.parametrize(("rows", "holdout"), [(200, "cv:5"), (300, "cv:3"), (400, "0.2")])
def test_the_more_rows_the_fewer_folds(rows: int, holdout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of a method that chooses its settings by the rows that are held out; others are cheap enough."""
    (_, few), (_, many) = held_out.FEWER_FOLDS
    monkeypatch.setattr(held_out, "FEWER_FOLDS", ((200, few), (300, many)))
    given = [({"holdout": "cv:4"}, "cv:4")] * (rows == 400)
    few_methods = clicks(rows).select("label", "logit")
    for how, scheme in (({}, holdout), *given, ({"method": "forest"}, holdout)):
        table = clicks(rows) if "method" in how else few_methods
        found = calcli.fit(table, **how).model.manifest.fit["holdout"]
        assert (found["scheme"], found["refit_on_all"]) == (scheme, True)
    assert calcli.fit(clicks(rows), method="platt").model.manifest.fit["holdout"]["scheme"] == "cv:5"


def test_what_was_found_in_the_comparison_is_not_fitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learn, "predict_held_out", None)
    monkeypatch.setattr(learn, "calibrator", None)
    assert calcli.fit(clicks(500)).report.chosen != "identity"
    assert calcli.fit(clicks(500), method="pool").report.chosen == "pool"
    with pytest.raises(AttributeError):
        calcli.fit(clicks(), method="platt")


def test_the_report_of_a_pool_is_the_mixture_by_the_weights_of_the_other_folds() -> None:
    """Whether or not it is shown to help; members are those that are named."""
    rng = np.random.default_rng(3)
    z = rng.normal(-1, 1.5, 600)
    frame = pl.DataFrame({"label": (rng.random(600) < 1 / (1 + np.exp(-z))).astype(int), "logit": z})
    fitted = calcli.fit(frame, method="pool", params={"members": "platt,beta"}, metrics="nll")
    assert [warned.code for warned in fitted.report.warnings if warned.code == "choice"] == []
    batch = Batch(z, frame["label"].to_numpy().astype(np.int64))
    splits = held_out.split_rows(600, held_out.Holdout("cv", folds=5), 0)
    specs = [catalog.find(name) for name in ("identity", "platt", "beta")]
    prob = {
        spec.name: held_out.predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)[0].prob
        for spec in specs
    }
    mixed = np.empty(600)
    for test in splits.tests:
        others = pool.weigh({name: one[~test] for name, one in prob.items()}, batch.labels[~test])
        mixed[test] = pool.mixed({name: one[test] for name, one in prob.items()}, others)
    expected = float(log_loss(mixed, batch.labels).mean())
    assert fitted.report.value("pool", "nll") == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    "name",
    ["forest", *(pytest.param(name, marks=pytest.mark.slow) for name in ("boost", "mbct", "heterogeneous", "ccl"))],
)
def test_the_report_of_a_method_alone_is_what_it_has_predicted_on_the_way(name: str) -> None:
    """No split is fitted again, and the calibrator is that of all rows."""
    spec, batch = catalog.find(name), wrong_by_feature(500)
    splits = held_out.split_rows(500, held_out.Holdout("cv", folds=5), 0)
    expected = calibrator.settle(spec, batch, spec.resolve(), list(splits))
    assert sorted(expected.of_splits) == [0, 1, 2, 3, 4]
    found = learn.learn(Recipe(method=name), batch, ("0", "1"), seed=0, listener=SILENT)
    np.testing.assert_array_equal(found.calibrator.predict(batch), expected.fitted.predict(batch))
    for place, test in enumerate(splits.tests):
        np.testing.assert_array_equal(found.predicted[test], expected.of_splits[place].predict(batch.take(test)))


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"holdout": "0.2"}, {"holdout": "cv:3"}, {"prior_shift": "0.02"}, {"exact": True}])
def test_its_report_is_that_of_the_method_that_it_chose(how: dict[str, Any]) -> None:
    """Where it is a single one: the weights of a pool come from other rows when it is fitted by itself."""
    rows = clicks(seed=1)
    report = calcli.fit(rows, **how).report
    assert report.chosen != "pool"
    assert_same_numbers(report, calcli.fit(rows, method=report.chosen, **how).report)


def assert_same_numbers(one: Report, other: Report) -> None:
    assert one.chosen == other.chosen != "identity"
    for score in ("raw", one.chosen):
        for metric in ("nll", "brier", "auc", "ece", "mvce"):
            assert one.value(score, metric) == other.value(score, metric)


def test_more_classes_are_chosen_for_too() -> None:
    assert calcli.fit(breeds()).report.chosen in {row.name for row in candidates_for(4)} - {"identity"}


def test_parameters_name_their_method() -> None:
    with pytest.raises(UsageError, match=r"METHOD\.bins"):
        calcli.fit(clicks(), params={"bins": 5})
    with pytest.raises(UsageError, match="one method"):
        calcli.fit(clicks(), preset="paper")
    with pytest.raises(UsageError, match="'bins'"):
        calcli.fit(clicks(), params={"histogram.bin": 5})
    with pytest.raises(UsageError, match="histogram"):
        calcli.fit(clicks(), method="platt", params={"histogram.bins": 5})
    prefixed = calcli.fit(clicks(), method="histogram", params={"histogram.bins": 5})
    assert prefixed.model.manifest.params["bins"] == 5


def test_a_guard_keeps_what_is_worse_from_being_kept(here: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"label": np.arange(400) % 2, "logit": rng.normal(0, 1e-3, 400)})
    before = set(here.iterdir())
    result = calcli.fit(frame, method="histogram", output="m", guard="nll")
    assert "nothing was saved" in result.refused
    assert result.path is None
    assert set(here.iterdir()) == before
    assert calcli.fit(clicks(), method="isotonic", output="m", guard="nll").path == Path("m")
    with pytest.raises(UsageError, match="add it to metrics="):
        calcli.fit(clicks(), method="platt", guard="nll", metrics="auc")
    with pytest.raises(UsageError, match="held-out rows"):
        calcli.fit(clicks(), method="platt", guard="nll", holdout="none")


def test_every_method_of_the_short_list_is_in_the_catalog() -> None:
    assert {row.name for classes in (2, 3) for row in candidates_for(classes)} <= set(catalog.names())


def test_a_spent_budget_is_no_finding() -> None:
    report = calcli.fit(clicks(), budget=0.0).report
    assert report.chosen == "identity"
    said = {warned.code: warned.message for warned in report.warnings}
    assert "nothing was compared" in said["choice"]
    assert "platt" in said["budget"]


def test_two_days_are_one_test_of_the_second(here: Path) -> None:
    frame = clicks(400).with_columns(day=pl.int_range(pl.len()) // 200)
    report = calcli.fit(frame, order_by="day", metrics="nll", output="kept").report
    assert report.data.rows == 400
    assert report.value(calcli.load("kept").method, "nll") < report.value("raw", "nll")


def test_the_choice_can_do_what_it_must(tmp_path: Path) -> None:
    rows = clicks(1000)
    fitted = calcli.fit(rows, purpose="monotone", output=tmp_path / "kept")
    assert fitted.model is not None
    prob = fitted.model.predict(rows.sort("logit"))
    assert (np.diff(prob) >= 0.0).all()
    said = [one.message for one in fitted.report.warnings if one.code == "choice"]
    assert said[1].startswith("--for monotone costs ")
    assert calcli.load(tmp_path / "kept").manifest.recipe["purpose"] == "monotone"
    with pytest.raises(UsageError, match="purpose='sql': recal cannot do that") as refused:
        calcli.fit(rows, method="recal", purpose="sql")
    assert "platt" in str(refused.value.hint)
    with pytest.raises(UsageError, match="simple=True is for auto"):
        calcli.fit(rows, method="platt", simple=True)
