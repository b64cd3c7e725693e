from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calcli.metrics.base import Scored
from calcli.metrics.joint_test import GapSums
from calcli.metrics.multiple import DOUBT, adjusted, by_group, holm, of_cells, standings
from calcli.metrics.paired import MOST_UNITS


def test_by_hand():
    """Four rows at p = 1/2: the mean of y - p is 1/4 with standard error 1/4, so z = 1."""
    rows = Scored(np.array([1, 1, 1, 0, 0, 1]), np.array([0.5, 0.5, 0.5, 0.5, 0.0, 1.0]))
    first, second, empty = by_group(rows, np.array([0, 0, 0, 0, 1, 1]), 3)
    assert first.rows == 4
    assert first.detectable == pytest.approx((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / 4, rel=1e-9)
    assert first.p == pytest.approx(stats.binomtest(3, 4).pvalue, rel=1e-9)
    assert first.least == pytest.approx(2 / 16)
    assert (second.rows, second.detectable, second.p, second.least) == (2, None, 1.0, 0.0)
    assert (empty.rows, empty.detectable, empty.p, empty.least) == (0, None, None, None)


def test_certain_and_wrong_leaves_no_doubt():
    (only,) = by_group(Scored(np.array([0, 1]), np.array([1.0, 1.0])), np.zeros(2, dtype=np.int64), 1)
    assert (only.p, only.detectable) == (0.0, None)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_four_in_five_tests_find_the_gap_and_one_in_twenty_is_false(weighted):
    rng = np.random.default_rng(0)
    groups, size = 2000, 150
    prob = np.tile(rng.uniform(0.2, 0.6, size), groups)
    weight = np.tile(rng.uniform(0.5, 2, size), groups) if weighted else None
    place = np.repeat(np.arange(groups), size)
    calibrated = Scored((rng.random(len(prob)) < prob).astype(np.int64), prob, weight)
    null = by_group(calibrated, place, groups)
    assert np.mean([one.p <= 0.05 for one in null]) == pytest.approx(0.05, abs=0.015)
    assert min(adjusted([(one.p, one.least) for one in null])) > 0.001
    label = (rng.random(len(prob)) < prob + null[0].detectable).astype(np.int64)
    found = by_group(Scored(label, prob, weight), place, groups)
    assert np.mean([one.p <= 0.05 for one in found]) == pytest.approx(0.8, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "rate"), [(40, 0.3), (10, 0.02), (25, 0.01)])
def test_any_false_group_is_rare(size, rate):
    """Fifty calibrated groups, of few rows and of rare labels: how often any of them is called off."""
    rng = np.random.default_rng(size)
    tables, groups = 200, 50
    place = np.repeat(np.arange(groups), size)
    false = 0
    for _ in range(tables):
        prob = 1 / (1 + np.exp(-rng.normal(np.log(rate / (1 - rate)), 0.5, groups * size)))
        label = (rng.random(len(prob)) < prob).astype(np.int64)
        found = adjusted([(one.p, one.least) for one in by_group(Scored(label, prob), place, groups)])
        false += any(p is not None and p <= 0.05 for p in found)
    assert false <= stats.binom.ppf(0.999, tables, 0.05)


def test_groups_that_could_show_nothing_leave_the_family():
    """Tarone's rule by hand: of four least p-values .001, .02, .03, .2 one is at most .05 / 1 ... k = 2 is the first
    with no more than k at or below .05 / k = .025.
    """
    tests = [(0.011, 0.001), (0.024, 0.02), (0.03, 0.03), (0.2, 0.2), (None, None)]
    assert adjusted(tests) == (pytest.approx(0.022), pytest.approx(0.024), None, None, None)
    assert adjusted([]) == ()
    assert adjusted([(0.4, 0.4)]) == (None,)


def test_holm_by_hand():
    """Holm's own procedure: 4 x 0.01, 3 x 0.015, then 2 x 0.02 raised to what came before, 1 x 0.9."""
    assert holm([0.02, 0.01, None, 0.9, 0.015]) == pytest.approx((0.045, 0.04, None, 0.9, 0.045))
    assert holm([0.4, 0.6]) == (0.8, 0.8)
    assert holm([]) == ()


def test_holm_rejects_what_the_step_down_procedure_rejects():
    rng = np.random.default_rng(1)
    for _ in range(50):
        p = rng.random(8) ** 3
        rejected = np.zeros(8, dtype=bool)
        for rank, index in enumerate(np.argsort(p)):
            if p[index] > 0.05 / (8 - rank):
                break
            rejected[index] = True
        np.testing.assert_array_equal(np.array(holm(list(p))) <= 0.05, rejected)


def test_more_classes_are_judged_by_the_predicted_one_and_scale_does_not_matter():
    rng = np.random.default_rng(2)
    prob, label, place = rng.dirichlet(np.ones(3), 60), rng.integers(0, 3, 60), rng.integers(0, 2, 60)
    weight = rng.random(60)
    found = by_group(Scored(label, prob, weight), place, 2)
    top = Scored((prob.argmax(1) == label).astype(np.int64), prob.max(1), 1e200 * weight)
    for one, other in zip(found, by_group(top, place, 2), strict=True):
        assert (one.p, one.detectable) == (pytest.approx(other.p), pytest.approx(other.detectable))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [30, 300, 30_000])
def test_sums_over_cells_are_nearly_all_that_the_rows_say(size, weighted):
    rng = np.random.default_rng(size)
    prob = 1 / (1 + np.exp(-rng.normal(-2, 1.5, size)))
    label = (rng.random(size) < prob * 1.03).astype(np.int64)
    rows = Scored(label, prob, rng.uniform(0.5, 2, size) if weighted else None)
    (whole,) = by_group(rows, np.zeros(size, dtype=np.int64), 1)
    parts = np.array_split(np.arange(size), 3)
    found = of_cells(sum((GapSums.of(rows.take(part)) for part in parts), GapSums.empty()))
    assert found.rows == whole.rows
    assert found.detectable == pytest.approx(whole.detectable, rel=1e-3)
    assert found.p == pytest.approx(whole.p, rel=0.05)
    assert found.least == pytest.approx(whole.least, abs=1e-9)


def test_a_group_of_nothing_says_nothing_from_cells_either():
    empty = of_cells(GapSums.empty())
    weightless = of_cells(GapSums.of(Scored(np.array([1, 0]), np.array([0.5, 0.5]), np.zeros(2))))
    for one in (empty, weightless):
        assert (one.rows, one.detectable, one.p, one.least) == (0, None, None, None)


def test_two_scores_are_the_normal_distribution_of_their_difference():
    rng = np.random.default_rng(0)
    first = rng.normal(0, 1, 900)
    second = first + rng.normal(0.02, 0.5, 900)
    gap = second - first
    oracle = stats.norm.cdf(gap.mean() / (gap.std(ddof=1) / 30) / np.sqrt(DOUBT))
    found = standings([first, second], None)
    assert found[0].best == pytest.approx(oracle, abs=0.04)
    assert found[0].best + found[1].best == pytest.approx(1.0)


def test_units_that_agree_are_worth_one_row_each():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0, 1, (2, 30)) + np.array([[0.0], [0.25]])
    alone = standings([first, second], None, seed=3)
    repeated = standings([np.repeat(first, 40), np.repeat(second, 40)], None, np.repeat(np.arange(30), 40), seed=3)
    assert repeated[0].best == pytest.approx(alone[0].best, abs=1e-12)
    as_rows = standings([np.repeat(first, 40), np.repeat(second, 40)], None, seed=3)
    assert max(one.best for one in as_rows) > 0.99 > max(one.best for one in alone)


def test_many_rows_are_put_together_without_another_variance():
    rng = np.random.default_rng(2)
    rows = 5 * MOST_UNITS
    first = rng.normal(0, 1, rows)
    second = first + rng.normal(0.004, 0.5, rows)
    gap = second - first
    oracle = stats.norm.cdf(gap.mean() / (gap.std(ddof=1) / np.sqrt(rows)) / np.sqrt(DOUBT))
    assert standings([first, second], None)[0].best == pytest.approx(oracle, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [0.0, 0.15])
def test_the_best_is_among_those_that_are_as_good(ahead):
    """In 95 tables of 100, at least, whether five scores are alike or one is ahead."""
    held, size, tables = 0, 0, 200
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        common = rng.normal(0, 1, 200)
        losses = [common + rng.normal(ahead * (score > 0), 0.8, 200) for score in range(5)]
        found = standings(losses, None, seed=seed)
        held, size = held + found[0].as_good, size + sum(one.as_good for one in found)
    assert held >= stats.binom.ppf(0.001, tables, 0.95)
    assert size / tables < (3.9 if ahead else 5.01)


def test_equal_scores_share_and_weights_count():
    rng = np.random.default_rng(3)
    loss = rng.random(50)
    assert [one.best for one in standings([loss, loss], None)] == [0.5, 0.5]
    assert all(one.as_good for one in standings([loss, loss, loss], None))
    other = np.where(np.arange(50) < 25, loss - 0.5, loss + 5)
    found = standings([loss, other], (np.arange(50) < 25) * 1e200)
    assert [one.best for one in found] == [0.0, 1.0]
    assert [one.as_good for one in found] == [False, True]
