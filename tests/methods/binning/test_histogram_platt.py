"""Platt scaling in bins, beside Platt's loss minimised bin by bin."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary

HISTOGRAM_PLATT = catalog.find("histogram-platt")


def platt(batch: Batch) -> np.ndarray:
    """Slope and intercept of least log-loss against Platt's targets, by a general-purpose optimiser."""
    z, weight = batch.score, batch.weights
    positive = weight @ batch.labels
    target = np.where(batch.labels == 1, (positive + 1) / (positive + 2), 1 / (weight.sum() - positive + 2))

    def loss(x: np.ndarray) -> float:
        u = x[0] * z + x[1]
        return float(weight @ (np.logaddexp(0, u) - target * u)) / weight.sum()

    return minimize(loss, [1.0, 0.0], tol=1e-14).x


def prob(coefficients: np.ndarray, z: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(coefficients[0] * z + coefficients[1])))


@pytest.mark.parametrize("bins", [1, 2, 4])
def test_each_bin_is_its_own_platt_scaling(bins: int) -> None:
    batch = ordinary(4000)
    ours = calibrator.fit(HISTOGRAM_PLATT, batch, HISTOGRAM_PLATT.resolve({"bins": bins})).predict(batch)
    for rows in np.split(np.argsort(batch.score), bins):
        part = batch.take(rows)
        np.testing.assert_allclose(ours[rows], prob(platt(part), part.score), atol=1e-5)


def test_bins_that_cannot_carry_a_fit_take_the_global_one() -> None:
    """Every label in the lowest third is 0, and in the highest the scores are upside down."""
    batch = ordinary(3000)
    low, high = np.quantile(batch.score, [1 / 3, 2 / 3])
    rng = np.random.default_rng(0)
    upside_down = (rng.random(3000) < 1 / (1 + np.exp(batch.score - high - 2))).astype(np.int64)
    label = np.where(batch.score < low, 0, np.where(batch.score > high, upside_down, batch.labels))
    changed = Batch(batch.score, label)
    everyone = platt(changed)
    assert everyone[0] > 0
    ours = calibrator.fit(HISTOGRAM_PLATT, changed, HISTOGRAM_PLATT.resolve({"bins": 3})).predict(changed)
    outer = (batch.score < low) | (batch.score > high)
    np.testing.assert_allclose(ours[outer], prob(everyone, batch.score[outer]), atol=1e-5)
    inner = changed.take(~outer)
    np.testing.assert_allclose(ours[~outer], prob(platt(inner), inner.score), atol=1e-5)


def test_weights_count_as_repetitions() -> None:
    batch = ordinary(800, weighted=True)
    repeated = batch.take(np.repeat(np.arange(800), batch.weights.astype(int)))
    params = HISTOGRAM_PLATT.resolve()
    one = calibrator.fit(HISTOGRAM_PLATT, batch, params)
    other = calibrator.fit(HISTOGRAM_PLATT, Batch(repeated.score, repeated.label), params)
    np.testing.assert_allclose(other.predict(batch), one.predict(batch), rtol=1e-9)
