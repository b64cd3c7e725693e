"""Rows that belong to units: a unit is what is independent, however many rows it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize

from calcli.metrics.adaptive import ecce
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap
from calcli.metrics.catalog import find, measure
from calcli.metrics.diagnosis import diagnose, hosmer_lemeshow, spiegelhalter_z
from calcli.metrics.joint_test import GapSums, joint_test
from calcli.metrics.multiple import by_group
from calcli.metrics.paired import (
    MOST_UNITS,
    chance_widened,
    merged_units,
    of_units,
    paired,
    paired_difference,
    signed_sums,
    unit_table,
)
from calcli.metrics.proper import nll
from calcli.metrics.regression import intercept, slope
from calcli.numeric.links import logit
from tests.support.scored import rows_of

TIMES = 5


def repeated(rows: Scored, times: int = TIMES) -> Scored:
    """Each row so many times, its copies of one unit: nothing more is known than from the rows themselves."""
    place = np.repeat(np.arange(len(rows)), times)
    return replace(rows.take(place), units=place)


def users(seed: int, units: int = 60, each: int = 20) -> Scored:
    """Users whose rows all have the same label, which comes true as often as the score says."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(units), each)
    prob = rng.uniform(0.2, 0.8, units)
    return Scored((rng.random(units) < prob).astype(np.int64)[unit], prob[unit], units=unit)


def freedom(influences: np.ndarray) -> float:
    """Satterthwaite's degrees of freedom by the kurtosis."""
    pairs = np.concatenate([influences, -influences])  # about 0
    return max(1.0, 3.0 * len(influences) / stats.kurtosis(pairs, fisher=False) - 3.0)


@given(st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=2, max_size=20).map(np.array), st.floats(-3, 3))
def test_of_symmetric_units_of_one_size_it_is_the_t_test_of_their_means(half: np.ndarray, shift: float) -> None:
    """With fewer degrees of freedom where few of them are far from the others."""
    means = np.concatenate([half, 2.0 - half]) + shift
    found = of_units(7.0 * means, np.full(len(means), 7.0))
    error = stats.sem(means)
    if error > 1e-3:
        t = stats.t(min(len(means) - 1, freedom(means - means.mean())), np.mean(means), error)
        assert (found.lo, found.hi) == pytest.approx(t.interval(0.95), rel=1e-6, abs=1e-6)
        assert found.p == pytest.approx(2.0 * min(t.cdf(0.0), t.sf(0.0)), rel=1e-4, abs=1e-9)


def test_units_that_differ_in_size_are_left_out_one_by_one() -> None:
    """The jackknife, written out; units come in pairs about the mean, so that nothing is skewed."""
    rng = np.random.default_rng(0)
    weight, gap = np.repeat(rng.uniform(1, 9, 8), 2), np.repeat(rng.normal(size=8), 2) * np.tile([1.0, -1.0], 8)
    total = weight * (2.0 + gap)
    found = of_units(total, weight)
    without = np.array([np.delete(total, unit).sum() / np.delete(weight, unit).sum() for unit in range(16)])
    error = np.sqrt(15 / 16 * np.square(without - 2.0).sum())
    worth = weight.sum() ** 2 / np.square(weight).sum()
    assert found.value == pytest.approx(2.0)
    assert found.hi - 2.0 == pytest.approx(stats.t.ppf(0.975, min(worth - 1, freedom(without - 2.0))) * error, rel=1e-9)
    assert found.lo - 2.0 == pytest.approx(2.0 - found.hi, rel=1e-9)


SIZES = 600 // (1 + np.arange(50))
"""Rows of units, a few of which have most."""


def test_the_interval_of_units_that_differ_much_in_size_holds_the_mean() -> None:
    rng, held, times = np.random.default_rng(0), 0, 2000
    for _ in range(times):
        found = of_units(SIZES * rng.normal(size=50) + np.sqrt(SIZES) * rng.normal(size=50), SIZES.astype(np.float64))
        held += found.lo <= 0.0 <= found.hi
    assert 0.94 <= held / times <= 0.965  # 0.005 is a standard deviation


@pytest.mark.parametrize(("metric", "free"), [(slope, 2), (intercept, 1)])
def test_the_recalibration_is_fitted_without_each_unit(metric, free: int) -> None:
    unit = np.repeat(np.arange(50), SIZES)
    rows = replace(rows_of(len(unit)), units=unit, clusters=None)

    def fitted(some: np.ndarray) -> float:
        z, label = logit(rows.prob[some]), rows.label[some]

        def loss(theta: np.ndarray) -> float:
            u = theta[0] + z * (theta[1] if free == 2 else 1.0)
            return np.logaddexp(0.0, u).sum() - label @ u

        return minimize(loss, [0.0, 1.0][:free], tol=1e-9).x[-1]

    without = np.array([fitted(unit != one) for one in range(50)])
    error = np.sqrt(49 / 50 * np.square(without - fitted(unit >= 0)).sum())
    worth = SIZES.sum() ** 2 / np.square(SIZES).sum()
    quantile = stats.t.ppf(0.975, min(worth - 1, freedom(without - fitted(unit >= 0))))
    found = metric(rows, Options())
    assert found.hi - found.lo == pytest.approx(2.0 * quantile * error, rel=0.03)


def test_copies_in_a_unit_tell_nothing_new() -> None:
    rows = rows_of(2000)
    other = replace(rows, prob=np.clip(rows.prob + 0.05, 0.0, 0.99))
    alone, by_unit = paired(other, rows, nll.rows), paired(repeated(other), repeated(rows), nll.rows)
    assert by_unit.value == pytest.approx(alone.value, rel=1e-9)
    degrees = min(1999, freedom((difference := nll.rows(other) - nll.rows(rows)) - difference.mean()))
    wider = stats.t.ppf(0.975, degrees) / stats.norm.ppf(0.975)
    assert by_unit.hi - by_unit.lo == pytest.approx(wider * (alone.hi - alone.lo), rel=1e-3)
    for metric in (slope, intercept):
        one_each, by_unit = metric(repeated(rows, 1), Options()), metric(repeated(rows), Options())
        assert (by_unit.value, by_unit.lo, by_unit.hi) == pytest.approx((one_each.value, one_each.lo, one_each.hi))
        alone = metric(rows, Options())
        assert by_unit.hi - by_unit.lo == pytest.approx(alone.hi - alone.lo, rel=0.01)


def test_units_of_nothing_do_not_count() -> None:
    values, weight = np.array([1.0, 3.0, 9.0, 9.0]), np.array([1.0, 1.0, 0.0, 0.0])
    found = paired_difference(values, np.zeros(4), weight, np.array([0, 1, 2, 3]))
    assert found == paired_difference(values[:2], np.zeros(2), None, np.array([4, 7]))
    assert paired_difference(values, np.zeros(4), None, np.zeros(4, dtype=np.int64)) == (5.5, None, None, None)
    heavy = paired_difference(values, np.zeros(4), np.array([1e12, 1.0, 1.0, 1.0]), np.arange(4))
    assert heavy == (pytest.approx(1.0), None, None, None)
    assert paired_difference(values[:0], np.zeros(0), None, np.zeros(0, dtype=np.int64)).value is None


def test_signs_are_drawn_by_unit() -> None:
    units, column = np.array([5, 5, 9, 9, 9]), np.array([0, 1, 0, 0, 2])
    gaps = unit_table(merged_units(units), column, np.array([1.0, 2.0, 4.0, 8.0, 16.0]), 3)
    np.testing.assert_array_equal(gaps, [[1.0, 2.0, 0.0], [12.0, 0.0, 16.0]])
    drawn = {tuple(row) for row in signed_sums(gaps, 200, 0).tolist()}
    assert drawn == {(one + 12 * two, 2 * one, 16 * two) for one in (1, -1) for two in (1, -1)}
    many = merged_units(np.arange(3 * MOST_UNITS))
    assert set(np.bincount(many)) == {3}


def test_chance_is_greater_where_the_sum_of_skewed_gaps_is_low() -> None:
    """By as much as Hall's transformation makes t less."""
    gaps = np.random.default_rng(5).exponential(size=30) - 1.2
    t, skew = gaps.sum() / np.sqrt(np.square(gaps).sum()), 0.75 * stats.skew(gaps) / np.sqrt(30)
    assert t < 0.0 < skew
    assert chance_widened(gaps) == pytest.approx(t / (((1.0 + skew * t / 3.0) ** 3 - 1.0) / skew), rel=1e-9)
    assert chance_widened(-7.0 * gaps) == pytest.approx(chance_widened(gaps), rel=1e-9)
    assert chance_widened(gaps + 0.6) == 1.0  # its sum is high
    assert chance_widened(np.full(5, -1.0)) == 1.0
    wide, plain = (signed_sums(one[:, None], 50, 0) for one in (gaps, gaps + 0.6))
    signs = signed_sums(np.eye(30), 50, 0)
    np.testing.assert_allclose(wide[:, 0], chance_widened(gaps) * (signs @ gaps))
    np.testing.assert_allclose(plain[:, 0], signs @ (gaps + 0.6))


def test_gaps_that_are_skewed_are_called_off_as_often_as_others() -> None:
    rng, off = np.random.default_rng(0), []
    for seed in range(2000):
        gaps = rng.exponential(size=(40, 1)) - 1.0
        drawn = np.abs(signed_sums(gaps, 199, seed))
        off.append(np.count_nonzero(drawn >= abs(gaps.sum())) < 10)  # p = (1 + count) / 200 <= 0.05
    assert 0.035 <= np.mean(off) <= 0.06  # 0.005 is a standard deviation; 0.07 by signs alone


@pytest.mark.parametrize("weighted", [False, True])
def test_the_gaps_of_units_add_up_to_those_of_the_cells(weighted: bool) -> None:
    rows = replace(rows_of(3000, weighted=weighted), clusters=None)
    rows = replace(rows, units=np.arange(3000) % 50)
    parts = GapSums.of(rows.take(slice(0, 700))) + GapSums.of(rows.take(slice(700, None)))
    for sums in (parts, parts.compact()):
        lower = 0.9 * sums.prob
        table = sums.by_unit(lower)
        np.testing.assert_allclose(table.sum(axis=0), sums.positive - sums.sums[1] * lower, rtol=1e-8, atol=1e-9)
        unit = np.arange(3000) % 50 == 7
        weight = rows.weights
        assert sums.by_unit(sums.prob)[7].sum() == pytest.approx((weight * (rows.label - rows.prob))[unit].sum())


def bootstrapped_p(rows: Scored) -> float:
    chosen = (find("ece"),)
    measured = measure(chosen, rows, Options())["ece"]
    return bootstrap([rows], chosen, Options(), 199, groups=rows.units).complete(0, "ece", measured).p


TESTS = {
    "all gaps": lambda rows: diagnose(GapSums.of(rows)).p,
    "off on average": lambda rows: joint_test(GapSums.of(rows).compact()).shift_p,
    "hosmer_lemeshow": lambda rows: hosmer_lemeshow(rows, Options()).p,
    "spiegelhalter_z": lambda rows: spiegelhalter_z(rows, Options()).p,
    "group": lambda rows: by_group(rows, np.zeros(len(rows), dtype=np.int64), 1)[0].p,
    "ece": bootstrapped_p,
}
"""P-values."""


@pytest.mark.slow
@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_a_calibrated_score_is_not_called_off_because_users_have_many_rows(test) -> None:
    off = [(test(rows) <= 0.05, test(replace(rows, units=None)) <= 0.05) for rows in map(users, range(25))]
    by_unit, by_row = np.sum(off, axis=0)
    assert by_unit <= 4  # 5 of 25 or more happen once in 140 times at 5 %
    assert by_row >= 10


@pytest.mark.parametrize("test", TESTS.values(), ids=TESTS)
def test_a_score_that_is_far_off_is_still_found(test) -> None:
    rows = users(0, units=300)
    assert test(replace(rows, prob=rows.prob / 2.0)) <= 0.05


def test_where_chance_is_not_known_there_is_no_p_value() -> None:
    rows = users(0)
    alone = replace(rows, units=np.zeros(len(rows), dtype=np.int64))
    place = rows.units
    assert all(one.p is None and one.detectable for one in by_group(rows, place, 60))
    assert spiegelhalter_z(alone, Options()).p is None
    for metric in (ecce, hosmer_lemeshow, spiegelhalter_z):
        found = metric(rows, Options(in_sample=True))
        assert found.p is None
        assert found.reason is not None
    assert "units" in ecce(rows, Options()).reason
