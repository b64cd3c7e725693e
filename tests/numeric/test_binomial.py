from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calcli.numeric import binomial
from calcli.numeric.binomial import exact_interval, rate_interval, sum_test


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


def by_all_labels(prob, label, weight):
    """Every outcome with its probability."""
    value = np.dot(weight, label)
    lower = upper = 0.0
    for outcome in itertools.product((0, 1), repeat=len(prob)):
        y = np.array(outcome)
        mass = np.prod(np.where(y == 1, prob, 1 - prob))
        lower += mass * (np.dot(weight, y) <= value + 1e-9)
        upper += mass * (np.dot(weight, y) >= value - 1e-9)
    return min(1.0, 2 * min(lower, upper))


@pytest.mark.parametrize("seed", range(8))
def test_few_rows_by_all_labels(seed):
    rng = np.random.default_rng(seed)
    prob, label = rng.beta(0.4, 1, 9), rng.integers(0, 2, 9)
    found = sum_test(prob, label)
    assert found.p == pytest.approx(by_all_labels(prob, label, np.ones(9)), rel=1e-9)
    assert found.least == pytest.approx(min(1, 2 * min(np.prod(prob), np.prod(1 - prob))), rel=1e-9)
    assert sum_test(prob, label, np.full(9, 1e200)) == pytest.approx(found)
    whole = np.append(rng.integers(1, 5, 8), 1)
    assert sum_test(prob, label, 0.1 * whole).p == pytest.approx(by_all_labels(prob, label, whole), rel=1e-6)


@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.97])
@pytest.mark.parametrize("ones", [1, 3, 10, 30])
def test_equal_probabilities_are_a_binomial(rate, ones):
    n = 60
    label = (np.arange(n) < ones).astype(np.int64)
    law = stats.binom(n, rate)
    oracle = min(1.0, 2 * min(law.cdf(ones), law.sf(ones - 1)))
    assert sum_test(np.full(n, rate), label).p == pytest.approx(oracle, rel=1e-9)


@pytest.mark.parametrize("rate", [0.005, 0.02, 0.3, 0.9])
@pytest.mark.parametrize("deviations", [-3.5, -2, -1, 1, 2, 3.5])
def test_many_rows_agree_with_the_binomial(rate, deviations):
    """Exact where a hundred labels are expected, the saddlepoint where there are thousands."""
    n = 20_000
    ones = int(np.clip(round(n * rate + deviations * np.sqrt(n * rate * (1 - rate))), 1, n - 1))
    label = (np.arange(n) < ones).astype(np.int64)
    law = stats.binom(n, rate)
    oracle = min(1.0, 2 * min(law.cdf(ones), law.sf(ones - 1)))
    assert sum_test(np.full(n, rate), label).p == pytest.approx(oracle, rel=0.01)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_saddlepoint_agrees_with_the_distribution_that_is_built_up(weighted, monkeypatch):
    rng = np.random.default_rng(1)
    pairs = []
    for _ in range(60):
        n = rng.integers(150, 400)
        prob, moved = rng.beta(0.5, 3, n), rng.uniform(0.6, 1.6)
        weight = rng.uniform(0.3, 3, n) if weighted else None
        label = (rng.random(n) < np.minimum(1, moved * prob)).astype(np.int64)
        monkeypatch.setattr(binomial, "EXACT", 1e9)
        monkeypatch.setattr(binomial, "EXACT_WEIGHTED", 1000)
        monkeypatch.setattr(binomial, "GRID", 40_000)
        exact = sum_test(prob, label, weight).p
        monkeypatch.setattr(binomial, "EXACT", 0)
        monkeypatch.setattr(binomial, "EXACT_WEIGHTED", 0)
        pairs.append((exact, sum_test(prob, label, weight).p))
    exact, near = np.array(pairs).T
    telling = exact < 0.5
    assert telling.sum() > 20
    np.testing.assert_allclose(near[telling], exact[telling], rtol=0.05)


def test_certain_predictions():
    assert sum_test(np.array([1.0, 1.0]), np.array([0, 1])) == (0.0, 0.0)
    assert sum_test(np.array([0.0, 1.0]), np.array([0, 1])) == (1.0, 0.0)
    for rows in (600, 6000):  # exact, and the saddlepoint: a label that cannot be moves the sum by one
        prob, label = np.append(np.full(rows, 0.5), 1.0), np.append(np.arange(rows) % 2, 1)
        assert sum_test(prob, label).p == pytest.approx(1.0)
        label[-1] = 0
        oracle = 2 * stats.binom(rows, 0.5).cdf(rows // 2 - 1)
        assert sum_test(prob, label).p == pytest.approx(oracle, rel=0.01)
    prob, label = np.append(np.full(6000, 1e-300), 1.0), np.append(np.zeros(6000, dtype=np.int64), 1)
    assert sum_test(prob, label).p == pytest.approx(1.0)
