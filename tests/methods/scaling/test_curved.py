"""Beta and quadratic scaling: beside logistic regressions, constrained optimisers and peers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator
from calcli.methods.scaling.curved import Beta, Quadratic
from calcli.numeric.links import logit
from tests.support.cases import HARD, ordinary
from tests.support.methods import fitted


def betas(rows: int, seed: int = 0, *, weighted: bool = False, swapped: bool = False) -> Batch:
    """Scores that are beta distributed in each class: the family is exactly right."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, rows)
    prob = np.where(label == 1, rng.beta(2.5, 1.2, rows), rng.beta(1.1, 2.0, rows))
    prob = 1 - prob if swapped else prob
    return Batch(np.log(prob) - np.log1p(-prob), label, rng.uniform(0, 3, rows) if weighted else None)


def features(batch: Batch) -> np.ndarray:
    return np.column_stack([-np.logaddexp(0, -batch.score), np.logaddexp(0, batch.score)])


def by_regression(batch: Batch, columns: list[int]) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.linear_model import LogisticRegression

    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    peer.fit(features(batch)[:, columns], batch.labels, sample_weight=batch.weight)
    return peer.coef_[0], peer.predict_proba(features(batch)[:, columns])[:, 1]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_logistic_regression_on_log_probabilities_agrees(weighted: bool) -> None:
    batch = betas(4000, weighted=weighted)
    slopes, expected = by_regression(batch, [0, 1])
    assert (slopes > 0).all()
    np.testing.assert_allclose(fitted("beta", batch).predict(batch), expected, atol=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_a_negative_slope_is_dropped_and_the_rest_fitted_again(which: int) -> None:
    rng = np.random.default_rng(5)
    z = rng.normal(0, 2, 3000)
    wanted = np.array([0.9, 0.9])
    wanted[which] = -0.3
    u = features(Batch(z)) @ wanted
    batch = Batch(z, (rng.random(3000) < 1 / (1 + np.exp(-u))).astype(np.int64))
    free, _ = by_regression(batch, [0, 1])
    assert free[which] < 0
    _, expected = by_regression(batch, [1 - which])
    model = fitted("beta", batch)
    assert model.state.number("ab"[which]) == 0.0
    np.testing.assert_allclose(model.predict(batch), expected, atol=1e-6)


def test_no_pair_of_slopes_that_are_not_negative_is_better() -> None:
    """Upside-down scores, on which both would be negative."""
    batch = betas(1000, weighted=True, swapped=True)
    x = np.column_stack([features(batch), np.ones(len(batch))])

    def loss(theta: np.ndarray) -> float:
        u = x @ theta
        return float(np.average(np.logaddexp(0, u) - batch.labels * u, weights=batch.weights))

    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(loss, [1, 1, 0], method="L-BFGS-B", bounds=bounds, options={"gtol": 1e-10, "ftol": 1e-15})
    state = fitted("beta", batch).state
    ours = np.array([state.number(name) for name in "abc"])
    assert (ours[:2] == 0).all()
    assert loss(ours) <= best.fun + 1e-10


def test_equal_slopes_are_platt_scaling() -> None:
    state = fitted("beta", betas(100)).state
    same = type(state)({"a": 0.7, "b": 0.7, "c": 0.2})
    z = np.linspace(-50, 50, 101)
    expected = 1 / (1 + np.exp(-(0.7 * z + 0.2)))
    np.testing.assert_allclose(Beta().predict(same, Batch(z), calibrator.NO_SIDE_INPUTS), expected, rtol=1e-12)


def test_close_scores_are_fitted_by_rows_to_beta() -> None:
    batch = betas(2000)
    narrow = Batch(1.0 + batch.score / 5000, batch.label)
    _, expected = by_regression(Batch(batch.score, batch.label), [0, 1])
    prob = fitted("beta", narrow).predict(narrow)
    at_least = -np.mean(np.log(np.where(batch.labels == 1, expected, 1 - expected)))
    platt = fitted("platt", narrow).predict(narrow)
    ours, line = (-np.mean(np.log(np.where(batch.labels == 1, p, 1 - p))) for p in (prob, platt))
    assert at_least - 0.01 < ours <= line + 1e-6  # the line is a = b, up to smoothed targets


def test_separated_rows_stay_finite() -> None:
    batch = HARD["separable"](2)
    prob = fitted("beta", batch).predict(batch)
    positive = int(batch.labels.sum())
    target = np.where(batch.labels == 1, (positive + 1) / (positive + 2), 1 / (len(batch) - positive + 2))
    assert prob.mean() == pytest.approx(target.mean(), rel=1e-9)  # the intercept's equation


def test_no_score_is_too_far_out() -> None:
    model = fitted("beta", ordinary(500))
    prob = model.predict(Batch(np.array([-40.0, -39.0, 39.0, 40.0])))
    assert (np.diff(prob[:2]) > 0).all()
    assert (np.diff(prob[2:]) > 0).all()


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("weighted", [False, True])
def test_betacal_agrees(weighted: bool) -> None:
    """Its optimiser stops at a gradient of 1e-4."""
    pytest.importorskip("betacal")
    from betacal import BetaCalibration

    batch = betas(5000, weighted=weighted)
    prob = 1 / (1 + np.exp(-batch.score))
    peer = BetaCalibration().fit(prob, batch.labels, batch.weight).predict(prob)
    np.testing.assert_allclose(fitted("beta", batch).predict(batch), peer, atol=1e-3)


def bent(rows: int, c: float, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Labels whose log-odds are z/2 + c z^2."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 2.0, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-(0.5 * z + c * z**2 - 0.3)))).astype(np.int64)
    return Batch(z, label, rng.uniform(0, 3, rows) if weighted else None)


def coefficients(batch: Batch) -> np.ndarray:
    state = fitted("quadratic", batch).state
    return np.array([state.number(name) for name in ("a", "b", "c")])


def loss(abc: np.ndarray, batch: Batch) -> float:
    u = abc[0] * batch.score + abc[1] + abc[2] * batch.score**2
    return float(np.average(np.logaddexp(0, u) - batch.labels * u, weights=batch.weights))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("c", [-0.02, 0.0, 0.03])
def test_a_logistic_regression_on_squares_agrees(c: float, weighted: bool) -> None:
    from sklearn.linear_model import LogisticRegression

    batch = bent(4000, c, weighted=weighted)
    features = np.column_stack([batch.score, batch.score**2])
    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    peer.fit(features, batch.labels, sample_weight=batch.weight)
    ours = fitted("quadratic", batch).predict(batch)
    np.testing.assert_allclose(ours, peer.predict_proba(features)[:, 1], atol=1e-6)


@pytest.mark.parametrize("c", [-0.3, 0.3])
def test_where_the_constraint_bites_no_feasible_parabola_is_better(c: float) -> None:
    batch = bent(3000, c, weighted=True)
    low, high = batch.score.min(), batch.score.max()
    ours = coefficients(batch)
    slopes = [ours[0] + 2 * ours[2] * end for end in (low, high)]
    assert min(slopes) == pytest.approx(0, abs=1e-9)
    rising = [{"type": "ineq", "fun": lambda abc, end=end: abc[0] + 2 * abc[2] * end} for end in (low, high)]
    best = minimize(loss, [0.1, 0.0, 0.0], (batch,), "SLSQP", constraints=rising, options={"ftol": 1e-14})
    assert loss(ours, batch) <= best.fun + 1e-10
    assert loss(ours, batch) == pytest.approx(best.fun, rel=1e-6)


def test_upside_down_scores_give_the_label_rate() -> None:
    batch = HARD["upside_down"](2)
    prob = fitted("quadratic", batch).predict(batch)
    np.testing.assert_allclose(prob, batch.labels.mean(), rtol=1e-9)


def test_beyond_the_scores_of_the_fit_it_is_straight() -> None:
    batch = bent(3000, 0.04)
    model = fitted("quadratic", batch)
    a, b, c = coefficients(batch)
    for end, outward in ((batch.score.min(), -1.0), (batch.score.max(), 1.0)):
        z = end + outward * np.array([0.0, 1.0, 5.0])
        expected = a * end + b + c * end**2 + (a + 2 * c * end) * (z - end)
        np.testing.assert_allclose(logit(model.predict(Batch(z))), expected, atol=1e-6)


def test_scores_beyond_30_count_as_30_in_the_fit() -> None:
    batch = bent(500, 0.02)
    far = np.where(batch.score > 4, 500.0, batch.score)
    held = np.where(batch.score > 4, 30.0, batch.score)
    np.testing.assert_allclose(
        coefficients(Batch(far, batch.label)), coefficients(Batch(held, batch.label)), rtol=1e-12, atol=1e-14
    )


def test_close_scores_are_fitted_by_rows_to_a_parabola() -> None:
    """Within 1/500 of each other they fall into few cells; stretched and shifted they are an ordinary fit."""
    batch = bent(2000, 0.03)
    narrow = Batch(5.0 + batch.score / 5000, batch.label)
    prob = fitted("quadratic", narrow).predict(narrow)
    np.testing.assert_allclose(prob, fitted("quadratic", batch).predict(batch), atol=2e-6)


def test_separated_rows_are_fitted_to_smoothed_targets() -> None:
    """The log-loss against Platt's targets, minimised by a general-purpose optimiser, is not lower."""
    z = np.linspace(-3, 3, 40)
    batch = Batch(z, (z > 0.5).astype(np.int64))
    positive = int(batch.labels.sum())
    target = np.where(batch.labels == 1, (positive + 1) / (positive + 2), 1 / (40 - positive + 2))

    def smooth_loss(abc: np.ndarray) -> float:
        u = abc[0] * z + abc[1] + abc[2] * z**2
        return float(np.mean(np.logaddexp(0, u) - target * u))

    rising = [{"type": "ineq", "fun": lambda abc, end=end: abc[0] + 2 * abc[2] * end} for end in (-3, 3)]
    best = minimize(smooth_loss, [1.0, 0.0, 0.0], method="SLSQP", constraints=rising, options={"ftol": 1e-14})
    assert smooth_loss(coefficients(batch)) == pytest.approx(best.fun, rel=1e-7)


def test_the_state_says_where_it_holds() -> None:
    batch = bent(100, 0.02)
    state = Quadratic().fit(batch, calibrator.NO_SIDE_INPUTS, {}, 0)
    assert state.number("low") == pytest.approx(batch.score.min(), abs=1 / 256)
    assert state.number("high") == pytest.approx(batch.score.max(), abs=1 / 256)


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_probmetrics_agrees() -> None:
    """It takes the logarithm in float32 and stops at a gradient of 1e-4."""
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators import get_calibrator

    batch = bent(5000, 0.03)
    prob = 1 / (1 + np.exp(-batch.score))
    table = np.column_stack([1 - prob, prob])
    peer = get_calibrator("quadratic-scaling").fit(table, batch.labels).predict_proba(table)[:, 1]
    np.testing.assert_allclose(fitted("quadratic", batch).predict(batch), peer, atol=1e-3)
