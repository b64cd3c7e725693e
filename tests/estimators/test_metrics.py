"""The metrics as functions: the peers' numbers, and those of `calcli.evaluate`."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields, replace
from functools import cache
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
import pytest
from matplotlib.figure import Figure
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    brier_score_loss,
    log_loss,
    make_scorer,
    roc_auc_score,
)
from sklearn.model_selection import cross_val_score

import calcli
from calcli.estimators.metrics import FUNCTIONS, Read, ReliabilityDisplay, _clusters, options_of
from calcli.metrics import catalog
from calcli.metrics.base import Options

RNG = np.random.default_rng(0)
PROB = RNG.random(400)
EDGED = np.round(30 * PROB) / 30
Y = (RNG.random(400) < PROB**1.5).astype(int)
WEIGHT = RNG.uniform(0.5, 2.0, 400)
SEVERAL = RNG.dirichlet(np.ones(3), 400)
CLASS = np.array(["a", "b", "c"])[(SEVERAL.cumsum(axis=1) < RNG.random(400)[:, None]).sum(axis=1)]
CLUSTERS = RNG.integers(0, 4, 400)
EDGES = RNG.integers(0, 400, (50, 2))
EVERY = pytest.mark.parametrize("name", catalog.names())


def beside(name: str) -> dict[str, Any]:
    given = {"clusters": CLUSTERS, "edges": EDGES}
    return {key: value for key, value in given.items() if key in options_of(catalog.find(name))}


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize(
    ("name", "peer"),
    [
        ("nll", log_loss),
        ("brier", brier_score_loss),
        ("auc", roc_auc_score),
        ("pr_auc", average_precision_score),
        ("accuracy", lambda y, p, sample_weight: accuracy_score(y, p > 0.5, sample_weight=sample_weight)),
    ],
)
def test_a_peer_has_the_same_number(name: str, peer: Any, weight: Any) -> None:
    ours = getattr(calcli.metrics, name)(Y, PROB, sample_weight=weight)
    assert isinstance(ours, float)
    assert ours == pytest.approx(peer(Y, PROB, sample_weight=weight), rel=1e-9)


def test_of_more_classes_too() -> None:
    assert calcli.metrics.nll(CLASS, SEVERAL) == pytest.approx(log_loss(CLASS, SEVERAL), rel=1e-9)
    some = CLASS != "c"
    with pytest.raises(ValueError, match="2 classes, and probabilities of 3; name all with labels="):
        calcli.metrics.nll(CLASS[some], SEVERAL[some])
    expected = log_loss(CLASS[some], SEVERAL[some], labels=["a", "b", "c"])
    assert calcli.metrics.nll(CLASS[some], SEVERAL[some], labels=["a", "b", "c"]) == pytest.approx(expected, rel=1e-9)


@EVERY
def test_evaluate_has_the_same_number(name: str) -> None:
    if beside(name):
        pytest.skip("evaluate finds its own clusters and edges")
    value = getattr(calcli.metrics, name)(Y, PROB, sample_weight=WEIGHT)
    assert value == report_of_all().value("raw", name)


@cache
def report_of_all() -> Any:
    table = pl.DataFrame({"label": Y, "prob": PROB, "w": WEIGHT})
    metrics = ",".join(name for name in catalog.names() if not beside(name))
    return calcli.evaluate(table, metrics=metrics, flags=calcli.Flags(weight="w"))


@EVERY
def test_it_is_a_function_with_the_parameters_that_matter(name: str) -> None:
    """The others of `Options` change nothing, and each of its own does, on probabilities at the edges of bins."""
    others: dict[str, Any] = {"bins": 4, "binning": "mass", "convention": "netcal", "views": 7, "bin_size": 9.0,
                              "norm": 1.0, "seed": 5, "mvce": "sampled"}  # fmt: skip
    function = getattr(calcli.metrics, name)
    parameters = inspect.signature(function).parameters
    own = [key for key in options_of(catalog.find(name)) if key not in beside(name)]
    assert list(parameters) == ["y_true", "prob", "sample_weight", "labels", *beside(name), *own]
    assert (function.__module__, function.__name__) == ("calcli.metrics", name)
    assert pickle.loads(pickle.dumps(function)) is function is FUNCTIONS[name]
    assert all(f"\n{parameter}\n    " in (inspect.getdoc(function) or "") for parameter in parameters)
    assert name in dir(calcli.metrics)
    plain = function(Y, EDGED, **beside(name))
    assert np.isfinite(plain)
    for key, value in others.items():
        if key in own:
            base = {"mvce": "sampled"} if key in ("views", "seed") else {}
            assert parameters[key].default == getattr(Options(), key)
            assert function(Y, EDGED, **base, **{key: value}) != function(Y, EDGED, **base)
        else:
            with pytest.raises(TypeError, match="unexpected keyword"):
                function(Y, EDGED, **beside(name), **{key: value})
    scored_by = {field.name for field in fields(Options)} - {"auto_bins", "in_sample", "rarer", *own}
    given = beside(name)
    scored = Read.of(Y, EDGED, None, None).scored(
        _clusters(CLUSTERS, len(CLUSTERS)) if "clusters" in given else None, given.get("edges")
    )
    for key in scored_by:
        value = catalog.measure([catalog.find(name)], scored, replace(Options(), **{key: others[key]}))[name].value
        assert value == plain


def test_a_scorer_is_made_of_it() -> None:
    features = np.column_stack([PROB, WEIGHT])
    ours = make_scorer(calcli.metrics.nll, response_method="predict_proba", greater_is_better=False)
    for labels in (Y, CLASS):
        scores = cross_val_score(LogisticRegression(), features, labels, scoring=ours, cv=3)
        np.testing.assert_allclose(
            scores, cross_val_score(LogisticRegression(), features, labels, scoring="neg_log_loss", cv=3), rtol=1e-9
        )


@pytest.mark.parametrize(
    ("y", "prob", "options", "text"),
    [
        (Y, PROB * 3, {}, "lie outside"),
        (Y, np.column_stack([PROB, PROB]), {}, "do not sum to 1"),
        (Y, PROB[:-1], {}, "399 rows, and y has 400"),
        (Y, PROB, {"labels": [0, 1, 2]}, "3 classes, and probabilities of 2"),
        (Y, np.where(Y == 1, np.nan, PROB), {}, "NaN"),
        (Y, PROB, {"bins": 0}, "from 1 to"),
        (Y, PROB, {"convention": "sklaern"}, "did you mean 'sklearn'"),
        (Y, PROB, {"sample_weight": -WEIGHT}, "negative"),
    ],
)
def test_what_cannot_be_measured_is_refused(y: Any, prob: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        calcli.metrics.ece(y, prob, **options)


def test_what_is_not_defined_is_nan_and_said() -> None:
    with pytest.warns(UserWarning, match="auc is not defined"):
        assert np.isnan(calcli.metrics.auc(np.zeros(5, int), PROB[:5]))


def test_a_summary_is_the_report_of_evaluate() -> None:
    found = calcli.metrics.summary(Y, PROB, bootstrap=200, metrics="nll,auc,ece,slope")
    report = calcli.evaluate(pl.DataFrame({"label": Y, "prob": PROB}), metrics="nll,auc,ece,slope", bootstrap=200)
    assert dict(found) == dict(report.score("raw").metrics)
    nll = found["nll"]
    assert nll.lo < nll.value < nll.hi
    lines = repr(found).splitlines()
    assert [line.split()[0] for line in lines] == ["metric", "nll", "auc", "ece", "slope"]
    assert calcli.metrics.summary(Y, PROB, clusters=CLUSTERS, bootstrap=0)["cece"].value is not None


# Reliability diagrams on the axes of a user

SQUARED = RNG.random(2000)
TRUTH = (RNG.random(2000) < SQUARED**2).astype(int)


@pytest.mark.parametrize(("binning", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_its_points_are_those_of_scikit_learn(binning: str, strategy: str) -> None:
    happened, predicted = calibration_curve(TRUTH, SQUARED, n_bins=10, strategy=strategy)
    axes = Figure().subplots()
    display = calcli.reliability_diagram(TRUTH, SQUARED, axes, bins=10, binning=binning)
    np.testing.assert_allclose([point.x for point in display.curve.points], predicted, atol=2e-3)
    np.testing.assert_allclose([point.y for point in display.curve.points], happened, atol=2e-2)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    tops = sorted(line.get_ydata()[0] for line in axes.lines if line.get_linewidth() == 1.3)
    np.testing.assert_allclose(tops, sorted(point.y for point in display.curve.points))


def test_a_user_s_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(mpl.rcParams)
    display = calcli.reliability_diagram(TRUTH, SQUARED, Figure().subplots(), name="$a$_b")
    assert dict(mpl.rcParams) == before
    assert display.ax_.get_title().startswith("$a$_b: ECE, 15 bins: 0.")
    assert display.plot(Figure().subplots()).figure_ is not None


def test_of_an_estimator() -> None:
    X = np.column_stack([SQUARED, SQUARED**2])
    names = np.array(["no", "yes"])[TRUTH]
    model = LogisticRegression().fit(X, names)
    axes = Figure().subplots()
    display = ReliabilityDisplay.from_estimator(model, X, names, ax=axes, bins=5)
    assert display.curve.score == "LogisticRegression"
    assert display.curve.of == "yes"
    other = calcli.reliability_diagram(names, model.predict_proba(X), Figure().subplots(), bins=5, of="no")
    assert other.curve.of == "no"
    with pytest.raises(ValueError, match="lie outside"):
        calcli.reliability_diagram(TRUTH, 2 * SQUARED, axes)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"binning": "quantile"}, "no binning 'quantile'; available: width, mass"),
        ({"bands": "foo"}, "no bands 'foo'; available: consistency, bootstrap, none"),
        ({"bins": 0}, "bins is 0; it must be a number from 1"),
        ({"of": 2}, "no class '2'; available: 0, 1, top, all"),
    ],
)
def test_what_does_not_exist_is_refused_with_what_does(given: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        calcli.reliability_diagram(TRUTH, SQUARED, Figure().subplots(), **given)


def test_a_class_is_named_as_the_labels_have_it() -> None:
    first, second = (calcli.reliability_diagram(TRUTH, SQUARED, Figure().subplots(), of=of).curve for of in (0, 1))
    assert (first.of, second.of) == ("0", "1")
    np.testing.assert_allclose(first.points[0].x, 1 - second.points[-1].x)
    truth = calcli.reliability_diagram(TRUTH == 1, SQUARED, Figure().subplots(), of=True).curve
    assert truth.of == "true"
    assert truth.points == second.points
