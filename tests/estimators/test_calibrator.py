"""`Calibrator`: what the command line gives, for arrays, in scikit-learn's company."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import log_loss
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
)

import calcli
from calcli.artifacts import store
from calcli.cli.main import main
from calcli.errors import ArtifactError
from tests.support.samples import breeds, clicks, visits
from tests.support.shell import environment

CLICKS = clicks(1000)
LOGIT, LABEL = CLICKS["logit"].to_numpy(), CLICKS["label"].to_numpy()
PROB = expit(LOGIT)

TWO_TREES = {"trees": "2", "depth": "2", "min_rows": "20"}
"""Of mbct, so that it searches for little."""

VISITS = visits(600)
FEATURES = VISITS.drop("label", "logit")


def of_trees(features: Any, **settings: Any) -> calcli.Calibrator:
    """mbct, fitted on `VISITS` with these features."""
    return calcli.Calibrator("mbct", params=TWO_TREES, **settings).fit(VISITS["logit"], VISITS["label"], X=features)


def payloads(directory: Path) -> set[tuple[str, str]]:
    return {(payload.role, payload.sha256) for payload in store.describe(directory).payloads}


@pytest.mark.parametrize(
    ("method", "params", "table", "weight"),
    [
        ("platt", {}, clicks(800), "w"),
        ("isotonic", {}, clicks(800).with_columns(prob=1 / (1 + (-pl.col("logit")).exp())).drop("logit"), None),
        ("temperature", {}, breeds(800), None),
        ("mbct", TWO_TREES, visits(800), None),
    ],
)
def test_it_has_the_bytes_of_the_command_line(
    tmp_path: Path, method: str, params: dict[str, Any], table: pl.DataFrame, weight: str | None
) -> None:
    table.write_parquet(tmp_path / "rows.parquet")
    flags = [word for name, value in params.items() for word in ("--set", f"{name}={value}")]
    flags += ["--weight", weight] if weight else []
    rows, there = str(tmp_path / "rows.parquet"), str(tmp_path / "there")
    assert main(["fit", "-q", rows, "-m", method, "-o", there, "--seed", "3", *flags]) == 0
    columns = sorted(name for name in table.columns if name.startswith(("logit", "prob")))
    calibrator = calcli.Calibrator(method, params=params or None, random_state=3)
    features = table.drop(columns, "label", *([weight] if weight else []))
    calibrator.fit(
        table.select(columns).to_numpy(),
        table["label"],
        X=features,
        sample_weight=None if weight is None else table[weight],
    )
    calibrator.save(tmp_path / "here")
    assert payloads(tmp_path / "here") == payloads(tmp_path / "there")
    there = calcli.Calibrator.load(tmp_path / "there")
    scores = table.select(columns).to_numpy()
    assert np.array_equal(calibrator.predict_proba(scores, features), there.predict_proba(scores, features))
    assert clone(there).get_params() == calibrator.set_params(input=there.input).get_params()
    before, after = (calibrator.report_.score(name).metrics for name in ("raw", method))
    fitted = store.describe(tmp_path / "there").fit
    assert {name: one.value for name, one in before.items()} == fitted["before"]
    assert {name: one.value for name, one in after.items()} == fitted["after"]


def test_an_artifact_of_it_is_one_of_the_command_line(tmp_path: Path) -> None:
    calibrator = calcli.Calibrator("beta").fit(PROB, LABEL)
    calibrator.save(tmp_path / "kept")
    pl.DataFrame({"prob": PROB}).write_parquet(tmp_path / "new.parquet")
    kept, new, out = (str(tmp_path / name) for name in ("kept", "new.parquet", "out.parquet"))
    assert main(["apply", kept, new, "-o", out]) == 0
    written = pl.read_parquet(tmp_path / "out.parquet")["calibrated"].to_numpy()
    assert np.array_equal(written, calibrator.predict_proba(PROB)[:, 1])


@pytest.mark.parametrize(
    "given",
    [
        PROB[:, None],
        PROB.tolist(),
        np.column_stack([1 - PROB, PROB]),
        pl.Series(PROB),
        pl.Series(PROB).to_pandas(),
        pl.DataFrame({"a": 1 - PROB, "b": PROB}),
        pl.DataFrame({"a": 1 - PROB, "b": PROB}).to_pandas(),
        pl.DataFrame({"a": 1 - PROB, "b": PROB}).to_arrow(),
        pl.LazyFrame({"b": PROB}),
        LOGIT,
    ],
    ids=lambda given: type(given).__module__,
)
def test_scores_may_have_any_form(given: Any) -> None:
    fitted = calcli.Calibrator("platt", holdout="none").fit(given, LABEL)
    np.testing.assert_allclose(fitted.predict_proba(given), by_platt(), rtol=1e-9)


@cache
def by_platt() -> np.ndarray:
    return calcli.Calibrator("platt", holdout="none").fit(PROB, LABEL).predict_proba(PROB)


@pytest.mark.parametrize(
    "classes", [[-1, 1], [2, 7], ["no", "yes"], ["Positive", "negative"], [False, True], [0.0, 1.0]]
)
def test_the_second_class_is_the_positive_one(classes: list[Any]) -> None:
    calibrator = calcli.Calibrator("platt", holdout="none").fit(PROB, np.array(classes)[LABEL])
    assert calibrator.classes_.tolist() == classes
    assert np.array_equal(calibrator.predict_proba(PROB), by_platt())
    assert set(calibrator.predict(PROB)) <= set(classes)


def test_columns_are_in_the_order_of_the_classes(tmp_path: Path) -> None:
    """Also where an artifact has its positive class first."""
    table = pl.DataFrame({"label": np.array(["bad", "good"])[1 - LABEL], "prob": PROB})
    kept = tmp_path / "kept"
    calcli.fit(table, method="platt", flags=calcli.Flags(positive="bad"), output=kept)
    calibrator = calcli.Calibrator.load(kept)
    assert calibrator.classes_.tolist() == ["good", "bad"]
    assert np.array_equal(calibrator.predict_proba(PROB)[:, 1], calcli.load(kept).predict(table))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"scores": np.where(np.arange(1000) == 7, np.nan, PROB)}, "contain NaN, first in row 7"),
        ({"scores": np.where(np.arange(1000) == 3, np.inf, LOGIT)}, "contain infinity, first in row 3"),
        ({"scores": np.where(np.arange(1000) < 5, 1.2, PROB)}, "5 of 1,000 scores lie outside"),
        ({"scores": 100 * PROB}, "percentages, or logits"),
        ({"scores": np.column_stack([PROB, PROB])}, "not all rows sum to 1"),
        ({"scores": PROB[:-1]}, "999 rows, and y has 1,000"),
        ({"scores": np.column_stack([PROB / 2, PROB / 2, 1 - PROB])}, "3 columns, and 2 are expected"),
        ({"scores": PROB[:, None, None]}, "3 dimensions"),
        ({"scores": ["a"] * 1000}, "no numbers"),
        ({"y": np.zeros(1000)}, "one class only"),
        ({"y": np.linspace(0, 1, 1000)}, "continuous"),
        ({"y": np.where(LABEL == 1, np.nan, 0.0)}, "NaN"),
        ({"y": []}, "there are no rows"),
        ({"method": "plat"}, "did you mean 'platt'"),
        ({"params": {"a": 1}}, "no platt parameter 'a'"),
        ({"holdout": "cv:1"}, "at least 2 folds"),
        ({"guard": "nul"}, "no metric"),
        ({"input": "odds"}, "available: auto, logit, prob"),
        ({"method": "ccl"}, "no columns that can be features"),
    ],
)
def test_what_cannot_be_fitted_is_refused(given: dict[str, Any], text: str) -> None:
    settings = {"method": "platt"} | {name: value for name, value in given.items() if name not in ("scores", "y")}
    with pytest.raises(ValueError, match=text) as refused:
        calcli.Calibrator(**settings).fit(given.get("scores", PROB), given.get("y", LABEL))
    if "scores" in given:
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("stem", ["", "prob_"])
def test_columns_that_are_named_by_class_may_stand_in_any_order(stem: str) -> None:
    rng = np.random.default_rng(5)
    prob = rng.dirichlet(np.ones(3), 300)
    y = np.array(["ant", "cow", "dog"])[[rng.choice(3, p=row) for row in prob]]
    other = pl.DataFrame(prob[:, [2, 0, 1]], schema=[f"{stem}dog", f"{stem}ant", f"{stem}cow"])
    expected = calcli.Calibrator("temperature", holdout="none").fit(prob, y).predict_proba(prob)
    for frame in (other, other.to_pandas(), other.to_arrow()):
        found = calcli.Calibrator("temperature", holdout="none").fit(frame, y)
        assert np.array_equal(found.predict_proba(frame), expected)
        assert calcli.metrics.nll(y, frame) == calcli.metrics.nll(y, prob)
        given = ["dog", "ant", "cow"]
        assert calcli.metrics.nll(y, frame, labels=given) == calcli.metrics.nll(y, other.to_numpy(), labels=given)


@pytest.mark.parametrize("kind", [bool, int])
def test_labels_of_python_objects_are_those_of_their_type(kind: type) -> None:
    labels = LABEL.astype(kind)
    found, expected = (calcli.Calibrator("platt").fit(PROB, y) for y in (labels.astype(object), labels))
    assert found.classes_.dtype == expected.classes_.dtype
    assert found.score(PROB, labels.astype(object)) == expected.score(PROB, labels)


def test_other_columns_are_refused() -> None:
    calibrator = of_trees(FEATURES, holdout="none")
    with pytest.raises(ValueError, match="no column 'city'"):
        calibrator.predict_proba(VISITS["logit"], FEATURES.rename({"city": "town"}))
    with pytest.raises(ValueError, match="mbct reads features too: city, hours, age, member; give them as X="):
        calibrator.predict_proba(VISITS["logit"])
    with pytest.raises(ValueError, match="2 columns, and 1 is expected"):
        calibrator.predict_proba(np.zeros((5, 2)), FEATURES[:5])
    with pytest.raises(NotFittedError):
        calcli.Calibrator().predict([0.5])


def test_features_may_be_of_any_library() -> None:
    one, *others = (
        of_trees(frame, holdout="none").predict_proba(VISITS["logit"], frame)
        for frame in (FEATURES, FEATURES.to_pandas(), FEATURES.to_arrow())
    )
    assert all(np.array_equal(one, other) for other in others)
    numbers = VISITS.select("hours", "age").with_columns(pl.col("hours").fill_null(0.0))
    mixed = VISITS.select("city", "age").with_columns(pl.col("city").fill_null("")).to_numpy()
    for array in (numbers.to_numpy(), mixed):
        calibrator = of_trees(array, holdout="none")
        assert [one.name for one in calibrator.artifact_.fitted_binding.features] == ["x0", "x1"]
        assert calibrator.predict_proba(VISITS["logit"], array).shape == (600, 2)


def test_what_is_worse_is_said() -> None:
    noise = np.random.default_rng(1).random(60)
    truth = np.random.default_rng(2).random(60) < noise
    with pytest.warns(calcli.CalibrationWarning, match="histogram is worse than no calibration"):
        worse = calcli.Calibrator("histogram").fit(noise, truth)
    assert not np.allclose(worse.predict_proba(noise)[:, 1], noise, atol=1e-3)
    with pytest.warns(calcli.CalibrationWarning, match="the scores stay as they are"):
        kept = calcli.Calibrator("histogram", guard="nll").fit(noise, truth)
    np.testing.assert_allclose(kept.predict_proba(noise)[:, 1], noise, rtol=1e-9)
    assert kept.report_.score("histogram").metrics["nll"].value > kept.report_.score("raw").metrics["nll"].value


def test_a_pickle_holds_numbers() -> None:
    calibrator = of_trees(FEATURES)
    model = pickle.dumps(calibrator.artifact_)
    assert b"calcli.methods" not in model
    again = pickle.loads(pickle.dumps(calibrator))
    found, expected = (one.predict_proba(VISITS["logit"], FEATURES) for one in (again, calibrator))
    assert np.array_equal(found, expected)
    assert again.report_ == calibrator.report_
    broken = model.replace(b"\x93NUMPY", b"\x93NUMPX", 1)
    with pytest.raises(ArtifactError, match="damaged"):
        pickle.loads(broken)


def test_score_is_minus_the_log_loss_of_labels_that_the_fit_has_seen() -> None:
    calibrator = calcli.Calibrator("platt", holdout="none").fit(PROB, LABEL)
    weight = CLICKS["w"].to_numpy()
    expected = -log_loss(LABEL, calibrator.predict_proba(PROB), sample_weight=weight)
    assert calibrator.score(PROB, LABEL, sample_weight=weight) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("unknown", [LABEL + 1, np.where(LABEL, "yes", "no"), np.where(LABEL, np.nan, 0.0)])
def test_score_refuses_labels_that_the_fit_has_not_seen(unknown: Any) -> None:
    calibrator = calcli.Calibrator("platt", holdout="none").fit(PROB, LABEL)
    with pytest.raises(
        ValueError, match=r"y has the class .*, which .* does not know: .0 1.$|310 .* labels are missing"
    ):
        calibrator.score(PROB, unknown)


@pytest.mark.parametrize("search", [GridSearchCV, HalvingGridSearchCV])
def test_a_search_over_methods_finds_the_one_that_helps(search: Any) -> None:
    found = search(calcli.Calibrator(holdout="none"), {"method": ["identity", "platt"]}, cv=3).fit(PROB, LABEL)
    assert found.best_params_ == {"method": "platt"}
    assert found.predict_proba(PROB).shape == (1000, 2)


def test_held_out_predictions_are_those_of_the_folds() -> None:
    calibrator = calcli.Calibrator("platt", holdout="none")
    folds = [(np.arange(500, 1000), np.arange(500)), (np.arange(500), np.arange(500, 1000))]
    predicted = cross_val_predict(calibrator, PROB, LABEL, cv=folds, method="predict_proba")
    for train, test in folds:
        expected = clone(calibrator).fit(PROB[train], LABEL[train]).predict_proba(PROB[test])
        assert np.array_equal(predicted[test], expected)


def test_weights_are_routed() -> None:
    weight = CLICKS["w"].to_numpy() ** 4
    with sklearn.config_context(enable_metadata_routing=True):
        calibrator = calcli.Calibrator("platt", holdout="none").set_fit_request(sample_weight=True)
        assert calibrator.get_metadata_routing().fit.requests.keys() == {"groups", "sample_weight"}
        calibrator.set_score_request(sample_weight=True)
        scores = cross_val_score(calibrator, PROB, LABEL, cv=2, params={"sample_weight": weight})
    expected = [
        clone(calibrator)
        .fit(PROB[train], LABEL[train], sample_weight=weight[train])
        .score(PROB[test], LABEL[test], sample_weight=weight[test])
        for train, test in StratifiedKFold(2).split(PROB, LABEL)
    ]
    assert scores.tolist() == expected


def test_it_is_light_to_import() -> None:
    """Nothing comes with it that scikit-learn's own calibration does not bring."""
    code = (
        "import sys, sklearn.calibration\n"
        "theirs = set(sys.modules)\n"
        "import calcli\n"
        "calcli.Calibrator\n"
        "print(*sorted(set(sys.modules) - theirs))\n"
    )
    words = [sys.executable, "-c", code]
    added = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout.split()
    assert "calcli.estimators.calibrator" in added
    assert [name for name in added if not name.startswith("calcli")] == []


def test_what_is_imported_late_draws_nothing() -> None:
    """rich comes with parts of scikit-learn, and draws from `random`."""
    code = (
        "import random, sys, numpy as np, sklearn.base\n"
        "import calcli\n"
        "class Model(sklearn.base.ClassifierMixin, sklearn.base.BaseEstimator):\n"
        "    def fit(self, X, y):\n"
        "        self.classes_ = np.array([0, 1])\n"
        "        return self\n"
        "    def predict_proba(self, X):\n"
        "        return np.column_stack([1 - X, X])\n"
        "prob = np.linspace(0.01, 0.99, 200)[:, None]\n"
        "y, before = (prob[:, 0] * 7 % 1 < prob[:, 0]).astype(int), (random.getstate(), str(np.random.get_state()))\n"
        "calcli.Calibrator('platt').fit(prob[:, 0], y).score(prob[:, 0], y)\n"
        "calcli.CalibratedClassifier(Model(), 'auto', cv=3).fit(prob, y)\n"
        "print(before == (random.getstate(), str(np.random.get_state())))\n"
    )
    words = [sys.executable, "-W", "ignore", "-c", code]
    assert subprocess.run(words, env=environment(), capture_output=True, text=True, check=True).stdout == "True\n"


def test_rows_of_a_group_are_held_out_together() -> None:
    group = np.arange(1000) // 8
    ours = calcli.Calibrator("platt").fit(LOGIT, LABEL, groups=group)
    table = CLICKS.select("label", "logit").with_columns(unit=group)
    theirs = calcli.fit(table, method="platt", resample_by="unit").report  # type: ignore[call-arg]
    assert ours.report_.differences == theirs.differences
    assert ours.report_.differences != calcli.Calibrator("platt").fit(LOGIT, LABEL).report_.differences


def test_scores_in_the_unit_interval_are_logits_if_the_caller_says_so() -> None:
    found = calcli.Calibrator("identity", input="logit", holdout="none").fit(PROB, LABEL).predict_proba(PROB)
    np.testing.assert_allclose(found[:, 1], expit(PROB), atol=1e-12)


COUNTED = np.random.default_rng(3).integers(1, 4, 300)


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic", "histogram", "spline"])
def test_a_count_of_two_is_a_row_written_twice(method: str) -> None:
    rng = np.random.default_rng(4)
    prob = rng.random(300)
    y = (rng.random(300) < prob**2).astype(int)
    repeated = np.repeat(np.arange(300), COUNTED)
    settings: Any = {"method": method, "holdout": "none", "weight_kind": "counts", "input": "prob"}
    weighted = calcli.Calibrator(**settings).fit(prob, y, sample_weight=COUNTED)
    written = calcli.Calibrator(**settings).fit(prob[repeated], y[repeated])
    np.testing.assert_allclose(weighted.predict_proba(prob), written.predict_proba(prob), rtol=1e-6)


def test_weights_are_importance_unless_they_are_called_counts() -> None:
    prob, y = np.repeat([0.2, 0.8], 50), np.tile([0, 0, 1, 1, 1], 20)
    of: Any = {}
    for kind in (None, "importance", "counts"):
        calibrator = calcli.Calibrator("histogram", holdout="none", weight_kind=kind)
        calibrator.fit(prob, y, sample_weight=np.full(100, 5))
        of[kind] = calibrator.artifact_.fitted_binding.weight_kind
        assert calibrator.get_params()["weight_kind"] == kind
    assert of == {None: "importance", "importance": "importance", "counts": "counts"}
    with pytest.raises(ValueError, match="no weight_kind 'count'; did you mean 'counts'"):
        calcli.Calibrator("platt", weight_kind="count").fit(prob, y)


def test_exact_is_the_option_of_the_command_line(tmp_path: Path) -> None:
    prob = np.linspace(0.05, 0.95, 60)
    y = (prob > 0.5).astype(int)
    held = calcli.Calibrator("isotonic", holdout="none").fit(prob, y).predict_proba(prob)
    exact = calcli.Calibrator("isotonic", holdout="none", exact=True, weight_kind="counts")
    exact.fit(prob, y, sample_weight=np.full(60, 2))
    assert held.min() > 0
    np.testing.assert_array_equal(exact.predict_proba(prob)[:, 1], y)
    exact.save(tmp_path / "kept")
    loaded = calcli.Calibrator.load(tmp_path / "kept")
    assert (loaded.exact, loaded.weight_kind) == (True, "counts")
