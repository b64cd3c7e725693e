"""Methods of bins: beside their definitions, bin by bin, and the functions of their authors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.base import ParamValue
from calcli.methods.binning.histogram import Bbq, Histogram, bin_counts
from calcli.methods.post_processing import PostProcessing
from calcli.numeric.links import logit
from tests.support.cases import ordinary
from tests.support.methods import fitted, repeated


def rates(batch: Batch, **given: ParamValue) -> tuple[np.ndarray, np.ndarray]:
    state = fitted("histogram", batch, **given).state
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
    state = fitted("histogram", batch, bins=10, binning="width").state
    prob = Histogram().predict(state.exact, Batch(logit(np.array([0.45, 0.055]))), calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(prob, [0.45, 0.5])


def test_rates_are_held_within_what_their_rows_support() -> None:
    """Ten bins of ten rows: none, one, .. all positive, so that the average is near one half."""
    z = np.linspace(-3, 3, 100)
    label = (np.arange(100) % 10 < np.arange(100) // 10 + (np.arange(100) >= 50)).astype(np.int64)
    model = fitted("histogram", Batch(z, label), bins=10)
    average = (label.sum() + 1) / 102
    expected = np.array([0, 1, 2, 3, 4, 6, 7, 8, 9, 10]) / 10
    exact = model.with_post_processing(PostProcessing(exact=True)).predict(Batch(z))[5::10]
    np.testing.assert_allclose(exact, expected, atol=1e-12)
    expected[0], expected[-1] = 2 * average / 12, 1 - 2 * (1 - average) / 12
    np.testing.assert_allclose(model.predict(Batch(z))[5::10], expected, atol=1e-12)


@pytest.mark.slow
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


BBQ = catalog.find("bbq")


def predicted(batch: Batch, at: Batch | None = None, **given: str) -> np.ndarray:
    state = Bbq().fit(batch, calibrator.NO_SIDE_INPUTS, BBQ.resolve(given), 0)  # type: ignore[arg-type]
    return Bbq().predict(state.exact, batch if at is None else at, calibrator.NO_SIDE_INPUTS)


def inner_edges(prob: np.ndarray, count: int, binning: str) -> list[float]:
    if binning == "width":
        return [index / count for index in range(1, count)]
    ordered, edges = np.sort(prob), []
    for index in range(1, count):
        tie = 1e-9 if 2 * index > count else -1e-9  # as seen from either end
        below = min(max(int(np.floor(len(prob) * index / count + 0.5 + tie)), 1), len(prob) - 1)
        edges.append((ordered[below - 1] + ordered[below]) / 2)
    return sorted(set(edges))


def by_definition(batch: Batch, binning: str, score: str) -> np.ndarray:
    """Loops over histograms and bins, for rows without ties or weights."""
    prob, label, n = 1 / (1 + np.exp(-batch.score)), batch.labels, len(batch)
    evidence, outputs = [], []
    for count in bin_counts(n):
        edges = [0.0, *inner_edges(prob, count, binning), 1.0]
        output, total = np.empty(n), 0.0
        for low, high in itertools.pairwise(edges):
            inside = (prob > low) & (prob <= high)
            size, positive = int(inside.sum()), int(label[inside].sum())
            middle, bins = (low + high) / 2, len(edges) - 1
            if score == "bayes":
                a, b = 2 / bins * middle, 2 / bins * (1 - middle)
                level = (positive + a) / (size + a + b)
                total += math.lgamma(2 / bins) - math.lgamma(size + 2 / bins)
                total += math.lgamma(positive + a) - math.lgamma(a) + math.lgamma(size - positive + b) - math.lgamma(b)
            else:
                level = positive / size if size else middle
                total += positive * math.log(level) if positive else 0.0
                total += (size - positive) * math.log(1 - level) if size > positive else 0.0
                total -= (math.log(n) if score == "bic" else 2) / 2
            output[inside] = level
        evidence.append(total)
        outputs.append(output)
    share = np.exp(np.array(evidence) - max(evidence))
    return share @ np.array(outputs) / share.sum()


@pytest.mark.parametrize("score", ["bayes", "bic", "aic"])
@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("rows", [60, 400])
def test_bbq_is_its_definition(rows: int, binning: str, score: str) -> None:
    batch = ordinary(rows)
    np.testing.assert_allclose(
        predicted(batch, binning=binning, score=score), by_definition(batch, binning, score), atol=1e-9
    )


def test_the_numbers_of_bins_are_the_papers() -> None:
    assert bin_counts(1000) == range(1, 101)
    assert bin_counts(8_000_000) == range(20, 2001)
    assert bin_counts(20) == range(1, 5)
    assert bin_counts(1) == range(1, 2)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("score", ["bayes", "bic", "aic"])
def test_weights_count_as_repetitions(binning: str, score: str) -> None:
    batch = ordinary(300, weighted=True)
    one, other = (predicted(rows, batch, binning=binning, score=score) for rows in (batch, repeated(batch)))
    np.testing.assert_allclose(other, one, rtol=1e-9)


def test_the_papers_preset() -> None:
    assert BBQ.resolve(preset="paper")["score"] == "bayes"


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("score", ["bic", "aic"])
def test_netcals_histograms_and_scores_agree(score: str) -> None:
    """Its sums are in float32; its cut after the `elbow` of the scores, which the paper does not have, is left out."""
    pytest.importorskip("netcal")
    from netcal.binning import BBQ as Peer
    from netcal.binning import HistogramBinning

    batch = ordinary(900)
    prob = 1 / (1 + np.exp(-batch.score))
    models = [HistogramBinning(bins=count).fit(prob, batch.labels) for count in bin_counts(900)]
    peer = Peer(score_function=score)
    peer.fit(prob, batch.labels)
    share = peer._calc_model_scores(prob, batch.labels, models, score)
    expected = share @ np.array([model.transform(prob) for model in models]) / share.sum()
    np.testing.assert_allclose(predicted(batch, binning="width", score=score), expected, atol=1e-3)


def test_each_bin_gives_its_mean_scaled_score() -> None:
    batch = ordinary(3000)
    scaled = fitted("platt", batch).predict(batch)
    ours = fitted("scaling-binning", batch, bins=10).predict(batch)
    order = np.argsort(scaled)
    for rows in np.split(order, 10):
        np.testing.assert_allclose(ours[rows], scaled[rows].mean(), rtol=1e-12)


def test_ties_stay_together_and_bins_may_be_fewer() -> None:
    batch = ordinary(600)
    coarse = Batch(np.round(batch.score / 3), batch.label)
    prob = fitted("scaling-binning", coarse, bins=600).predict(coarse)
    scaled = fitted("platt", coarse).predict(coarse)
    np.testing.assert_allclose(prob, scaled, rtol=1e-12)  # each score is its own bin


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_kumars_bins_agree() -> None:
    """His functions on our scaled scores, because his scaling has no smoothed targets."""
    pytest.importorskip("calibration")
    from calibration import utils

    batch = ordinary(3000)
    scaled = fitted("platt", batch).predict(batch)
    peer = utils.get_discrete_calibrator(scaled, utils.get_equal_bins(scaled, num_bins=12))
    ours = fitted("scaling-binning", batch, bins=12)
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
    ours = fitted("scaling-binning", batch, bins=10)
    np.testing.assert_allclose(ours.predict(batch), peer.calibrate(prob), atol=1e-4)


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
    ours = fitted("histogram-platt", batch, bins=bins).predict(batch)
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
    ours = fitted("histogram-platt", changed, bins=3).predict(changed)
    outer = (batch.score < low) | (batch.score > high)
    np.testing.assert_allclose(ours[outer], prob(everyone, batch.score[outer]), atol=1e-5)
    inner = changed.take(~outer)
    np.testing.assert_allclose(ours[~outer], prob(platt(inner), inner.score), atol=1e-5)
