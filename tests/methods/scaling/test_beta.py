"""Beta calibration beside a logistic regression on ln p and -ln(1 - p), and beside its authors' code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.scaling.curved import Beta
from tests.support.cases import HARD, ordinary

BETA = catalog.find("beta")


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
def test_an_unpenalised_logistic_regression_agrees(weighted: bool) -> None:
    batch = betas(4000, weighted=weighted)
    slopes, expected = by_regression(batch, [0, 1])
    assert (slopes > 0).all()
    np.testing.assert_allclose(calibrator.fit(BETA, batch, {}).predict(batch), expected, atol=1e-6)


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
    model = calibrator.fit(BETA, batch, {})
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
    state = calibrator.fit(BETA, batch, {}).state
    ours = np.array([state.number(name) for name in "abc"])
    assert (ours[:2] == 0).all()
    assert loss(ours) <= best.fun + 1e-10


def test_equal_slopes_are_platt_scaling() -> None:
    state = calibrator.fit(BETA, betas(100), {}).state
    same = type(state)({"a": 0.7, "b": 0.7, "c": 0.2})
    z = np.linspace(-50, 50, 101)
    expected = 1 / (1 + np.exp(-(0.7 * z + 0.2)))
    np.testing.assert_allclose(Beta().predict(same, Batch(z), calibrator.NO_SIDE_INPUTS), expected, rtol=1e-12)


def test_scores_that_lie_close_together_are_fitted_by_rows() -> None:
    batch = betas(2000)
    narrow = Batch(1.0 + batch.score / 5000, batch.label)
    _, expected = by_regression(Batch(batch.score, batch.label), [0, 1])
    prob = calibrator.fit(BETA, narrow, {}).predict(narrow)
    at_least = -np.mean(np.log(np.where(batch.labels == 1, expected, 1 - expected)))
    platt = calibrator.fit(catalog.find("platt"), narrow, {}).predict(narrow)
    ours, line = (-np.mean(np.log(np.where(batch.labels == 1, p, 1 - p))) for p in (prob, platt))
    assert at_least - 0.01 < ours <= line + 1e-6  # the line is a = b, up to smoothed targets


def test_separated_rows_stay_finite() -> None:
    batch = HARD["separable"](2)
    prob = calibrator.fit(BETA, batch, {}).predict(batch)
    positive = int(batch.labels.sum())
    target = np.where(batch.labels == 1, (positive + 1) / (positive + 2), 1 / (len(batch) - positive + 2))
    assert prob.mean() == pytest.approx(target.mean(), rel=1e-9)  # the intercept's equation


def test_no_score_is_too_far_out() -> None:
    model = calibrator.fit(BETA, ordinary(500), {})
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
    np.testing.assert_allclose(calibrator.fit(BETA, batch, {}).predict(batch), peer, atol=1e-3)
