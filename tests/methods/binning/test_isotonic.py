"""Isotonic regression beside scikit-learn's, and beside its definition on small data."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.binning import isotonic
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
    ours = isotonic.predict(state, grid, calibrator.NO_SIDE_INPUTS)
    np.testing.assert_allclose(ours, peer.predict(grid.score), atol=1e-12)


def test_it_is_the_min_max_formula() -> None:
    """g_i = max over j <= i of min over k >= i of the mean of y_j .. y_k (Barlow et al. 1972)."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 25)
    z = np.arange(25.0)
    expected = [max(min(y[j : k + 1].mean() for k in range(i, 25)) for j in range(i + 1)) for i in range(25)]
    state = calibrator.fit(ISOTONIC, Batch(z, y.astype(np.int64)), {}).state
    np.testing.assert_allclose(isotonic.predict(state, Batch(z), calibrator.NO_SIDE_INPUTS), expected, atol=1e-12)


def test_the_mix_keeps_outputs_off_the_ends() -> None:
    z = np.linspace(-3, 3, 49)
    model = calibrator.fit(ISOTONIC, Batch(z, (z > 0).astype(np.int64)), {})
    prob = model.predict(Batch(z))
    assert prob[0] == pytest.approx(1 / (50 * 2))
    assert prob[-1] == pytest.approx(1 - 1 / (50 * 2))
