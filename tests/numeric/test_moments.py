"""Sums by Taylor series in cells, beside the sums over rows that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from calcli.numeric import moments
from calcli.numeric.moments import ScoreMoments
from tests.support.drawing import examples


def rows(count: int, scale: float, seed: int, *, weighted: bool = True):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, scale, count)
    return z, rng.integers(0, 2, count), rng.uniform(0, 3, count) if weighted else None


@examples(24)
@given(st.integers(1, 400), st.floats(0.01, 30), st.floats(-8, 8), st.floats(-5, 5), st.integers(0, 1000))
def test_softplus_and_its_derivatives(count: int, scale: float, a: float, b: float, seed: int) -> None:
    z, y, w = rows(count, scale, seed)
    value, gradient, hessian = ScoreMoments.of(moments.gather(z, y, w)).softplus(a, b)
    u = a * z + b
    s = expit(u)
    bend = w * s * (1 - s)
    total = w.sum()
    assert value == pytest.approx(float(w @ np.logaddexp(0, u)), rel=1e-8)
    np.testing.assert_allclose(gradient, [w @ (s * z), w @ s], rtol=1e-7, atol=1e-7 * total * (1 + scale))
    exact = [[bend @ z**2, bend @ z], [bend @ z, bend.sum()]]
    np.testing.assert_allclose(hessian, exact, rtol=1e-4, atol=1e-4 * total * (1 + scale**2))


def test_derivatives_are_those_of_the_series_itself() -> None:
    """At a slope for which the cells are coarse, so that the last terms of the series count."""
    z, y, w = rows(300, 0.002, 0)
    sums, at, h = ScoreMoments.of(moments.gather(z, y, w)), np.array([900.0, 1.3]), 1e-3

    def difference(step: np.ndarray) -> float:
        before, after = (sums.softplus(*(at + sign * step)).value for sign in (-1, 1))
        return (after - before) / (2 * h)

    gradient = [difference(step) for step in h * np.eye(2)]
    np.testing.assert_allclose(sums.softplus(*at).gradient, gradient, rtol=1e-6)


def test_totals_are_exact() -> None:
    z, y, w = rows(5000, 4, 1)
    found = ScoreMoments.of(moments.gather(z, y, w))
    assert found.weight == pytest.approx(w.sum(), rel=1e-13)
    assert found.weight_positive == pytest.approx(w @ y, rel=1e-13)
    assert found.score == pytest.approx(w @ z, rel=1e-11)
    assert found.score_positive == pytest.approx((w * y) @ z, rel=1e-11)
    mean = (w @ z) / w.sum()
    assert found.spread == pytest.approx(np.sqrt(w @ (z - mean) ** 2 / w.sum()), rel=1e-10)


def test_no_weights_are_weights_of_one() -> None:
    z, y, _ = rows(500, 3, 2, weighted=False)
    plain, ones = moments.gather(z, y, None), moments.gather(z, y, np.ones(500))
    for name in plain:
        np.testing.assert_allclose(plain[name], ones[name], atol=1e-12)


def test_scores_beyond_the_limit_are_held_there() -> None:
    found = ScoreMoments.of(moments.gather(np.array([1e300, -1e300]), np.array([1, 0]), None))
    assert found.weight == 2
    assert found.spread == pytest.approx(moments.LIMIT, rel=1e-6)
