"""Histogram binning beside its definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.binning.histogram import Histogram
from calcli.numeric.links import logit
from tests.support.cases import ordinary

HISTOGRAM = catalog.find("histogram")


def rates(batch: Batch, **given: object) -> tuple[np.ndarray, np.ndarray]:
    params = HISTOGRAM.resolve(given)  # type: ignore[arg-type]
    state = calibrator.fit(HISTOGRAM, batch, params).state
    return Histogram().predict(state.exact, batch, calibrator.NO_SIDE_INPUTS), state.array("edges")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("binning", ["width", "mass"])
def test_each_bin_gives_its_label_rate(binning: str, weighted: bool) -> None:
    batch = ordinary(3000, weighted=weighted)
    ours, edges = rates(batch, bins=12, binning=binning)
    prob = 1 / (1 + np.exp(-batch.score))
    checked = 0
    for low, high in itertools.pairwise(edges):
        inside = (prob > low) & (prob <= high)
        if batch.weights[inside].sum() > 0:
            expected = np.average(batch.labels[inside], weights=batch.weights[inside])
            np.testing.assert_allclose(ours[inside], expected, atol=1e-12)
            checked += int(inside.sum())
    assert checked > 2900


def test_equal_mass_bins_hold_equally_many_rows() -> None:
    batch = ordinary(3000)
    _, edges = rates(batch, bins=10, binning="mass")
    held = np.histogram(1 / (1 + np.exp(-batch.score)), edges)[0]
    assert len(held) == 10
    assert np.ptp(held) <= 2


def test_width_edges_are_even() -> None:
    _, edges = rates(ordinary(), bins=10, binning="width")
    np.testing.assert_allclose(edges, np.linspace(0, 1, 11), atol=1e-15)


def test_a_bin_without_rows_gives_its_middle() -> None:
    batch = Batch(logit(np.array([0.05, 0.06, 0.95, 0.96])), np.array([0, 1, 1, 1], dtype=np.int64))
    params = HISTOGRAM.resolve({"bins": 10, "binning": "width"})
    state = calibrator.fit(HISTOGRAM, batch, params).state
    prob = Histogram().predict(state.exact, Batch(logit(np.array([0.45, 0.055]))), calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(prob, [0.45, 0.5])


def test_rates_are_held_within_what_their_rows_support() -> None:
    """Ten bins of ten rows: none, one, .. all positive, so that the average is near one half."""
    z = np.linspace(-3, 3, 100)
    label = (np.arange(100) % 10 < np.arange(100) // 10 + (np.arange(100) >= 50)).astype(np.int64)
    params = HISTOGRAM.resolve({"bins": 10})
    model = calibrator.fit(HISTOGRAM, Batch(z, label), params)
    average = (label.sum() + 1) / 102
    expected = np.array([0, 1, 2, 3, 4, 6, 7, 8, 9, 10]) / 10
    exact = model.with_post_processing(calibrator.PostProcessing(exact=True)).predict(Batch(z))[5::10]
    np.testing.assert_allclose(exact, expected, atol=1e-12)
    expected[0], expected[-1] = 2 * average / 12, 1 - 2 * (1 - average) / 12
    np.testing.assert_allclose(model.predict(Batch(z))[5::10], expected, atol=1e-12)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_netcal_agrees() -> None:
    pytest.importorskip("netcal")
    from netcal.binning import HistogramBinning

    batch = ordinary(3001)
    prob = 1 / (1 + np.exp(-batch.score))
    expected = HistogramBinning(bins=14).fit(prob, batch.labels).transform(prob)
    ours, _ = rates(batch, bins=14, binning="width")
    np.testing.assert_allclose(ours, expected, atol=1e-6)
