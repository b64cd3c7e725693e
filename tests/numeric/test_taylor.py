"""Truncated Taylor series beside the functions that they stand for, a short way off."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.numeric import taylor as jets

POINTS = np.array([-20.0, -3.0, -0.2, 0.0, 0.7, 4.0, 25.0])
STEP = 0.02


def at(jet: np.ndarray, distance: float) -> np.ndarray:
    return sum(row * distance**k for k, row in enumerate(jet))


def inner(z: np.ndarray) -> np.ndarray:
    return 0.3 * z - 0.05 * z**2 + 0.2


def inner_jet(order: int) -> np.ndarray:
    z = jets.variable(POINTS, order)
    constant = np.zeros_like(z)
    constant[0] = 0.2
    return 0.3 * z - 0.05 * jets.product(z, z) + constant


@pytest.mark.parametrize("distance", [-STEP, STEP])
def test_composed_functions_are_right_a_short_way_off(distance: float) -> None:
    u, z = inner_jet(4), POINTS + distance
    s, slope = jets.sigmoid(u)
    expected = 1 / (1 + np.exp(-inner(z)))
    np.testing.assert_allclose(at(s, distance), expected, rtol=1e-7)
    np.testing.assert_allclose(at(slope, distance), expected * (1 - expected), rtol=1e-6)
    np.testing.assert_allclose(at(jets.softplus(u), distance), np.logaddexp(0, inner(z)), rtol=1e-7)
    np.testing.assert_allclose(at(jets.product(u, s), distance), inner(z) * expected, rtol=1e-6)


def test_order_zero_is_the_function() -> None:
    u = inner_jet(4)[:1]
    s, slope = jets.sigmoid(u)
    expected = 1 / (1 + np.exp(-inner(POINTS)))
    np.testing.assert_allclose(s[0], expected)
    np.testing.assert_allclose(slope[0], expected * (1 - expected))
    assert jets.variable(POINTS, 0).shape == (1, len(POINTS))


def test_digits_are_kept_at_both_ends() -> None:
    """1 - sigmoid(40) is e^-40, which a subtraction would lose."""
    _, slope = jets.sigmoid(jets.variable(np.array([-40.0, 40.0]), 1))
    np.testing.assert_allclose(slope[0], np.exp(-40.0), rtol=1e-12)
