"""Rejection beside a sort that is written out, and by what it means."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from calcli.metrics.base import Scored
from calcli.metrics.rejection import by_rate, by_threshold
from tests.support.strategies import any_rows


def wrong(rows: Scored) -> np.ndarray:
    predicted = (rows.prob > 0.5).astype(int) if rows.binary else rows.prob.argmax(axis=1)
    return (predicted != rows.label).astype(float)


def confidence(rows: Scored) -> np.ndarray:
    return np.maximum(rows.prob, 1 - rows.prob) if rows.binary else rows.prob.max(axis=1)


def test_ties_are_rejected_in_equal_parts() -> None:
    """The mean over every order in which five equally sure rows and two surer ones could be rejected."""
    rows = Scored(np.array([1, 1, 0, 0, 1, 0, 1]), np.array([0.7, 0.7, 0.7, 0.3, 0.3, 0.1, 0.9]))
    for left in range(1, 8):
        errors = []
        for order in permutations(range(5)):
            kept = [5, 6, *order][:left] if left >= 2 else [5 + order[0] % 2]
            errors.append(wrong(rows)[kept].mean())
        (found,) = by_rate(rows, [1 - left / 7])
        if left >= 2:
            assert found.error == pytest.approx(np.mean(errors))
        assert found.n == pytest.approx(left)


@given(any_rows(weighted=False))
def test_thresholds_count_the_rows_below_them(rows: Scored) -> None:
    scale = 1 - 1 / rows.classes
    for found in by_threshold(rows, [0.0, 0.15, 0.5, 0.85, 1.0]):
        doubt = (1 - confidence(rows)) / scale
        if np.any(np.abs(doubt - found.at) < 1e-9):
            continue  # on the threshold to rounding
        inside = doubt < found.at
        assert found.n == inside.sum()
        assert (found.error is None) == (not inside.any())
        if inside.any():
            assert found.error == pytest.approx(wrong(rows)[inside].mean(), abs=1e-12)


def test_a_row_on_the_threshold_is_accepted() -> None:
    rows = Scored(np.array([1, 0, 1]), np.array([0.95, 0.05, 0.8]))
    assert by_threshold(rows, [0.1])[0].n == 2
    three = Scored(np.array([0]), np.array([[0.8, 0.1, 0.1]]))
    assert by_threshold(three, [0.3, 0.299])[0].n == 1
    assert by_threshold(three, [0.299])[0].n == 0


@given(any_rows(least=2, weighted=False), st.data())
def test_a_row_of_weight_two_is_two_rows(rows: Scored, data: st.DataObject) -> None:
    times = np.array(data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows))))
    weighted = Scored(rows.label, rows.prob, times.astype(float))
    repeated = rows.take(np.repeat(np.arange(len(rows)), times))
    for one, other in (
        (by_rate(weighted), by_rate(repeated)),
        (by_threshold(weighted), by_threshold(repeated)),
    ):
        for a, b in zip(one, other, strict=True):
            assert (a.error is None) == (b.error is None)
            assert a.n == pytest.approx(b.n)
            assert a.error is None or a.error == pytest.approx(b.error, abs=1e-12)


def test_rejecting_nothing_leaves_the_error_rate_with_wilsons_interval() -> None:
    rng = np.random.default_rng(0)
    rows = Scored(rng.integers(0, 2, 400), rng.random(400))
    (found,) = by_rate(rows, [0.0])
    assert found.error == pytest.approx(wrong(rows).mean())
    peer = binomtest(int(wrong(rows).sum()), 400).proportion_ci(method="wilson")
    assert (found.lo, found.hi) == pytest.approx((peer.low, peer.high))


def test_thresholds_and_rates_are_two_ways_along_one_curve() -> None:
    rng = np.random.default_rng(1)
    rows = Scored(rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500))
    for one in by_threshold(rows):
        if one.error is not None:
            (other,) = by_rate(rows, [1 - one.n / 500])
            assert other.error == pytest.approx(one.error)
