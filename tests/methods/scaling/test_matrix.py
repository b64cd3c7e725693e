"""Matrix scaling beside a general-purpose optimiser on its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.numeric import multinomial
from calcli.numeric.links import log_softmax, probabilities
from tests.support.cases import ordinary

MATRIX = catalog.find("matrix")


def log_loss(prob: np.ndarray, label: np.ndarray) -> float:
    return -float(np.log(prob[np.arange(len(label)), label]).mean())


def mixed(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Three classes of which the model confuses the first two."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(0, 1.5, (rows, 3))
    label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1).astype(np.int64)
    score = truth @ np.array([[1.4, 0.9, 0.0], [0.9, 1.4, 0.0], [0.0, 0.3, 1.0]])
    return Batch(score, label, rng.uniform(0, 3, rows) if weighted else None)


def penalised_loss(flat: np.ndarray, batch: Batch, off_diagonal: float, bias: float) -> float:
    """ODIR as in the paper, on centred logits of root mean square 1."""
    W, b = flat[:9].reshape(3, 3), flat[9:]
    V = batch.score - batch.score.mean(axis=1, keepdims=True)
    size = np.sqrt(np.average((V**2).mean(axis=1), weights=batch.weights))
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(3)[batch.labels] + share / 3
    own = -(target * log_softmax(V @ W.T + b)).sum(axis=1)
    off = (W * size)[~np.eye(3, dtype=bool)]
    return (
        float(np.average(own, weights=batch.weights))
        + off_diagonal * float((off**2).mean())
        + bias * float((b**2).mean())
    )


@pytest.mark.parametrize(("off_diagonal", "bias"), [(0.01, 0.01), (1.0, 0.0), (0.0, 5.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_is_better_than_the_minimum(weighted: bool, off_diagonal: float, bias: float) -> None:
    batch = mixed(400, weighted=weighted)
    params = MATRIX.resolve({"off_diagonal": off_diagonal, "bias": bias})
    coefficients = calibrator.fit(MATRIX, batch, params).state.array("coefficients")
    ours = np.concatenate([coefficients[:, :3].ravel(), coefficients[:, 3]])
    start = np.concatenate([np.eye(3).ravel(), np.zeros(3)])
    best = minimize(penalised_loss, start, (batch, off_diagonal, bias), tol=1e-12)
    assert penalised_loss(ours, batch, off_diagonal, bias) <= best.fun + 1e-10
    assert penalised_loss(ours, batch, off_diagonal, bias) == pytest.approx(best.fun, abs=1e-7)


def test_a_mixed_up_model_is_put_right() -> None:
    train, test = mixed(4000, 1), mixed(4000, 2)
    losses = {
        row.name: log_loss(calibrator.fit(row, train, row.resolve()).predict(test), test.labels)
        for row in map(catalog.find, ("vector", "matrix"))
    }
    assert losses["matrix"] < losses["vector"] - 0.005


def test_a_constant_added_to_all_logits_of_a_row_changes_nothing() -> None:
    batch = mixed(300)
    shifted = Batch(batch.score + np.random.default_rng(0).normal(0, 50, (300, 1)), batch.label)
    one, other = (
        calibrator.fit(MATRIX, rows, MATRIX.resolve({"off_diagonal": 0.1, "bias": 0.1})) for rows in (batch, shifted)
    )
    np.testing.assert_allclose(other.predict(shifted), one.predict(batch), atol=1e-9)


def test_logits_of_another_size_give_the_same_probabilities() -> None:
    batch = mixed(300)
    large = Batch(batch.score * 100, batch.label)
    one, other = (
        calibrator.fit(MATRIX, rows, MATRIX.resolve({"off_diagonal": 0.1, "bias": 0.1})) for rows in (batch, large)
    )
    np.testing.assert_allclose(other.predict(large), one.predict(batch), atol=1e-9)


def test_two_classes_are_platt_scaling() -> None:
    batch = ordinary(400)
    platt = calibrator.fit(catalog.find("platt"), batch, {}).predict(batch)
    np.testing.assert_array_equal(calibrator.fit(MATRIX, batch, MATRIX.resolve()).predict(batch), platt)


def test_many_classes_end_at_the_same_minimum_without_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    batch, params = ordinary(800, 5), MATRIX.resolve({"off_diagonal": 0.1, "bias": 0.1})
    exact = calibrator.fit(MATRIX, batch, params).predict(batch)
    monkeypatch.setattr(multinomial, "EXACT", 0)
    np.testing.assert_allclose(calibrator.fit(MATRIX, batch, params).predict(batch), exact, atol=1e-5)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_probmetrics_is_not_better_where_nothing_is_regularised() -> None:
    """Targets mixed with one row's worth of 1/K cost nothing that 20,000 rows would notice."""
    pytest.importorskip("probmetrics")
    from probmetrics.calibrators.logistic import MatrixScalingCalibrator

    batch = mixed(20_000)
    raw = probabilities(batch.score)
    peer = MatrixScalingCalibrator().fit(raw, batch.labels).predict_proba(raw)
    params = MATRIX.resolve({"off_diagonal": 0, "bias": 0})
    ours = calibrator.fit(MATRIX, batch, params).predict(batch)
    assert abs(log_loss(ours, batch.labels) - log_loss(peer, batch.labels)) < 1e-2
