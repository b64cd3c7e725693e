"""The order of scores: AUC is that of the numbers given, and methods that keep the order keep it to the last digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB

import calcli
from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.models.held_out import Holdout, split_rows
from calcli.verbs import score_passes
from calcli.verbs.export import ExportRequest
from tests.support.export import applied, in_duckdb
from tests.support.samples import clicks

STRICT = ("identity", "temperature", "platt", "beta", "spline", "isotonic-centered", "sms")


def bayes(rows: int = 400, classes: int = 2, seed: int = 0) -> pl.DataFrame:
    """Naive Bayes on one number that is measured sixty times: it takes that for sixty reasons to be sure."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, classes, 2 * rows)
    once = rng.normal(0.9 * label, 1.0)
    many = once[:, None] + rng.normal(0, 0.3, (2 * rows, 60))
    model = GaussianNB().fit(many[:rows], label[:rows])
    prob, joint = model.predict_proba(many[rows:]), model.predict_joint_log_proba(many[rows:])
    columns = {f"prob_{k}": prob[:, k] for k in range(classes)} if classes > 2 else {"prob": prob[:, 1]}
    if classes == 2:
        columns["margin"] = joint[:, 1] - joint[:, 0]
    return pl.DataFrame({"label": label[rows:], **columns})


def in_sums(frame: pl.DataFrame, monkeypatch: pytest.MonkeyPatch, **options: object) -> float:
    monkeypatch.setattr(score_passes, "HELD", 10)
    return calcli.evaluate(frame, metrics="auc", **options).value("raw", "auc")


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_is_that_of_the_probabilities_given(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    frame = bayes()
    prob = frame["prob"].to_numpy()
    assert (prob < 1e-12).sum() > 50
    weight = np.random.default_rng(1).uniform(0.5, 2, len(frame)) if weighted else np.ones(len(frame))
    frame = frame.select("label", "prob", w=weight)
    flags = calcli.Flags(weight="w")
    expected = roc_auc_score(frame["label"], prob, sample_weight=weight)
    report = calcli.evaluate(frame, metrics="auc,pr_auc", flags=flags, bootstrap=20)
    assert report.value("raw", "auc") == pytest.approx(expected, rel=1e-13)
    assert report.value("raw", "pr_auc") == pytest.approx(
        average_precision_score(frame["label"], prob, sample_weight=weight), rel=1e-12
    )
    assert in_sums(frame, monkeypatch, flags=flags) == pytest.approx(expected, abs=1e-4)


def test_auc_is_that_of_the_logits_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which many are so large that their probabilities have rounded to 1."""
    frame = bayes().select("label", logit="margin")
    assert (frame["logit"] > 40).sum() > 50
    expected = roc_auc_score(frame["label"], frame["logit"])
    report = calcli.evaluate(frame, metrics="auc,pr_auc,nll", bootstrap=50)
    assert report.value("raw", "auc") == pytest.approx(expected, rel=1e-13)
    assert report.value("raw", "pr_auc") == pytest.approx(
        average_precision_score(frame["label"], frame["logit"]), rel=1e-12
    )
    entry = next(score for score in report.scores if score.name == "raw").metrics["auc"]
    assert entry.lo < expected < entry.hi
    assert in_sums(frame, monkeypatch) == pytest.approx(expected, abs=1e-4)


def test_two_columns_are_ranked_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """The complement tells rows apart where the probability has rounded to 1."""
    z = np.sort(np.random.default_rng(0).uniform(30, 90, 200))
    label = np.random.default_rng(1).integers(0, 2, 200)
    frame = pl.DataFrame({"label": label, "prob_0": 1 / (1 + np.exp(z)), "prob_1": 1 / (1 + np.exp(-z))})
    assert frame["prob_1"].n_unique() < 100
    assert calcli.evaluate(frame, metrics="auc").value("raw", "auc") == pytest.approx(roc_auc_score(label, z))


@pytest.mark.parametrize("kind", ["prob", "logit"])
def test_each_of_more_classes_is_ranked_by_the_numbers_given(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    frame = bayes(classes=3)
    prob = frame.select("prob_0", "prob_1", "prob_2").to_numpy()
    assert (prob < 1e-12).sum() > 50
    expected = np.mean([roc_auc_score(frame["label"] == k, prob[:, k]) for k in range(3)])
    if kind == "logit":
        v = np.log(prob)
        frame = pl.DataFrame({"label": frame["label"], **{f"logit_{k}": v[:, k] for k in range(3)}})
        others = [np.logaddexp(v[:, (k + 1) % 3], v[:, (k + 2) % 3]) for k in range(3)]
        expected = np.mean([roc_auc_score(frame["label"] == k, v[:, k] - others[k]) for k in range(3)])
    assert calcli.evaluate(frame, metrics="auc").value("raw", "auc") == pytest.approx(expected, rel=1e-12)
    assert in_sums(frame, monkeypatch) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("method", STRICT)
def test_a_method_that_keeps_the_order_keeps_scores_apart(here: Path, method: str) -> None:
    frame = bayes().select("label", "prob")
    calcli.fit(frame, method=method, output="kept", holdout="none")
    extremes = [0.0, 1e-300, 2e-300, 1e-100, 1e-13, 1e-12, 0.5, 1 - 1e-12, 1 - 1e-13, 1 - 1e-15, 1 - 2.0**-53, 1.0]
    prob = np.unique([*frame["prob"], *extremes])
    for scale in ("prob", "logit"):
        out = applied("kept", pl.DataFrame({"prob": prob}), scale=scale)["calibrated"].to_numpy()
        assert (np.diff(out) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic-centered"])
def test_sql_keeps_scores_apart_too(here: Path, method: str) -> None:
    frame = bayes().select("label", "prob")
    calcli.fit(frame, method=method, output="kept", holdout="none")
    table = pl.DataFrame({"prob": np.unique([0.0, 1e-300, *frame["prob"], 1 - 1e-14, 1 - 2.0**-53, 1.0])})
    for scale in ("prob", "logit"):
        got = in_duckdb(table, ExportRequest("kept", scale=scale))["calibrated"].to_numpy()
        np.testing.assert_allclose(got, applied("kept", table, scale=scale)["calibrated"], rtol=1e-9)


def test_logits_of_probabilities_say_these_probabilities(here: Path) -> None:
    calcli.fit(bayes().select("label", logit="margin"), method="platt", output="kept", holdout="none")
    table = pl.DataFrame({"logit": np.linspace(-900, 900, 301)})
    prob, z = (applied("kept", table, scale=scale)["calibrated"].to_numpy() for scale in ("prob", "logit"))
    np.testing.assert_allclose(z[prob < 0.5], np.log(prob[prob < 0.5]) - np.log1p(-prob[prob < 0.5]), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("method", STRICT)
@pytest.mark.parametrize("seed", range(2))
def test_a_method_that_keeps_the_order_keeps_the_held_out_auc(here: Path, method: str, seed: int) -> None:
    """Each fold has a calibrator of its own; rows are only ranked beside rows of their fold."""
    frame = clicks(150, seed).select("label", "logit")
    how = {"metrics": "auc,pr_auc", "seed": seed}
    report = calcli.fit(frame, method=method, output="kept", **how).report
    compared = calcli.compare(frame, methods=method, **how).report
    for metric in ("auc", "pr_auc"):
        assert report.value(method, metric) == pytest.approx(report.value("raw", metric), rel=1e-12)
        assert compared.value(method, metric) == pytest.approx(compared.value("identity", metric), rel=1e-12)
        assert compared.definitions[metric].approximation.endswith("within each held-out fold")


def test_held_out_auc_is_the_mean_over_folds_weighted_by_pairs(here: Path) -> None:
    frame = clicks(400)
    batch = Batch(frame["logit"].to_numpy(), frame["label"].to_numpy().astype(np.int64))
    report = calcli.fit(frame, method="histogram", metrics="auc", seed=4, output="kept").report
    splits, spec = split_rows(len(batch), Holdout("cv", folds=5), 4), catalog.find("histogram")
    areas, raw, pairs = [], [], []
    for index, test in enumerate(splits.tests):
        fitted = calibrator.fit(spec, batch.take(splits.train(index)), spec.resolve())
        label, prob = batch.labels[test], fitted.predict(batch.take(test))
        areas.append(roc_auc_score(label, prob))
        raw.append(roc_auc_score(label, batch.score[test]))
        pairs.append(label.sum() * (1 - label).sum())
    assert report.value("histogram", "auc") == pytest.approx(np.average(areas, weights=pairs), rel=1e-12)
    assert report.value("raw", "auc") == pytest.approx(np.average(raw, weights=pairs), rel=1e-12)
