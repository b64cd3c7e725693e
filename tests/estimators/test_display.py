"""Reliability diagrams on the axes of a user."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression

import calcli
from calcli.estimators.metrics import ReliabilityDisplay

RNG = np.random.default_rng(0)
PROB = RNG.random(2000)
Y = (RNG.random(2000) < PROB**2).astype(int)


@pytest.mark.parametrize(("binning", "strategy"), [("width", "uniform"), ("mass", "quantile")])
def test_its_points_are_those_of_scikit_learn(binning: str, strategy: str) -> None:
    happened, predicted = calibration_curve(Y, PROB, n_bins=10, strategy=strategy)
    axes = Figure().subplots()
    display = calcli.reliability_diagram(Y, PROB, axes, bins=10, binning=binning)
    np.testing.assert_allclose([point.x for point in display.curve.points], predicted, atol=2e-3)
    np.testing.assert_allclose([point.y for point in display.curve.points], happened, atol=2e-2)
    assert display.ax_ is axes
    assert display.figure_ is axes.figure
    tops = sorted(line.get_ydata()[0] for line in axes.lines if line.get_linewidth() == 1.3)
    np.testing.assert_allclose(tops, sorted(point.y for point in display.curve.points))


def test_a_user_s_settings_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    before = dict(mpl.rcParams)
    display = calcli.reliability_diagram(Y, PROB, Figure().subplots(), name="$a$_b")
    assert dict(mpl.rcParams) == before
    assert display.ax_.get_title().startswith("$a$_b: ECE, 15 bins: 0.")
    assert display.plot(Figure().subplots()).figure_ is not None


def test_of_an_estimator() -> None:
    X = np.column_stack([PROB, PROB**2])
    names = np.array(["no", "yes"])[Y]
    model = LogisticRegression().fit(X, names)
    axes = Figure().subplots()
    display = ReliabilityDisplay.from_estimator(model, X, names, ax=axes, bins=5)
    assert display.curve.score == "LogisticRegression"
    assert display.curve.of == "yes"
    other = calcli.reliability_diagram(names, model.predict_proba(X), Figure().subplots(), bins=5, of="no")
    assert other.curve.of == "no"
    with pytest.raises(ValueError, match="lie outside"):
        calcli.reliability_diagram(Y, 2 * PROB, axes)


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
        calcli.reliability_diagram(Y, PROB, Figure().subplots(), **given)


def test_a_class_is_named_as_the_labels_have_it() -> None:
    first, second = (calcli.reliability_diagram(Y, PROB, Figure().subplots(), of=of).curve for of in (0, 1))
    assert (first.of, second.of) == ("0", "1")
    np.testing.assert_allclose(first.points[0].x, 1 - second.points[-1].x)
    truth = calcli.reliability_diagram(Y == 1, PROB, Figure().subplots(), of=True).curve
    assert truth.of == "true"
    assert truth.points == second.points
