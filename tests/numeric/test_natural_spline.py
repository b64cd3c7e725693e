"""Natural cubic splines beside scipy's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import CubicSpline

from calcli.numeric.natural_spline import NaturalSpline, locate

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
