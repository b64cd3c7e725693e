"""Isotonic regression and its centred form: beside scikit-learn's and definitions on small data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.batch import Batch
from calcli.methods import calibrator
from calcli.methods.binning.isotonic import Isotonic
from tests.support.cases import ordinary
from tests.support.drawing import examples
from tests.support.methods import fitted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [1, 12])
def test_scikit_learn_agrees(weighted: bool, digits: int) -> None:
    from sklearn.isotonic import IsotonicRegression

    batch = ordinary(3000, weighted=weighted)
    batch = Batch(np.round(batch.score, digits), batch.label, batch.weight)
    peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    peer.fit(batch.score, batch.labels.astype(float), sample_weight=batch.weight)
    state = fitted("isotonic", batch).state
    grid = Batch(np.linspace(-9, 9, 5001))
    ours = Isotonic().predict(state.exact, grid, calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(ours, peer.predict(grid.score), atol=1e-12)


def test_it_is_the_min_max_formula() -> None:
    """g_i = max over j <= i of min over k >= i of the mean of y_j .. y_k (Barlow et al. 1972)."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 25)
    z = np.arange(25.0)
    expected = [max(min(y[j : k + 1].mean() for k in range(i, 25)) for j in range(i + 1)) for i in range(25)]
    state = fitted("isotonic", Batch(z, y.astype(np.int64))).state
    np.testing.assert_allclose(
        Isotonic().predict(state.exact, Batch(z), calibrator.NO_SIDE_INPUTS), expected, atol=1e-12
    )


def test_outputs_are_held_within_what_their_rows_support() -> None:
    """24 negative rows, then 25 positive ones; two more of the average kind would be of either label."""
    z = np.linspace(-3, 3, 49)
    model = fitted("isotonic", Batch(z, (z >= 0).astype(np.int64)))
    average = 26 / 51
    prob = model.predict(Batch(z))
    assert prob[0] == pytest.approx(2 * average / 26)
    assert prob[-1] == pytest.approx(1 - 2 * (1 - average) / 27)


def test_a_step_that_its_rows_do_not_support_joins_the_one_below() -> None:
    """990 of 1,000 say .99, and two of two no more than .75: together 992 of 1,002 would, each step held first."""
    label = np.concatenate([np.zeros(10), np.ones(990), np.ones(2)]).astype(np.int64)
    z = np.concatenate([np.ones(1000), [2.0, 2.0]])
    batch = Batch(np.concatenate([-np.ones(1002), z]), np.concatenate([1 - label, label]))
    prob = fitted("isotonic", batch).predict(Batch(np.array([-1.0, 1.0, 2.0])))
    held = 1 - 2 * (1 - 0.5) / 4
    assert prob[1] == prob[2] == pytest.approx((1000 * 0.99 + 2 * held) / 1002)


def test_the_last_step_does_not_promise_more_than_happens() -> None:
    """The outermost blocks hold a handful of rows; what they say, and what happens there, on average over tables."""
    says, happens = [], []
    at = np.random.default_rng(1).normal(0, 1.5, 4000)
    truth = 1 / (1 + np.exp(-at))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z = rng.normal(0, 1.5, 1000)
        label = (rng.random(1000) < 1 / (1 + np.exp(-z))).astype(np.int64)
        prob = fitted("isotonic", Batch(z, label)).predict(Batch(at))
        last = prob >= prob.max() - 1e-12
        says.append(prob.max())
        happens.append(truth[last].mean())
    assert np.mean(says) == pytest.approx(np.mean(happens), abs=0.01)


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
def test_centred_it_is_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = np.sort(rng.normal(0, 3, 18))
    y = (rng.random(18) < 1 / (1 + np.exp(-z / 2))).astype(np.int64)
    w = rng.integers(1, 4, 18).astype(float)
    at = np.linspace(-12, 12, 301)
    ours = fitted("isotonic-centered", Batch(z, y, w)).predict(Batch(at))
    np.testing.assert_allclose(ours, by_definition(z, y, w, at), atol=1e-10)


@examples(24)
@given(st.integers(1, 300), st.integers(0, 10_000), st.floats(0.1, 30))
def test_scores_that_differ_stay_different(rows: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    z = np.unique(np.round(rng.normal(0, scale, rows), 6))
    y = (rng.random(len(z)) < 1 / (1 + np.exp(-z / scale))).astype(np.int64)
    further = np.concatenate([[-800.0], z, [800.0]])
    prob = fitted("isotonic-centered", Batch(z, y)).predict(Batch(further))
    assert (np.diff(prob) > 0).all()


def test_the_auc_is_that_of_the_scores() -> None:
    from sklearn.metrics import roc_auc_score

    train, test = ordinary(500, seed=1), ordinary(5000, seed=2)
    model = fitted("isotonic-centered", train)
    assert roc_auc_score(test.labels, model.predict(test)) == roc_auc_score(test.labels, test.score)


def test_levels_that_rise_by_themselves_are_left_alone() -> None:
    """Rates that already increase with the score are their own isotonic regression."""
    z = np.repeat([-2.0, 0.0, 1.0], 100)
    y = np.concatenate([np.arange(100) < share for share in (20, 50, 90)]).astype(np.int64)
    prob = fitted("isotonic-centered", Batch(z, y)).predict(Batch(np.array([-2.0, 0.0, 1.0])))
    np.testing.assert_allclose(prob, [0.2, 0.5, 0.9])
