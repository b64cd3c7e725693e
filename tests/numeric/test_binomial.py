from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calcli.numeric.binomial import exact_interval, rate_interval


@pytest.mark.parametrize("level", [0.5, 0.95, 0.9975])
def test_the_quantiles_are_those_of_the_binomial_distribution(level: float) -> None:
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.integers(1, 50, 600), rng.integers(50, 10**6, 100)]).astype(float)
    rate = rng.random(len(rows)) ** 3
    lo, hi = rate_interval(rate, rows, level)
    tail = (1 - level) / 2
    np.testing.assert_allclose(lo * rows, stats.binom.ppf(tail, rows, rate), rtol=1e-12)
    np.testing.assert_allclose(hi * rows, stats.binom.ppf(1 - tail, rows, rate), rtol=1e-12)


def test_a_great_many_rows() -> None:
    lo, hi = rate_interval(np.array([0.3]), np.array([1e8]))
    spread = 1.959964 * np.sqrt(0.3 * 0.7 / 1e8)
    np.testing.assert_allclose([lo[0], hi[0]], [0.3 - spread, 0.3 + spread], atol=2e-8)


def test_rows_that_are_not_whole_lie_between_those_that_are() -> None:
    rate = np.full(3, 0.4)
    lo, hi = rate_interval(rate, np.array([400.0, 400.5, 401.0]))
    assert (hi - lo).tolist() == pytest.approx([(hi - lo)[0]] * 3, abs=1 / 400)


def test_what_is_certain_has_no_spread() -> None:
    lo, hi = rate_interval(np.array([0.0, 1.0]), np.array([5.0, 7.0]))
    assert lo.tolist() == hi.tolist() == [0.0, 1.0]


def test_without_rows_anything_is_possible() -> None:
    lo, hi = rate_interval(np.array([0.3]), np.array([0.0]))
    assert (lo[0], hi[0]) == (0.0, 1.0)


@given(st.floats(0, 1), st.floats(1, 1e7), st.floats(0.5, 0.999))
def test_it_is_an_interval_of_rates(rate: float, rows: float, level: float) -> None:
    lo, hi = rate_interval(np.array([rate]), np.array([rows]), level)
    assert 0.0 <= lo[0] <= hi[0] <= 1.0


@pytest.mark.parametrize(("hits", "rows"), [(0, 7), (7, 7), (3, 7), (950, 1000), (10**6, 10**7)])
@pytest.mark.parametrize("level", [0.9, 0.99])
def test_the_exact_interval_is_that_of_scipy(hits: int, rows: int, level: float) -> None:
    expected = stats.binomtest(hits, rows).proportion_ci(level, method="exact")
    assert exact_interval(hits, rows, level) == pytest.approx((expected.low, expected.high), rel=1e-9)
