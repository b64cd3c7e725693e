from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from calcli.numeric import bins
from calcli.numeric.bins import rising, weight_below


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=60), st.randoms())
def test_every_order_gives_the_same_bits(values: list[float], chance) -> None:
    bound = math.fsum(map(abs, values))
    if bound == 0:
        return
    grid = bins.grid(bound)
    terms = [(value + grid) - grid for value in values]
    shuffled = terms.copy()
    chance.shuffle(shuffled)
    total = 0.0
    for term in terms:
        total += term
    other = 0.0
    for term in shuffled:
        other += term
    assert total == other
    assert Fraction(total) == sum(map(Fraction, terms))  # not rounded at all
    assert max(abs(a - b) for a, b in zip(terms, values, strict=True)) <= 2.0**-51 * bound


def test_a_term_as_large_as_the_bound_is_kept() -> None:
    for bound in (1.0, 3.0, 1e-9, 12e6, 2.0**40):
        grid = bins.grid(bound)
        assert (bound + grid) - grid == pytest.approx(bound, rel=2.0**-50)
        assert (-bound + grid) - grid == pytest.approx(-bound, rel=2.0**-50)


def test_a_million_terms() -> None:
    values = np.random.default_rng(0).random(1_000_000)
    grid = bins.grid(1e6)
    terms = (values + grid) - grid
    assert np.abs(terms - values).max() <= 2.0**-31
    assert terms.sum() == terms[::-1].cumsum()[-1]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_no_grid_for_no_bound(bound: float) -> None:
    with pytest.raises(ValueError, match="no grid"):
        bins.grid(bound)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 1000, 32_768, 32_769, 70_001])
@pytest.mark.parametrize("distinct", [1, 3, 10**9])
def test_order_of_many_rows_is_the_stable_one(n, distinct):
    rng = np.random.default_rng(n)
    prob = rng.integers(0, distinct, n) / distinct
    np.testing.assert_array_equal(rising(prob), np.argsort(prob, kind="stable"))


def test_order_tells_neighbouring_floats_apart():
    prob = np.full(5000, 0.3)
    for index in range(1, 5000, 2):
        prob[index] = np.nextafter(prob[index], index % 3)  # up or down by one bit
    np.testing.assert_array_equal(rising(prob), np.argsort(prob, kind="stable"))


def test_order_takes_negative_zero_for_zero():
    np.testing.assert_array_equal(rising(np.array([0.0, -0.0, 0.0, -0.0])), [0, 1, 2, 3])


def test_weight_below_is_the_mid_rank():
    values = np.random.default_rng(1).integers(0, 5, 40).astype(float)
    np.testing.assert_allclose(weight_below(values), rankdata(values) - 0.5)
