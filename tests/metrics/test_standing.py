import numpy as np
import pytest
from scipy import stats

from calcli.metrics.standing import standings
from calcli.metrics.unit_signs import MOST_UNITS


def test_two_scores_are_the_normal_distribution_of_their_difference():
    rng = np.random.default_rng(0)
    first = rng.normal(0, 1, 900)
    second = first + rng.normal(0.02, 0.5, 900)
    gap = second - first
    oracle = stats.norm.cdf(gap.mean() / (gap.std(ddof=1) / 30))
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
    oracle = stats.norm.cdf(gap.mean() / (gap.std(ddof=1) / np.sqrt(rows)))
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
