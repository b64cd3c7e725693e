"""Isotonic regression beside scikit-learn's, and beside its definition on small data."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.binning.isotonic import Isotonic
from tests.support.cases import ordinary

ISOTONIC = catalog.find("isotonic")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [1, 12])
def test_scikit_learn_agrees(weighted: bool, digits: int) -> None:
    from sklearn.isotonic import IsotonicRegression

    batch = ordinary(3000, weighted=weighted)
    batch = Batch(np.round(batch.score, digits), batch.label, batch.weight)
    peer = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
    peer.fit(batch.score, batch.labels.astype(float), sample_weight=batch.weight)
    state = calibrator.fit(ISOTONIC, batch, {}).state
    grid = Batch(np.linspace(-9, 9, 5001))
    ours = Isotonic().predict(state.exact, grid, calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(ours, peer.predict(grid.score), atol=1e-12)


def test_it_is_the_min_max_formula() -> None:
    """g_i = max over j <= i of min over k >= i of the mean of y_j .. y_k (Barlow et al. 1972)."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 25)
    z = np.arange(25.0)
    expected = [max(min(y[j : k + 1].mean() for k in range(i, 25)) for j in range(i + 1)) for i in range(25)]
    state = calibrator.fit(ISOTONIC, Batch(z, y.astype(np.int64)), {}).state
    np.testing.assert_allclose(
        Isotonic().predict(state.exact, Batch(z), calibrator.NO_SIDE_INPUTS), expected, atol=1e-12
    )


def test_outputs_are_held_within_what_their_rows_support() -> None:
    """24 negative rows, then 25 positive ones; two more of the average kind would be of either label."""
    z = np.linspace(-3, 3, 49)
    model = calibrator.fit(ISOTONIC, Batch(z, (z >= 0).astype(np.int64)), {})
    average = 26 / 51
    prob = model.predict(Batch(z))
    assert prob[0] == pytest.approx(2 * average / 26)
    assert prob[-1] == pytest.approx(1 - 2 * (1 - average) / 27)


def test_a_step_that_its_rows_do_not_support_joins_the_one_below() -> None:
    """990 of 1,000 say .99, and two of two no more than .75: together 992 of 1,002 would, each step held first."""
    label = np.concatenate([np.zeros(10), np.ones(990), np.ones(2)]).astype(np.int64)
    z = np.concatenate([np.ones(1000), [2.0, 2.0]])
    batch = Batch(np.concatenate([-np.ones(1002), z]), np.concatenate([1 - label, label]))
    prob = calibrator.fit(ISOTONIC, batch, {}).predict(Batch(np.array([-1.0, 1.0, 2.0])))
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
        prob = calibrator.fit(ISOTONIC, Batch(z, label), {}).predict(Batch(at))
        last = prob >= prob.max() - 1e-12
        says.append(prob.max())
        happens.append(truth[last].mean())
    assert np.mean(says) == pytest.approx(np.mean(happens), abs=0.01)
