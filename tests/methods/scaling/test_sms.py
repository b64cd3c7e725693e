"""Structured matrix scaling beside its definition and its authors' code."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary

SMS = catalog.find("sms")


def definition(batch: Batch) -> np.ndarray:
    """Minimised by BFGS with differences for gradients."""
    n, classes = batch.weights.sum(), batch.classes
    beta = calibrator.fit(catalog.find("temperature"), batch, {}).state.number("inverse_temperature")
    V = batch.score if classes > 2 else np.column_stack([np.zeros(len(batch)), batch.score])
    L = np.log((1 - 1 / (n + 1)) * probabilities(beta * V) + 1 / ((n + 1) * classes))
    diagonal = np.eye(classes, dtype=bool)

    def logits(flat: np.ndarray) -> np.ndarray:
        M = flat[: classes**2].reshape(classes, classes)
        return L + L @ M.T + flat[classes**2 :]

    def loss(flat: np.ndarray) -> float:
        M, b = flat[: classes**2].reshape(classes, classes), flat[classes**2 :]
        own = -log_softmax(logits(flat))[np.arange(len(L)), batch.labels]
        near = classes / n * (b @ b + M[diagonal] @ M[diagonal])
        far = classes * (classes - 1) / n * (M[~diagonal] @ M[~diagonal])
        return float(np.average(own, weights=batch.weights) + near + far)

    found = minimize(loss, np.zeros(classes * (classes + 1)), tol=1e-10)
    return probabilities(logits(found.x))


@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_its_definition(classes: int, weighted: bool) -> None:
    batch = ordinary(300, classes, weighted=weighted)
    ours = calibrator.fit(SMS, batch, {}).predict(batch)
    expected = definition(batch)
    np.testing.assert_allclose(ours, expected if classes > 2 else expected[:, 1], atol=2e-6)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
@pytest.mark.parametrize("classes", [2, 3, 6])
def test_probmetrics_agrees(classes: int) -> None:
    """Its optimiser works in float32 and stops early: outputs are near, and what both minimise is lower for ours."""
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators.logistic import SMSCalibrator

    batch = ordinary(2000, classes)
    prob = probabilities(batch.score)
    table = prob if classes > 2 else np.column_stack([1 - prob, prob])
    peer = SMSCalibrator(penalty="ridge").fit(table, batch.labels)
    expected = peer.predict_proba(table)
    model = calibrator.fit(SMS, batch, {})
    np.testing.assert_allclose(model.predict(batch), expected if classes > 2 else expected[:, 1], atol=1e-3)

    log_p = np.log(peer.ts_.predict_proba(table))
    price = np.full((classes, classes + 1), classes * (classes - 1) / 2000)
    price[np.eye(classes, classes + 1) > 0] = price[:, -1] = classes / 2000

    def loss(coefficients: np.ndarray) -> float:
        own = log_softmax(log_p @ coefficients[:, :-1].T + coefficients[:, -1])[np.arange(2000), batch.labels]
        return float((price * (coefficients - np.eye(classes, classes + 1)) ** 2).sum() - own.mean())

    assert loss(model.state.array("coefficients")) <= loss(peer.W_) + 1e-9


def test_the_number_of_threads_changes_no_digit() -> None:
    """Of ten classes, whose 110 coefficients are enough for the linear algebra library to share the work."""
    rng = np.random.default_rng(0)
    score = 2.0 * rng.normal(size=(300, 10))
    batch = Batch(score, (score / 2.0 + rng.gumbel(size=score.shape)).argmax(axis=1))
    fits = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            fits.append(calibrator.fit(SMS, batch, {}).state.array("coefficients"))
    np.testing.assert_array_equal(fits[1], fits[0])
    np.testing.assert_array_equal(fits[2], fits[0])
