import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calcli.metrics.paired import paired_difference

values = st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=30).map(np.array)


@given(values, st.floats(-3, 3))
def test_without_weights_it_is_the_z_test_of_the_mean(a, shift):
    b = np.roll(a, 1) * 0.5 + shift
    found = paired_difference(a, b, None)
    error = stats.sem(a - b)
    assert found.value == pytest.approx(np.mean(a - b), abs=1e-12)
    if error > 1e-9:
        low, high = stats.norm.interval(0.95, np.mean(a - b), error)
        assert (found.lo, found.hi) == (pytest.approx(low, rel=1e-9, abs=1e-9), pytest.approx(high, rel=1e-9, abs=1e-9))
        assert found.p == pytest.approx(2 * stats.norm.sf(abs(np.mean(a - b)) / error), rel=1e-6, abs=1e-12)


def test_with_weights_the_variance_is_that_of_a_regression_on_a_constant():
    rng = np.random.default_rng(1)
    d, w = rng.normal(0.2, 1, 50), rng.exponential(size=50)
    # weighted least squares y = c with the sandwich (HC1): (X'WX)^-1 X'W diag(e^2) W X (X'WX)^-1 n/(n - 1)
    X = np.ones((50, 1))
    bread = np.linalg.inv(X.T @ (w[:, None] * X))
    c = (bread @ X.T @ (w * d)).item()
    meat = X.T @ np.diag((w * (d - c)) ** 2) @ X
    error = np.sqrt((bread @ meat @ bread).item() * 50 / 49)
    found = paired_difference(d, np.zeros(50), w)
    assert found.value == pytest.approx(c, rel=1e-12)
    assert found.hi - found.value == pytest.approx(stats.norm.ppf(0.975) * error, rel=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_interval_holds_the_truth_and_the_p_value_is_uniform(weighted):
    rng = np.random.default_rng(7)
    rounds, rows, truth = 2000, 400, 0.3
    held, p = 0, []
    for _ in range(rounds):
        weight = rng.uniform(0.2, 2, rows) if weighted else None
        a, b = rng.exponential(size=rows) + truth, rng.exponential(size=rows)
        found = paired_difference(a, b, weight)
        held += found.lo <= truth <= found.hi
        p.append(paired_difference(a - truth, b, weight).p)
    assert held / rounds == pytest.approx(0.95, abs=0.015)
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_it_has_the_sign_of_a_minus_b_and_turns_with_them():
    a, b = np.array([1.0, 2.0, 4.0]), np.array([0.5, 1.0, 1.0])
    forth, back = paired_difference(a, b, None), paired_difference(b, a, None)
    assert forth.value > 0
    assert (back.value, back.lo, back.hi, back.p) == (-forth.value, -forth.hi, -forth.lo, forth.p)


@given(values)
def test_rows_of_weight_zero_and_the_scale_of_weights_do_not_matter(a):
    b, w = a[::-1] ** 2, np.linspace(0.5, 2, len(a))
    found = paired_difference(a, b, w)
    scaled = paired_difference(np.append(a, 9.0), np.append(b, -9.0), 10 * np.append(w, 0.0))
    assert scaled == pytest.approx(found, rel=1e-9, abs=1e-12)


def test_equal_scores_differ_by_exactly_nothing():
    a = np.array([0.3, 0.1, 0.2])
    assert paired_difference(a, a.copy(), None) == (0.0, 0.0, 0.0, 1.0)


def test_what_the_rows_do_not_determine_is_none():
    assert paired_difference(np.array([1.0]), np.array([0.5]), None) == (0.5, None, None, None)
    assert paired_difference(np.array([1.0, 2.0]), np.zeros(2), np.array([0.0, 3.0])) == (2.0, None, None, None)
    assert paired_difference(np.array([1.0]), np.array([0.5]), np.zeros(1)) == (None, None, None, None)
    assert paired_difference(np.array([]), np.array([]), None) == (None, None, None, None)
