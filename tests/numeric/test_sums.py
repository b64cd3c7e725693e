"""Sums on a grid are the same in every order, and lose next to nothing."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.numeric import sums


@given(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=60), st.randoms())
def test_every_order_gives_the_same_bits(values: list[float], chance) -> None:
    bound = math.fsum(map(abs, values))
    if bound == 0:
        return
    grid = sums.grid(bound)
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
        grid = sums.grid(bound)
        assert (bound + grid) - grid == pytest.approx(bound, rel=2.0**-50)
        assert (-bound + grid) - grid == pytest.approx(-bound, rel=2.0**-50)


def test_ten_million_terms() -> None:
    values = np.random.default_rng(0).random(10_000_000)
    grid = sums.grid(1e7)
    terms = (values + grid) - grid
    assert np.abs(terms - values).max() <= 2.0**-28
    assert terms.sum() == terms[::-1].cumsum()[-1]


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_no_grid_for_no_bound(bound: float) -> None:
    with pytest.raises(ValueError, match="no grid"):
        sums.grid(bound)
