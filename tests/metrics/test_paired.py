import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calcli.metrics.paired import PairedSums, paired_difference

values = st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=30).map(np.array)


@given(values, st.floats(-3, 3))
def test_of_symmetric_differences_it_is_the_z_test_of_the_mean(a, shift):
    a = np.concatenate([a, 2.0 - a]) + shift
    found = paired_difference(a, np.zeros(len(a)), None)
    error = stats.sem(a)
    assert found.value == pytest.approx(np.mean(a), abs=1e-12)
    if error > 1e-3:
        low, high = stats.norm.interval(0.95, np.mean(a), error)
        assert (found.lo, found.hi) == (pytest.approx(low, rel=1e-6, abs=1e-6), pytest.approx(high, rel=1e-6, abs=1e-6))
        assert found.p == pytest.approx(2 * stats.norm.sf(abs(np.mean(a)) / error), rel=1e-4, abs=1e-9)


def test_the_ends_are_where_halls_statistic_of_three_quarters_of_the_skewness_is_a_normal_quantile():
    d = np.random.default_rng(2).exponential(size=80) ** 2 - 1.5
    found = paired_difference(d, np.zeros(80), None)
    skew = 0.75 * stats.skew(d) / np.sqrt(80)
    for end, quantile in ((found.lo, 0.975), (found.hi, 0.025)):
        t = (d.mean() - end) / stats.sem(d)
        hall = t + skew * (t**2 / 3 + 1 / 6) + skew**2 * t**3 / 27
        assert hall == pytest.approx(stats.norm.ppf(quantile), abs=1e-9)
    for end in (found.lo, found.hi):
        assert paired_difference(d, np.full(80, end), None).p == pytest.approx(0.05, abs=1e-9)


def test_few_positives_do_not_make_it_one_sided():
    rng = np.random.default_rng(4)
    below = above = 0
    for _ in range(2000):
        z = rng.normal(-5.3, 1.2, 1000)
        p, q = 1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-z - 0.5))
        label = rng.random(1000) < p
        truth = (p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))).mean()
        loss, other = (-np.log(np.where(label, each, 1 - each)) for each in (q, p))
        found = paired_difference(loss, other, None)
        below, above = below + (truth < found.lo), above + (truth > found.hi)
    assert max(below, above) / 2000 <= 0.035  # by the z test 0.065 lie on one side
    assert 0.93 <= 1 - (below + above) / 2000 <= 0.97


@pytest.mark.parametrize("weighted", [False, True])
def test_parts_add_up(weighted):
    rng = np.random.default_rng(3)
    d, w = rng.exponential(size=300) + 5.0, rng.exponential(size=300) if weighted else np.ones(300)
    parts = PairedSums()
    for some in (slice(0, 7), slice(7, 8), slice(8, 300)):
        parts += PairedSums.of(d[some], np.zeros(len(d[some])), w[some])
    assert parts.difference() == pytest.approx(paired_difference(d, np.zeros(300), w), rel=1e-9)


def test_with_weights_the_variance_is_that_of_a_regression_on_a_constant():
    rng = np.random.default_rng(1)
    d, w = rng.normal(0.2, 1, 25), rng.exponential(size=25)
    d, w = np.concatenate([d, -d]), np.concatenate([w, w])  # symmetric
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
