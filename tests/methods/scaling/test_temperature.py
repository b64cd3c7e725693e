"""Temperature scaling beside scikit-learn's and a brute-force search."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.scaling.linear import inverse_temperature
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary

TEMPERATURE = catalog.find("temperature")


def beta(batch: Batch) -> float:
    return calibrator.fit(TEMPERATURE, batch, {}).state.number("inverse_temperature")


def loss(value: float, batch: Batch) -> float:
    V = batch.score if batch.score.ndim == 2 else np.column_stack([np.zeros(len(batch)), batch.score])
    chosen = log_softmax(value * V)[np.arange(len(batch)), batch.labels]
    return -float(np.average(chosen, weights=batch.weights))


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_bounded_search_finds_the_same(classes: int, weighted: bool) -> None:
    batch = ordinary(2000, classes, weighted=weighted)
    best = minimize_scalar(
        lambda t: loss(float(np.exp(t)), batch), bounds=(-3, 3), method="bounded", options={"xatol": 1e-12}
    )
    ours = beta(batch)
    assert ours == pytest.approx(float(np.exp(best.x)), rel=1e-6)
    assert loss(ours, batch) <= best.fun + 1e-14


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_derivative_vanishes(classes: int) -> None:
    batch = ordinary(3000, classes)
    ours = beta(batch)
    step = 1e-5 * ours
    slope = (loss(ours + step, batch) - loss(ours - step, batch)) / (2 * step)
    assert abs(slope) < 1e-9


def test_scikit_learn_agrees() -> None:
    calibration = pytest.importorskip("sklearn.calibration")
    if not hasattr(calibration, "_TemperatureScaling"):
        pytest.skip("this scikit-learn has no temperature scaling")
    batch = ordinary(3000, 5)
    peer = calibration._TemperatureScaling().fit(batch.score, batch.labels)
    assert beta(batch) == pytest.approx(float(peer.beta_), rel=1e-5)


def test_two_classes_as_one_column_or_two_give_the_same() -> None:
    batch = ordinary(1500)
    two = Batch(np.column_stack([np.zeros(len(batch)), batch.score]), batch.label)
    assert beta(batch) == pytest.approx(inverse_temperature(two), rel=1e-9)


@pytest.mark.parametrize("least", [0.06, 1e-4])
@pytest.mark.parametrize("classes", [2, 3])
def test_separable_rows_have_the_targets_of_one_more_row(least: float, classes: int) -> None:
    """The best temperature would be 0: certainty, from fifty rows."""
    z = np.concatenate([np.linspace(-3, -least, 25), np.linspace(least, 3, 25)])
    label = (z > 0).astype(np.int64)
    v = np.column_stack([np.zeros(50), z, *[np.full(50, -4.0)] * (classes - 2)])
    targets = (1 - 1 / 51) * np.eye(classes)[label] + 1 / 51 / classes
    found = minimize_scalar(lambda t: -(targets * log_softmax(np.exp(t) * v)).sum(), bounds=(-10, 10), method="bounded")
    ours = beta(Batch(z if classes == 2 else v, label))
    assert np.log(ours) == pytest.approx(found.x, abs=1e-4)


def test_upside_down_rows_stop_at_the_other_bound() -> None:
    z = np.linspace(-3, 3, 50)
    assert beta(Batch(z, (z < 0).astype(np.int64))) == pytest.approx(np.exp(-10))


def test_scores_without_information_keep_their_temperature() -> None:
    assert beta(Batch(np.zeros(10), np.arange(10) % 2)) == 1.0


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("classes", [2, 5])
def test_probmetrics_agrees(classes: int) -> None:
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators import get_calibrator

    batch = ordinary(3000, classes)
    ours = calibrator.fit(TEMPERATURE, batch, {}).predict(batch)
    prob = probabilities(batch.score)
    table = prob if classes > 2 else np.column_stack([1 - prob, prob])
    peer = get_calibrator("temp-scaling").fit(table, batch.labels).predict_proba(table)
    np.testing.assert_allclose(ours, peer if classes > 2 else peer[:, 1], atol=1e-6)
