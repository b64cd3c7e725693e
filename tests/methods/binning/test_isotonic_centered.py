"""Centred isotonic regression beside its definition on small data, and its promise to keep the order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from tests.support.cases import ordinary

CENTRED = catalog.find("isotonic-centered")


def by_definition(z: np.ndarray, y: np.ndarray, w: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Min-max formula, levels held within what rows support and the formula again, blocks of equal level, their
    weighted means, straight lines between them.
    """
    n = len(z)

    def isotonic(y: np.ndarray) -> list[float]:
        def mean(j: int, k: int) -> float:
            return float(w[j:k] @ y[j:k] / w[j:k].sum())

        return [max(min(mean(j, k) for k in range(i + 1, n + 1)) for j in range(i + 1)) for i in range(n)]

    level = np.round(isotonic(y), 12)
    average = (w @ y + 1) / (w.sum() + 2)
    share = [2 / (w[level == one].sum() + 2) for one in level]
    held = np.clip(level, average * np.array(share), 1 - (1 - average) * np.array(share))
    level = isotonic(held)
    axis = z / (1 + np.abs(z))
    middles, heights = [], []
    for height, group in itertools.groupby(range(n), key=lambda i: round(level[i], 12)):
        rows = list(group)
        middles.append(float(np.average(axis[rows], weights=w[rows])))
        heights.append(height)
    prob = np.interp(at / (1 + np.abs(at)), middles, heights)
    low, high = (m / (1 - abs(m)) for m in (middles[0], middles[-1]))
    prob = np.where(at < low, heights[0] * (3 + 1 / (1 + np.abs(at - low))) / 4, prob)
    return np.where(at > high, 1 - (1 - heights[-1]) * (3 + 1 / (1 + np.abs(at - high))) / 4, prob)


@pytest.mark.parametrize("seed", range(8))
def test_it_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = np.sort(rng.normal(0, 3, 18))
    y = (rng.random(18) < 1 / (1 + np.exp(-z / 2))).astype(np.int64)
    w = rng.integers(1, 4, 18).astype(float)
    at = np.linspace(-12, 12, 301)
    ours = calibrator.fit(CENTRED, Batch(z, y, w), {}).predict(Batch(at))
    np.testing.assert_allclose(ours, by_definition(z, y, w, at), atol=1e-10)


@settings(max_examples=60)
@given(st.integers(1, 300), st.integers(0, 10_000), st.floats(0.1, 30))
def test_scores_that_differ_stay_different(rows: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    z = np.unique(np.round(rng.normal(0, scale, rows), 6))
    y = (rng.random(len(z)) < 1 / (1 + np.exp(-z / scale))).astype(np.int64)
    further = np.concatenate([[-800.0], z, [800.0]])
    prob = calibrator.fit(CENTRED, Batch(z, y), {}).predict(Batch(further))
    assert (np.diff(prob) > 0).all()


def test_the_auc_is_that_of_the_scores() -> None:
    from sklearn.metrics import roc_auc_score

    train, test = ordinary(500, seed=1), ordinary(5000, seed=2)
    model = calibrator.fit(CENTRED, train, {})
    assert roc_auc_score(test.labels, model.predict(test)) == roc_auc_score(test.labels, test.score)


def test_levels_that_rise_by_themselves_are_left_alone() -> None:
    """Rates that already increase with the score are their own isotonic regression."""
    z = np.repeat([-2.0, 0.0, 1.0], 100)
    y = np.concatenate([np.arange(100) < share for share in (20, 50, 90)]).astype(np.int64)
    prob = calibrator.fit(CENTRED, Batch(z, y), {}).predict(Batch(np.array([-2.0, 0.0, 1.0])))
    np.testing.assert_allclose(prob, [0.2, 0.5, 0.9])
