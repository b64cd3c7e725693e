"""Quadratic scaling beside a logistic regression on z and z^2, and beside constrained optimisers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.scaling.curved import Quadratic
from calcli.numeric.links import logit
from tests.support.cases import HARD

QUADRATIC = catalog.find("quadratic")


def bent(rows: int, c: float, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Labels whose log-odds are z/2 + c z^2."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0.5, 2.0, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-(0.5 * z + c * z**2 - 0.3)))).astype(np.int64)
    return Batch(z, label, rng.uniform(0, 3, rows) if weighted else None)


def coefficients(batch: Batch) -> np.ndarray:
    state = calibrator.fit(QUADRATIC, batch, {}).state
    return np.array([state.number(name) for name in ("a", "b", "c")])


def loss(abc: np.ndarray, batch: Batch) -> float:
    u = abc[0] * batch.score + abc[1] + abc[2] * batch.score**2
    return float(np.average(np.logaddexp(0, u) - batch.labels * u, weights=batch.weights))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("c", [-0.02, 0.0, 0.03])
def test_an_unpenalised_logistic_regression_agrees(c: float, weighted: bool) -> None:
    from sklearn.linear_model import LogisticRegression

    batch = bent(4000, c, weighted=weighted)
    features = np.column_stack([batch.score, batch.score**2])
    peer = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12)
    peer.fit(features, batch.labels, sample_weight=batch.weight)
    ours = calibrator.fit(QUADRATIC, batch, {}).predict(batch)
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
    prob = calibrator.fit(QUADRATIC, batch, {}).predict(batch)
    np.testing.assert_allclose(prob, batch.labels.mean(), rtol=1e-9)


def test_beyond_the_scores_of_the_fit_it_is_straight() -> None:
    batch = bent(3000, 0.04)
    model = calibrator.fit(QUADRATIC, batch, {})
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


def test_scores_that_lie_close_together_are_fitted_by_rows() -> None:
    """Within 1/500 of each other they fall into few cells; stretched and shifted they are an ordinary fit."""
    batch = bent(2000, 0.03)
    narrow = Batch(5.0 + batch.score / 5000, batch.label)
    prob = calibrator.fit(QUADRATIC, narrow, {}).predict(narrow)
    np.testing.assert_allclose(prob, calibrator.fit(QUADRATIC, batch, {}).predict(batch), atol=2e-6)


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
    np.testing.assert_allclose(calibrator.fit(QUADRATIC, batch, {}).predict(batch), peer, atol=1e-3)
