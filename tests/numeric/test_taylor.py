"""Truncated Taylor series beside the functions that they stand for, and natural cubic splines beside scipy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline

from calcli.numeric import solve as jets
from calcli.numeric.solve import NaturalSpline, locate

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


KNOTS = np.array([-3.0, -1.0, -0.5, 1.0, 4.0])


@pytest.mark.parametrize("count", [3, 4, 5])
def test_scipy_agrees(count: int) -> None:
    knots, values = KNOTS[:count], np.random.default_rng(count).normal(size=count)
    ours, peer = NaturalSpline.at(knots), CubicSpline(knots, values, bc_type="natural")
    z = np.linspace(knots[0], knots[-1], 201)
    jets = np.tensordot(values, ours.jets(z, 4), axes=1)
    for order, factorial in enumerate((1, 1, 2)):
        np.testing.assert_allclose(jets[order] * factorial, peer(z, order), atol=1e-10)
    assert (jets[4] == 0).all()
    rough = sum(quad(lambda x: peer(x, 2) ** 2, a, b)[0] for a, b in itertools.pairwise(knots))
    assert values @ ours.roughness @ values == pytest.approx(rough, rel=1e-8)


def test_it_is_straight_beyond_the_knots() -> None:
    values = np.array([0.0, 2.0, 1.0, 4.0, 3.0])
    ours, peer = NaturalSpline.at(KNOTS), CubicSpline(KNOTS, values, bc_type="natural")
    for end, z in ((KNOTS[0], np.array([-9.0, -4.0])), (KNOTS[-1], np.array([4.0, 5.0, 50.0]))):
        jets = np.tensordot(values, ours.jets(z, 2), axes=1)
        np.testing.assert_allclose(jets[0], peer(end) + (z - end) * peer(end, 1), atol=1e-9)
        np.testing.assert_allclose(jets[2], 0, atol=1e-12)


def test_a_line_has_no_roughness() -> None:
    ours = NaturalSpline.at(KNOTS)
    assert (2 * KNOTS + 1) @ ours.roughness @ (2 * KNOTS + 1) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_a_turn_between_knots_is_noticed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.cumsum(rng.exponential(size=5) * rng.choice([1.0, 0.01], 5))
    z = np.linspace(-6, 8, 20_001)
    piece, _ = locate(KNOTS, z)
    assert piece.min() == 0
    assert piece.max() == 5
    slopes = np.tensordot(values, NaturalSpline.at(KNOTS).jets(z, 1), axes=1)[1]
    assert NaturalSpline.at(KNOTS).is_monotone(values) == (slopes.min() >= 0)
    assert NaturalSpline.at(KNOTS).is_monotone(-values) == (slopes.min() >= 0)
