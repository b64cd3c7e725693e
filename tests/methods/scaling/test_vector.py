"""Vector scaling beside a general-purpose optimiser on its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.scaling import matrix
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary

VECTOR = catalog.find("vector")


def log_loss(prob: np.ndarray, label: np.ndarray) -> float:
    return -float(np.log(prob[np.arange(len(label)), label]).mean())


def uneven(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Four classes whose logits are wrong by a factor and a constant of their own."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.3, (rows, 4))
    label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
    score = truth * [0.5, 1.0, 2.0, 3.0] + [0.8, 0.0, -0.5, 0.2]
    return Batch(score, label, rng.uniform(0, 3, rows) if weighted else None)


@pytest.mark.parametrize("bias", [0.0, 0.5])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_is_better_than_the_minimum(weighted: bool, bias: float) -> None:
    batch = uneven(500, weighted=weighted)
    V = batch.score - batch.score.mean(axis=1, keepdims=True)
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(4)[batch.labels] + share / 4

    def loss(x: np.ndarray) -> float:
        own = -(target * log_softmax(V * x[:4] + x[4:])).sum(axis=1)
        return float(np.average(own, weights=batch.weights)) + bias / 4 * float(x[4:] @ x[4:])

    model = calibrator.fit(VECTOR, batch, VECTOR.resolve({"bias": bias}))
    coefficients = model.state.array("coefficients")
    assert np.count_nonzero(coefficients[:, :4]) == 4
    ours = np.concatenate([np.diag(coefficients), coefficients[:, 4]])
    best = minimize(loss, np.concatenate([np.ones(4), np.zeros(4)]), tol=1e-12)
    assert loss(ours) <= best.fun + 1e-10
    expected = probabilities(V * best.x[:4] + best.x[4:])
    np.testing.assert_allclose(model.predict(batch), expected, atol=1e-5)  # BFGS with differences for gradients


def test_what_is_wrong_class_by_class_is_put_right() -> None:
    train, test = uneven(4000, 1), uneven(4000, 2)
    losses = {
        name: log_loss(calibrator.fit(row, train, row.resolve()).predict(test), test.labels)
        for name in ("temperature", "vector")
        if (row := catalog.find(name))
    }
    assert losses["vector"] < losses["temperature"] - 0.05


def test_two_classes_are_platt_scaling() -> None:
    batch = ordinary(400)
    platt = calibrator.fit(catalog.find("platt"), batch, {}).predict(batch)
    np.testing.assert_array_equal(calibrator.fit(VECTOR, batch, VECTOR.resolve()).predict(batch), platt)


def test_the_strength_is_the_one_of_least_held_out_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intercepts that are right as they are: strong regularisation wins, and is as good on new rows as any other."""
    rng = np.random.default_rng(3)

    def even(rows: int) -> Batch:
        truth = rng.normal(0, 1.0, (rows, 6))
        return Batch(2 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64))

    train, test = even(120), even(20_000)
    chosen = log_loss(calibrator.fit(VECTOR, train, VECTOR.resolve()).predict(test), test.labels)
    single = []
    for strength in matrix.STRENGTHS:
        monkeypatch.setattr(matrix, "STRENGTHS", (strength,))
        single.append(log_loss(calibrator.fit(VECTOR, train, VECTOR.resolve()).predict(test), test.labels))
    assert single[0] < single[-1]
    assert chosen <= single[0] + 0.25 * (single[-1] - single[0])


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_probmetrics_agrees_where_nothing_is_regularised() -> None:
    """It divides by a temperature for each class; its targets are not mixed, which 20,000 rows do not notice."""
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators.logistic import VectorScalingCalibrator

    batch = uneven(20_000)
    raw = probabilities(batch.score)
    peer = VectorScalingCalibrator().fit(raw, batch.labels).predict_proba(raw)
    ours = calibrator.fit(VECTOR, Batch(np.log(raw), batch.label), VECTOR.resolve({"bias": 0})).predict(batch)
    assert log_loss(ours, batch.labels) <= log_loss(peer, batch.labels) + 5e-3
