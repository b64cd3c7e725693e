"""Scaling-binning beside its definition and the functions of its authors."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary

SCALING_BINNING = catalog.find("scaling-binning")
PLATT = catalog.find("platt")


def test_each_bin_gives_its_mean_scaled_score() -> None:
    batch = ordinary(3000)
    scaled = calibrator.fit(PLATT, batch, {}).predict(batch)
    ours = calibrator.fit(SCALING_BINNING, batch, SCALING_BINNING.resolve({"bins": 10})).predict(batch)
    order = np.argsort(scaled)
    for rows in np.split(order, 10):
        np.testing.assert_allclose(ours[rows], scaled[rows].mean(), rtol=1e-12)


def test_weights_count_as_repetitions() -> None:
    batch = ordinary(500, weighted=True)
    repeated = batch.take(np.repeat(np.arange(500), batch.weights.astype(int)))
    params = SCALING_BINNING.resolve({"bins": 7})
    one = calibrator.fit(SCALING_BINNING, batch, params)
    other = calibrator.fit(SCALING_BINNING, Batch(repeated.score, repeated.label), params)
    np.testing.assert_allclose(other.predict(batch), one.predict(batch), rtol=1e-9)


def test_ties_stay_together_and_bins_may_be_fewer() -> None:
    batch = ordinary(600)
    coarse = Batch(np.round(batch.score / 3), batch.label)
    prob = calibrator.fit(SCALING_BINNING, coarse, SCALING_BINNING.resolve({"bins": 600})).predict(coarse)
    scaled = calibrator.fit(PLATT, coarse, {}).predict(coarse)
    np.testing.assert_allclose(prob, scaled, rtol=1e-12)  # each score is its own bin


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_kumars_bins_agree() -> None:
    """His functions on our scaled scores, because his scaling has no smoothed targets."""
    pytest.importorskip("calibration")
    from calibration import utils

    batch = ordinary(3000)
    scaled = calibrator.fit(PLATT, batch, {}).predict(batch)
    peer = utils.get_discrete_calibrator(scaled, utils.get_equal_bins(scaled, num_bins=12))
    ours = calibrator.fit(SCALING_BINNING, batch, SCALING_BINNING.resolve({"bins": 12}))
    np.testing.assert_allclose(ours.predict(batch), peer(scaled), atol=1e-6)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_kumars_calibrator_agrees_on_many_rows() -> None:
    pytest.importorskip("calibration")
    from calibration import calibrators

    batch = ordinary(30_000)
    prob = 1 / (1 + np.exp(-batch.score))
    peer = calibrators.PlattBinnerCalibrator(num_calibration=30_000, num_bins=10)
    peer.train_calibration(prob, batch.labels)
    ours = calibrator.fit(SCALING_BINNING, batch, SCALING_BINNING.resolve({"bins": 10}))
    np.testing.assert_allclose(ours.predict(batch), peer.calibrate(prob), atol=1e-4)
