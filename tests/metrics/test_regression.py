from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from calcli.metrics.base import Options, Scored
from calcli.metrics.regression import intercept, pud, slope
from calcli.numeric.links import logit, sigmoid
from tests.support.strategies import binary_rows

DEFAULT = Options()


def rows_of(n, *, a=0.0, b=1.0, seed=0, weighted=False) -> Scored:
    """Labels whose log-odds are a + b times the predicted ones."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.3, 1.2, n)
    label = (rng.random(n) < sigmoid(a + b * z)).astype(np.int64)
    return Scored(label, sigmoid(z), rng.uniform(0.2, 3, n) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_slope_is_that_of_unpenalised_logistic_regression(weighted):
    rows = rows_of(800, a=0.4, b=0.6, weighted=weighted)
    model = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000)
    model.fit(logit(rows.prob)[:, None], rows.label, rows.weight)
    assert slope(rows, DEFAULT).value == pytest.approx(model.coef_[0, 0], rel=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_intercept_solves_its_equation(weighted):
    rows = rows_of(500, a=-0.7, b=1.3, weighted=weighted)
    moved = sigmoid(intercept(rows, DEFAULT).value + logit(rows.prob))
    rate = np.average(rows.label, weights=rows.weight)
    assert np.average(moved, weights=rows.weight) == pytest.approx(rate, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("metric", "truth"), [(slope, 0.7), (intercept, None)])
def test_intervals_hold_the_truth(metric, truth, weighted):
    b = 0.7 if metric is slope else 1.0
    truth = 0.3 if truth is None else truth
    held, width = 0, []
    for seed in range(300):
        found = metric(rows_of(1000, a=0.3, b=b, seed=seed, weighted=weighted), DEFAULT)
        held += found.lo <= truth <= found.hi
        width.append(found.value)
    assert held / 300 == pytest.approx(0.95, abs=0.035)
    assert (found.hi - found.lo) / 3.92 == pytest.approx(np.std(width), rel=0.25)


def test_the_intercepts_error_at_one_prediction_is_that_of_log_odds():
    """With k of n positive at p = 1/2 the error of the log-odds is sqrt(1/k + 1/(n - k))."""
    rows = Scored(np.repeat([0, 1], [900, 300]), np.full(1200, 0.5))
    found = intercept(rows, DEFAULT)
    assert found.value == pytest.approx(np.log(300 / 900), rel=1e-9)
    assert (found.hi - found.lo) / 2 == pytest.approx(1.959964 * np.sqrt(1 / 300 + 1 / 900), rel=1e-6)


def test_with_few_rows_the_interval_is_that_of_the_likelihood():
    """Of k positives among n at p = 1/2: where 2 k ln(k / n q) + 2 (n - k) ln((n - k) / n (1 - q)) is 1.96^2."""
    found = intercept(Scored(np.repeat([0, 1], [30, 10]), np.full(40, 0.5)), DEFAULT)
    for end in (found.lo, found.hi):
        q = 1 / (1 + np.exp(-end))
        deviance = 2 * (10 * np.log(10 / 40 / q) + 30 * np.log(30 / 40 / (1 - q)))
        assert deviance == pytest.approx(1.959964**2, rel=1e-5)
    assert found.lo < found.value < found.hi


@pytest.mark.slow
def test_the_slopes_interval_holds_the_truth_where_positives_are_few():
    rng = np.random.default_rng(5)
    held = []
    for _ in range(300):
        z = rng.normal(-4.6, 1.2, 300)
        found = slope(Scored((rng.random(300) < sigmoid(z)).astype(np.int64), sigmoid(z)), DEFAULT)
        if found.value is not None:
            held.append(found.lo <= 1 <= found.hi)
    assert len(held) > 280
    assert np.mean(held) == pytest.approx(0.95, abs=0.035)  # 0.85 by the sandwich


def test_its_ends_are_those_of_the_profile_likelihood():
    rng = np.random.default_rng(6)
    z = rng.normal(-3, 1.2, 200)
    label = (rng.random(200) < sigmoid(z)).astype(np.int64)
    found = slope(Scored(label, sigmoid(z)), DEFAULT)

    def profile(b: float) -> float:
        return minimize_scalar(lambda a: (np.logaddexp(0, a + b * z) - label * (a + b * z)).sum(), (-3, 3)).fun

    for end in (found.lo, found.hi):
        assert 2 * (profile(end) - profile(found.value)) == pytest.approx(1.959964**2, rel=1e-4)
    doubled = slope(Scored(label, sigmoid(z), np.full(200, 2.0)), DEFAULT)
    assert (doubled.lo, doubled.hi) == pytest.approx((found.lo, found.hi), rel=1e-6)


@pytest.mark.parametrize("label", [[0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0], [0, 1, 1, 1]])
def test_separated_classes_have_no_slope(label):
    found = slope(Scored(np.array(label), np.array([0.1, 0.2, 0.7, 0.9])), DEFAULT)
    assert (found.value, found.lo) == (None, None)
    assert "separate the classes" in found.reason


def test_one_class_has_no_intercept():
    found = intercept(Scored(np.ones(3, dtype=np.int64), np.array([0.2, 0.5, 0.9])), DEFAULT)
    assert found.value is None
    assert found.reason == "the rows are all of one class"


LEAST, MOST = logit(np.array([0.0, 1.0]))
"""The log-odds at which predictions of 0 and 1 are held."""


@pytest.mark.parametrize(
    ("positives", "rows", "expected"),
    [
        ((0, 5), (11, 5), (np.log(5 / 11) - LEAST - MOST) / 2),  # all right: 11 exp(a + least) is 5 exp(-a - most)
        ((0, 3), (0, 16), np.log(3 / 13) - MOST),  # predictions of 1 alone
        ((6, 7), (10, 7), np.log(6 / 4) - LEAST),  # wrong on one side
    ],
)
def test_the_intercept_of_sure_predictions_solves_its_equation(positives, rows, expected):
    """So many rows with a prediction of 0 and of 1, some of them positive."""
    label = np.concatenate([np.arange(n) < k for k, n in zip(positives, rows, strict=True)]).astype(np.int64)
    prob = np.repeat([0.0, 1.0], rows)
    for weight in (None, np.full(len(label), 0.01), np.full(len(label), 3.7)):
        assert intercept(Scored(label, prob, weight), DEFAULT).value == pytest.approx(expected, rel=1e-9)


def test_where_rounding_decides_there_is_no_intercept():
    """As many sure predictions are wrong on either side, so that the sums of large terms balance."""
    found = intercept(Scored(np.tile(np.repeat([0, 1], 4), 2), np.repeat([0.0, 1.0], 8)), DEFAULT)
    assert (found.value, found.lo, found.p) == (None, None, None)
    assert found.reason == "the predictions are so sure that rounding decides it"


def test_the_scale_of_weights_does_not_narrow_the_interval():
    rows = rows_of(200, weighted=True)
    scaled = Scored(rows.label, rows.prob, 100 * rows.weight)
    for metric in (slope, intercept):
        one, other = metric(rows, DEFAULT), metric(scaled, DEFAULT)
        assert (one.lo, one.hi) == pytest.approx((other.lo, other.hi), rel=1e-9)


def test_more_classes_are_judged_by_the_predicted_one():
    rng = np.random.default_rng(3)
    prob = rng.dirichlet(np.ones(3), 200)
    rows = Scored(rng.integers(0, 3, 200), prob)
    top = Scored((prob.argmax(1) == rows.label).astype(np.int64), prob.max(1))
    assert slope(rows, DEFAULT).value == slope(top, DEFAULT).value
    assert len(slope(rows, DEFAULT).per_class) == 3


@given(binary_rows())
def test_it_is_the_ratio_of_the_means(rows):
    label = np.average(rows.label, weights=rows.weight)
    found = pud(rows, Options())
    if label == 0:
        assert (found.value, found.reason) == (None, "no row is positive")
    else:
        assert found.value == pytest.approx(np.average(rows.prob, weights=rows.weight) / label, rel=1e-9)


def test_below_one_the_rows_are_underestimated():
    assert pud(Scored(np.array([0, 1]), np.array([0.1, 0.3])), Options()).value == pytest.approx(0.4)
