"""Minima under signs, beside scipy's bounded optimiser."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from calcli.numeric.bounded import newton_nonnegative
from calcli.numeric.solve import Expansion


@pytest.mark.parametrize("seed", range(30))
def test_a_bounded_optimiser_agrees(seed: int) -> None:
    rng = np.random.default_rng(seed)
    root, at = rng.normal(size=(3, 3)), rng.normal(size=3)
    bend = root @ root.T + 0.1 * np.eye(3)

    def expand(x: np.ndarray) -> Expansion:
        off = x - at
        return Expansion(float(off @ bend @ off) / 2, bend @ off, bend)

    ours = newton_nonnegative(expand, np.zeros(3), bounded=(0, 1))
    bounds = [(0, None), (0, None), (None, None)]
    best = minimize(lambda x: expand(x)[:2], np.zeros(3), jac=True, bounds=bounds, options={"ftol": 1e-15})
    np.testing.assert_allclose(ours, best.x, atol=1e-4)  # it stops when the value no longer falls
    assert expand(ours).value <= best.fun + 1e-12
    assert (ours[:2] >= 0).all()
