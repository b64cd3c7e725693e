"""Platt scaling beside scikit-learn's, run on the same log-odds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary

PLATT = catalog.find("platt")


def peer(z: np.ndarray, label: np.ndarray, weight: np.ndarray | None) -> tuple[float, float]:
    """Slope and intercept by scikit-learn; it writes the sigmoid as 1 / (1 + exp(A z + B))."""
    from sklearn.calibration import _sigmoid_calibration

    slope, intercept = _sigmoid_calibration(z, label, weight)
    return -slope, -intercept


def target_loss(x: np.ndarray, z: np.ndarray, label: np.ndarray, weight: np.ndarray) -> float:
    """Platt's loss, written down from his paper."""
    positive, negative = weight @ label, weight @ (1 - label)
    target = np.where(label == 1, (positive + 1) / (positive + 2), 1 / (negative + 2))
    u = x[0] * z + x[1]
    return float(weight @ (np.logaddexp(0, u) - target * u))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [30, 5000])
def test_scikit_learn_agrees(rows: int, weighted: bool) -> None:
    batch = ordinary(rows, weighted=weighted)
    model = calibrator.fit(PLATT, batch, {})
    a, b = peer(batch.score, batch.labels, batch.weight)
    expected = 1 / (1 + np.exp(-(a * batch.score + b)))
    np.testing.assert_allclose(model.predict(batch), expected, atol=5e-6)  # its L-BFGS stops at a gradient of 1e-6
    weight = batch.weights
    ours = np.array([model.state.number("a"), model.state.number("b")])
    at_ours = target_loss(ours, batch.score, batch.labels, weight)
    assert at_ours <= target_loss(np.array([a, b]), batch.score, batch.labels, weight) + 1e-9


@settings(max_examples=40)
@given(
    rows=st.integers(5, 300),
    slope=st.floats(0.01, 50),
    shift=st.floats(-20, 20),
    seed=st.integers(0, 10_000),
    weighted=st.booleans(),
)
def test_the_minimum_is_the_minimum(rows: int, slope: float, shift: float, seed: int, weighted: bool) -> None:
    """A general-purpose optimiser on the exact loss, started at our answer, finds nothing better."""
    batch = ordinary(rows, seed=seed, weighted=weighted)
    z, weight = slope * batch.score + shift, batch.weights
    if weight.sum() == 0:
        return
    state = calibrator.fit(PLATT, Batch(z, batch.label, batch.weight), {}).state
    ours = np.array([state.number("a"), state.number("b")])
    here = target_loss(ours, z, batch.labels, weight)
    scale = np.array([1 / slope, 1.0])
    best = minimize(lambda x: target_loss(ours + x * scale, z, batch.labels, weight), np.zeros(2), tol=1e-13)
    assert here <= best.fun + 1e-8 * (1 + abs(here))


def test_scores_far_from_zero_are_summed_exactly_enough() -> None:
    """Cells grow with the score: a slope that makes up for it leaves the same error."""
    batch = ordinary(4000)
    plain = calibrator.fit(PLATT, batch, {})
    stretched = Batch(batch.score * 300, batch.label)
    far = calibrator.fit(PLATT, stretched, {})
    np.testing.assert_allclose(far.predict(stretched), plain.predict(batch), atol=1e-7)


def test_separable_rows_stay_finite() -> None:
    z = np.linspace(-3, 3, 50)
    model = calibrator.fit(PLATT, Batch(z, (z > 0).astype(np.int64)), {})
    a, b = peer(z, (z > 0).astype(int), None)
    np.testing.assert_allclose(model.predict(Batch(z)), 1 / (1 + np.exp(-(a * z + b))), atol=1e-5)


def test_one_score_alone_gives_the_smoothed_rate() -> None:
    label = np.array([1, 0, 0, 0], dtype=np.int64)
    model = calibrator.fit(PLATT, Batch(np.full(4, 2.0), label), {})
    expected = (2 / 3 + 3 * 1 / 5) / 4  # (n1 + 1)/(n1 + 2) once and 1/(n0 + 2) three times
    np.testing.assert_allclose(model.predict(Batch(np.array([2.0]))), [expected])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_kumars_platt_agrees_on_many_rows() -> None:
    """Its targets are not smoothed; on 200,000 rows that makes no difference at 1e-4."""
    pytest.importorskip("calibration")
    from calibration import utils

    batch = ordinary(200_000)
    prob = 1 / (1 + np.exp(-batch.score))
    peer = utils.get_platt_scaler(prob, batch.labels)
    np.testing.assert_allclose(calibrator.fit(PLATT, batch, {}).predict(batch), peer(prob), atol=1e-4)
