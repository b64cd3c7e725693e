from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize

from calcli.numeric.solve import Expansion, Expansions, newton, newton_each, newton_nonnegative, root_between


def quadratic(centre: np.ndarray, hessian: np.ndarray):
    def expand(x: np.ndarray) -> Expansion:
        d = x - centre
        return Expansion(float(d @ hessian @ d) / 2, hessian @ d, hessian)

    return expand


def test_a_quadratic_takes_one_step() -> None:
    centre = np.array([3.0, -1.0])
    found = newton(quadratic(centre, np.array([[4.0, 1.0], [1.0, 2.0]])), np.zeros(2))
    np.testing.assert_allclose(found, centre, atol=1e-12)


def test_a_flat_direction_stays_where_it_starts() -> None:
    found = newton(quadratic(np.array([3.0, 0.0]), np.diag([4.0, 0.0])), np.array([0.0, 5.0]))
    np.testing.assert_allclose(found, [3.0, 5.0], atol=1e-12)


@pytest.mark.filterwarnings("error")
def test_a_direction_that_hardly_bends_stays_where_it_starts() -> None:
    """A step of 1 / 1e-309 would overflow."""
    found = newton(lambda x: Expansion(float(-x[0]), np.array([-1.0]), np.array([[1e-309]])), np.array([3.0]))
    np.testing.assert_array_equal(found, [3.0])


def test_badly_scaled_directions_are_both_solved() -> None:
    found = newton(quadratic(np.array([1e6, 1e-6]), np.diag([1e-10, 1e10])), np.zeros(2))
    np.testing.assert_allclose(found, [1e6, 1e-6], rtol=1e-9)


@given(st.floats(-15, 15))
def test_steps_that_overshoot_are_cut_back(start: float) -> None:
    """ln cosh is nearly straight far out: the full Newton step would fly away."""

    def expand(x: np.ndarray) -> Expansion:
        t = float(x[0]) - 1.0
        value = abs(t) + np.log1p(np.exp(-2 * abs(t)))
        return Expansion(value, np.array([np.tanh(t)]), np.array([[1 - np.tanh(t) ** 2]]))

    assert newton(expand, np.array([start]))[0] == pytest.approx(1.0, abs=1e-6)


def test_many_functions_are_minimised_beside_each_other() -> None:
    """ln cosh along each direction: from nearby the minimum, NaN where a step has to be cut back or nothing bends."""
    centre, bends = np.array([[0.5, -0.2], [0.1, 0.0], [9.0, 0.0], [0.3, 0.3]]), np.array([1.0, 1.0, 1.0, 0.0])

    def expand(x: np.ndarray) -> Expansions:
        t = x - centre
        curve = 1 - np.tanh(t) ** 2
        curve[:, 1] *= bends
        return Expansions(np.logaddexp(t, -t).sum(axis=1), np.tanh(t), curve[:, :, None] * np.eye(2))

    found = newton_each(expand, np.zeros((4, 2)))
    np.testing.assert_allclose(found, np.where([[True], [True], [False], [False]], centre, np.nan), atol=1e-9)


@given(st.floats(-6, 6), st.floats(0.1, 5))
def test_a_root_is_brents(centre: float, steepness: float) -> None:
    def slope(x: float) -> tuple[float, float]:
        u = steepness * (np.log(x) - centre)
        return float(np.tanh(u)), float((1 - np.tanh(u) ** 2) * steepness / x)

    expected = brentq(lambda x: slope(x)[0], np.exp(-10), np.exp(10), xtol=1e-14, rtol=1e-12)
    assert root_between(slope, np.exp(-10), np.exp(10), 1.0) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_search_ends_where_rounding_leaves_no_step(seed: int) -> None:
    """Newton's digits double; what is left of the bracket then need not be halved."""
    centres = np.random.default_rng(seed).uniform(-3, 1, 300)
    asked = []

    def slope(x: float) -> tuple[float, float]:
        asked.append(x)
        u = np.tanh(np.log(x) - centres)
        return float(u.sum()), float((1 - u**2).sum() / x)

    found = root_between(slope, np.exp(-10), np.exp(10), 1.0)
    assert found == pytest.approx(brentq(lambda x: slope(x)[0], 1e-3, 10.0, xtol=1e-15), rel=1e-12)
    asked.clear()
    root_between(slope, np.exp(-10), np.exp(10), 1.0)
    assert len(asked) <= 12


def test_a_function_without_a_root_ends_at_its_bound() -> None:
    assert root_between(lambda x: (1.0, 0.0), 0.01, 100.0, 1.0) == pytest.approx(0.01, rel=1e-6)
    assert root_between(lambda x: (-1.0, 0.0), 0.01, 100.0, 1.0) == pytest.approx(100.0, rel=1e-6)


def test_a_function_that_is_zero_keeps_the_start() -> None:
    assert root_between(lambda x: (0.0, 0.0), 0.01, 100.0, 1.5) == 1.5


@pytest.mark.parametrize("rate", [0.01, 2.0, 40.0])
def test_the_tail_of_an_exponential_is_left_behind(rate: float) -> None:
    """Newton's steps there are 1/rate each: without halving, the end would be thousands of them away."""
    found = root_between(
        lambda x: (-float(np.exp(-rate * x)), rate * float(np.exp(-rate * x))), np.exp(-10), np.exp(10), 1.0
    )
    assert found == pytest.approx(np.exp(10)) or np.exp(-rate * found) == 0.0


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
