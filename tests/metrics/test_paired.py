"""Paired differences: of single rows, of rows of folds, and of gains that are looked at for their size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.stats import norm, truncnorm

from calcli.metrics.base import Folds, Scored
from calcli.metrics.paired import (
    Z975,
    Deals,
    FoldFits,
    Paired,
    PairedSums,
    given_at_least,
    missing,
    paired_difference,
    widened,
)

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


@pytest.mark.parametrize("units", [None, np.arange(80) // 2])
def test_the_interval_of_the_level_1_less_p_ends_at_nothing(units):
    d, weight = np.random.default_rng(2).exponential(size=80) ** 2 - 1.2, np.random.default_rng(3).uniform(1, 2, 80)
    for value in (d, -d):
        p = paired_difference(value, np.zeros(80), weight, units).p
        found = paired_difference(value, np.zeros(80), weight, units, 1.0 - p)
        assert min(abs(found.lo), abs(found.hi)) == pytest.approx(0.0, abs=1e-9)
        assert found.p == p
        wider = paired_difference(value, np.zeros(80), weight, units, 1.0 - p / 2.0)
        assert wider.lo < 0.0 < wider.hi


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


@pytest.mark.parametrize("units", [None, np.arange(2000) // 2])
def test_scores_that_differ_by_rounding_differ_by_nothing(units: np.ndarray | None) -> None:
    rng = np.random.default_rng(0)
    prob = rng.uniform(1e-9, 1e-3, 2000)
    again = 1.0 / (1.0 + np.exp(-np.log(prob / (1.0 - prob))))
    assert (prob != again).any()
    losses = [lambda p, y: (p - y) ** 2, lambda p, y: -np.where(y, np.log(p), np.log1p(-p))]
    for labels in (rng.random(2000) < 0.5, np.zeros(2000, bool)):
        for loss in losses:
            before, after = loss(prob, labels), loss(again, labels)
            assert (before != after).any()
            assert paired_difference(before, after, None, units) == (0.0, 0.0, 0.0, 1.0)
            # but probabilities that are small themselves may differ by little
            smaller = paired_difference(before / 1e12, loss(1.1 * prob, labels) / 1e12, None, units)
            assert smaller.value == pytest.approx(1e-12 * (before - loss(1.1 * prob, labels)).mean())
            assert smaller.value != 0.0


def test_what_the_rows_do_not_determine_is_none():
    assert paired_difference(np.array([1.0]), np.array([0.5]), None) == (0.5, None, None, None)
    assert paired_difference(np.array([1.0, 2.0]), np.zeros(2), np.array([0.0, 3.0])) == (2.0, None, None, None)
    assert paired_difference(np.array([1.0]), np.array([0.5]), np.zeros(1)) == (None, None, None, None)
    assert paired_difference(np.array([]), np.array([]), None) == (None, None, None, None)


FOLDS, ROWS = 5, 60
PLACE = np.arange(ROWS) % FOLDS


def square(rows: Scored) -> np.ndarray:
    return (rows.label - rows.prob) ** 2


def gain(seed: int) -> tuple[float, float, float, float]:
    """Of means of 0 .. beside 0 itself: the gain less what it is on new rows, its variances, and that of the interval.

    The label is normal, and the mean m of the other folds is m^2 worse than 0.
    """
    label = np.random.default_rng(seed).normal(size=ROWS)
    means = np.array([label[fold != PLACE].mean() for fold in range(FOLDS)])
    scored, zero = Scored(label, means[PLACE]), Scored(label, np.zeros(ROWS))
    found = paired_difference(square(scored), square(zero), None)
    fits = FoldFits(tuple(np.full(ROWS, mean) for mean in means))
    lacking = missing(fits.sums(scored, Folds(PLACE, FOLDS), square))
    wide = widened(found, lacking)
    difference = square(scored) - square(zero)
    held = wide.lo <= np.square(means).mean() <= wide.hi
    return found.value - np.square(means).mean(), difference.var(ddof=1) / ROWS, lacking, held


def test_half_the_variance_of_a_gain_of_nothing_is_missing_from_the_sum_over_rows() -> None:
    error, rows, lacking, held = np.array([gain(seed) for seed in range(1500)]).T
    assert rows.mean() / error.var() == pytest.approx(0.5, abs=0.1)
    assert (rows + lacking).mean() / error.var() == pytest.approx(1.0, abs=0.15)
    assert 0.93 <= held.mean() <= 0.99


@pytest.mark.parametrize(("folds", "groups"), [(3, 1), (5, 4), (10, 2)])
def test_of_means_of_normal_labels_it_is_the_covariance_of_the_folds(folds: int, groups: int) -> None:
    """The error of fold k is -2 / n times the sum over groups of Y_k, the sum of its labels, and the mean of the rest.

    So its covariance with that of fold l is 4 / n^2 times the sum over groups of (E Y_k Y_l)^2 / n_k^2 (m - 1)^2.
    """
    each = 12 // groups
    place, group = np.repeat(np.arange(folds), 12), np.tile(np.repeat(np.arange(groups), each), folds)
    rng, found = np.random.default_rng(0), []
    for _ in range(2000):
        label = rng.normal(size=len(place))
        sums = np.bincount(group * folds + place, label, groups * folds).reshape(groups, folds)
        means = (sums.sum(axis=1, keepdims=True) - sums) / (each * (folds - 1))
        fits = FoldFits(tuple(mean[group] for mean in means.T))
        found.append(missing(fits.sums(Scored(label, means[group, place]), Folds(place, folds), square)))
    assert np.mean(found) == pytest.approx(4.0 * groups * folds / ((folds - 1) * len(place) ** 2), rel=0.1)


def test_some_of_the_rows_and_all_weights_twice_as_large_say_the_same() -> None:
    label = np.tile(np.random.default_rng(0).normal(size=ROWS), 2)
    place = np.tile(PLACE, 2)
    means = np.array([label[place != fold].mean() for fold in range(FOLDS)])
    folds, all_of_them = Folds(place, FOLDS), FoldFits(tuple(np.full(2 * ROWS, mean) for mean in means))
    half = FoldFits(tuple(np.full(ROWS, mean) for mean in means), step=2)
    order = np.arange(2 * ROWS).reshape(2, ROWS).T.ravel()  # each row beside its copy
    scored = Scored(label[order], means[place][order])
    sums = all_of_them.sums(scored, folds.take(order), square)
    assert missing(sums) > 0
    np.testing.assert_allclose(half.sums(scored, folds.take(order), square), sums)
    heavy = Scored(scored.label, scored.prob, np.full(2 * ROWS, 2.0))
    np.testing.assert_allclose(all_of_them.sums(heavy, folds.take(order), square), sums)


def test_an_interval_is_wider_by_the_variance_and_its_p_value_agrees() -> None:
    z = stats.norm.ppf(0.975)
    found = widened(Paired(3.0, 3.0 - z, 3.0 + 2 * z, 0.001), 1.0)
    assert (found.lo, found.hi) == pytest.approx((3.0 - z * 2**0.5, 3.0 + z * 5**0.5))
    edge = widened(Paired(z * 2**0.5, z * 2**0.5 - z, 10.0, 0.001), 1.0)
    assert (edge.lo, edge.p) == pytest.approx((0.0, 0.05))
    assert widened(found, 0.0) == found
    assert widened(Paired(1.0, None, None, None), 2.0) == (1.0, None, None, None)


def found(value: float, error: float) -> Paired:
    return Paired(value, value - Z975 * error, value + Z975 * error, 2 * norm.sf(abs(value / error)))


@pytest.mark.parametrize(("value", "error", "least"), [(1.2, 0.3, 1.0), (0.5, 0.4, 0.1), (2.0, 1.0, 1.0)])
def test_the_ends_leave_a_fortieth_on_each_side(value: float, error: float, least: float) -> None:
    interval = given_at_least(found(value, error), least)
    for mean, beyond in ((interval.lo, 0.025), (interval.hi, 0.975)):
        cut = truncnorm((least - mean) / error, np.inf, loc=mean, scale=error)
        assert cut.sf(value) == pytest.approx(beyond, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "error", "least", "luck"), [(1.2, 0.3, 1.0, 0.2), (0.5, 0.4, 0.6, 0.1), (2.0, 1.0, 1.0, 3.0)]
)
def test_the_lower_end_leaves_a_fortieth_where_the_mean_of_two_had_to_be_so_much(
    value: float, error: float, least: float, luck: float
) -> None:
    """By the luck of the other, all values of it; with hardly any luck the cut is the sharp one."""
    plain = found(value, error)
    interval = given_at_least(plain, least, Deals(0.2, luck))
    assert interval.hi == pytest.approx(plain.hi + 0.2)
    assert given_at_least(plain, least, Deals(-0.2, luck)) == interval._replace(hi=plain.hi)
    mean, z = interval.lo, np.linspace(-10.0, 10.0, 200_001)
    both = np.trapezoid(norm.pdf(z) * norm.sf(np.maximum(value, least - luck * z), mean, error), z)
    assert both / norm.sf(least, mean, np.hypot(error, luck)) == pytest.approx(0.025, rel=5e-3)
    if value > least:
        assert given_at_least(plain, least, Deals(0.0, 1e-9)).lo == pytest.approx(
            given_at_least(plain, least).lo, abs=0.01 * error
        )


def test_a_mean_far_below_what_had_to_be_so_much_keeps_its_value_in_the_interval() -> None:
    plain = found(1.0, 0.1)
    interval = given_at_least(plain, 9.0, Deals(-0.2, 0.2))
    assert interval.lo <= 1.0 <= interval.hi == plain.hi
    assert 0.0 <= interval.p <= 1.0


def test_far_above_nothing_changes() -> None:
    plain = found(10.0, 1.0)
    assert given_at_least(plain, 1.0) == pytest.approx(plain, abs=1e-6)


def test_just_above_it_may_be_nothing() -> None:
    interval = given_at_least(found(1.01, 0.5), 1.0)
    assert interval.lo < 0 < interval.value == interval.hi


def test_it_covers_what_was_selected() -> None:
    rng = np.random.default_rng(0)
    drawn = rng.normal(0.8, 1.0, 4000)
    chosen = [given_at_least(found(float(value), 1.0), 1.0) for value in drawn[drawn >= 1.0][:600]]
    covered = np.mean([one.lo <= 0.8 <= one.hi for one in chosen])
    assert 0.92 <= covered <= 0.98
