"""Dirichlet calibration beside a general-purpose optimiser on its definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.numeric.links import log_softmax
from tests.support.cases import ordinary

DIRICHLET = catalog.find("dirichlet")


def dirichlets(rows: int, seed: int = 0, *, weighted: bool = False) -> Batch:
    """Probabilities that are Dirichlet distributed in each class: the family is exactly right."""
    rng = np.random.default_rng(seed)
    alpha = np.array([[3.0, 1.0, 0.8], [0.7, 2.0, 1.5], [1.0, 0.6, 4.0]])
    label = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    prob = np.array([rng.dirichlet(alpha[k]) for k in label])
    return Batch(np.log(np.clip(prob, 1e-9, 1)), label, rng.uniform(0, 3, rows) if weighted else None)


@pytest.mark.parametrize(("off_diagonal", "bias"), [(0.01, 0.01), (0.3, 0.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_is_better_than_the_minimum(weighted: bool, off_diagonal: float, bias: float) -> None:
    batch = dirichlets(400, weighted=weighted)
    log_p = log_softmax(batch.score)
    share = 1 / (batch.weights.sum() + 1)
    target = (1 - share) * np.eye(3)[batch.labels] + share / 3

    def loss(flat: np.ndarray) -> float:
        W, b = flat[:9].reshape(3, 3), flat[9:]
        own = -(target * log_softmax(log_p @ W.T + b)).sum(axis=1)
        off = W[~np.eye(3, dtype=bool)]
        odir = off_diagonal * float((off**2).mean()) + bias * float((b**2).mean())
        return float(np.average(own, weights=batch.weights)) + odir

    params = DIRICHLET.resolve({"off_diagonal": off_diagonal, "bias": bias})
    coefficients = calibrator.fit(DIRICHLET, batch, params).state.array("coefficients")
    ours = np.concatenate([coefficients[:, :3].ravel(), coefficients[:, 3]])
    best = minimize(loss, np.concatenate([np.eye(3).ravel(), np.zeros(3)]), tol=1e-12)
    assert loss(ours) == pytest.approx(best.fun, abs=1e-7)
    assert loss(ours) <= best.fun + 1e-10


def test_it_finds_the_posterior_where_the_family_is_right() -> None:
    """By Bayes' rule ln P(k | p) is sum_j (alpha_kj - 1) ln p_j plus a constant for each class."""
    from scipy.special import gammaln

    train, test = dirichlets(40_000, 1), dirichlets(2000, 2)
    alpha = np.array([[3.0, 1.0, 0.8], [0.7, 2.0, 1.5], [1.0, 0.6, 4.0]])
    constant = gammaln(alpha.sum(axis=1)) - gammaln(alpha).sum(axis=1) + np.log([0.5, 0.3, 0.2])
    truth = np.exp(log_softmax(log_softmax(test.score) @ (alpha - 1).T + constant))
    ours = calibrator.fit(DIRICHLET, train, DIRICHLET.resolve()).predict(test)
    assert np.abs(ours - truth).mean() < 0.01


def test_two_classes_are_beta_calibration() -> None:
    batch = ordinary(400)
    beta = calibrator.fit(catalog.find("beta"), batch, {}).predict(batch)
    np.testing.assert_array_equal(calibrator.fit(DIRICHLET, batch, DIRICHLET.resolve()).predict(batch), beta)


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")  # the peer's own
def test_dirichletcal_is_not_better() -> None:
    pytest.importorskip("dirichletcal")
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator

    batch = dirichlets(20_000)
    prob = np.exp(log_softmax(batch.score))
    peer = FullDirichletCalibrator().fit(prob, batch.labels).predict_proba(prob)
    params = DIRICHLET.resolve({"off_diagonal": 0, "bias": 0})
    np.testing.assert_allclose(calibrator.fit(DIRICHLET, batch, params).predict(batch), peer, atol=1e-3)
