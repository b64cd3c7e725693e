"""Class rates of rows without labels: the EM as it was published, its interval, and the test of its assumption."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.numeric.prior_shift import Moments, NotIdentifiedError, moved, rates

BEFORE = np.array([0.8, 0.2])
FITTED = 20_000.0


def table(rate: float, rows: int, seed: int, shift: float = 0.0) -> np.ndarray:
    """Calibrated probabilities (at a rate of 0.2) of rows with another rate; features may have moved too."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=rows) + 1.5 * (rng.random(rows) < rate) + shift
    odds = np.log(0.25) + 1.5 * z - 1.125
    positive = 1 / (1 + np.exp(-odds))
    return np.column_stack([1 - positive, positive])


def em(prob: np.ndarray, before: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Saerens, Latinne and Decaestecker (2002), equation 2.9, step by step."""
    value = before
    for _ in range(4000):
        posterior = prob * value / before
        posterior /= posterior.sum(axis=1, keepdims=True)
        value = weight @ posterior / weight.sum()
    return value


@pytest.mark.parametrize("rate", [0.02, 0.2, 0.9])
def test_of_two_classes_it_is_where_the_em_ends(rate: float) -> None:
    prob, weight = table(rate, 400, 1), np.linspace(0.5, 2, 400)
    found = rates(prob, BEFORE, weight, FITTED)
    assert found.value == pytest.approx(em(prob, BEFORE, weight), abs=1e-6)
    assert found.lo[0] == pytest.approx(1 - found.hi[1])


def test_of_three_classes_too() -> None:
    rng = np.random.default_rng(2)
    truth = rng.choice(3, 600, p=[0.2, 0.3, 0.5])
    odds = np.log([0.6, 0.3, 0.1]) + 2.0 * np.eye(3)[truth] * 2 + rng.normal(size=(600, 3))
    prob = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    found = rates(prob, np.array([0.6, 0.3, 0.1]), np.ones(600), FITTED)
    assert found.value == pytest.approx(em(prob, np.array([0.6, 0.3, 0.1]), np.ones(600)), abs=1e-5)
    assert found.value.sum() == pytest.approx(1.0)


def test_its_interval_holds_the_rate_that_the_rows_were_drawn_with() -> None:
    held = []
    for seed in range(100):
        found = rates(table(0.05, 800, seed), BEFORE, np.ones(800), FITTED)
        held.append(found.lo[1] <= 0.05 <= found.hi[1])
    assert np.mean(held) >= 0.88  # .95, less three errors of 100 tables


def test_less_is_known_after_a_fit_on_fewer_rows() -> None:
    prob = table(0.05, 5000, 3)
    much, little = (rates(prob, BEFORE, np.ones(5000), rows) for rows in (1e6, 500.0))
    assert little.hi[1] - little.lo[1] > 1.3 * (much.hi[1] - much.lo[1])


def test_scores_that_do_not_tell_classes_apart_are_refused() -> None:
    flat = np.tile(BEFORE, (300, 1)) + np.linspace(-1e-3, 1e-3, 300)[:, None] * [-1, 1]
    with pytest.raises(NotIdentifiedError):
        rates(flat, BEFORE, np.ones(300), FITTED)


def moments() -> Moments:
    odds = table(0.2, 20_000, 4)
    z = np.log(odds[:, 1] / odds[:, 0])
    return Moments(float(z.mean()), float(z.std()), 20_000)


def test_moved_rates_alone_are_not_called_anything_else_and_moved_features_are() -> None:
    fit = moments()
    p = {0.0: [], 0.4: []}
    for shift, values in p.items():
        for seed in range(60):
            prob = table(0.05, 1500, seed, shift)
            values.append(moved(prob, BEFORE, np.ones(1500), rates(prob, BEFORE, np.ones(1500), FITTED).value, fit))
    assert np.mean(np.array(p[0.0]) < 0.05) <= 0.15  # 5 %, and three errors
    assert np.mean(np.array(p[0.4]) < 0.05) > 0.9
