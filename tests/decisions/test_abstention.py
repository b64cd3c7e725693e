"""Rows that are left open: Chow's rule by brute force, shares, and bounds on the errors of the others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calcli.decisions.abstention import by_cost, by_coverage, risks
from calcli.decisions.costs import Costs
from calcli.errors import DataError


@pytest.mark.parametrize("abstain", [0.0, 0.1, 0.3, 1.0, 50.0])
@pytest.mark.parametrize("costs", [Costs(1, 5), Costs(4, 1, 0.5, 0.2), Costs(1, 1)])
def test_the_least_expected_cost_of_three(costs: Costs, abstain: float) -> None:
    prob = np.linspace(0.0005, 0.9995, 1000)  # no ends, where two decisions may cost the same
    expected = np.stack(
        [
            prob * costs.fn + (1 - prob) * costs.tn,
            prob * costs.tp + (1 - prob) * costs.fp,
            np.full(1000, abstain),
        ]
    )
    band = by_cost(costs, abstain)
    action = np.where(~band.decides(prob), 2, (prob >= band.high).astype(int))
    np.testing.assert_allclose(expected[action, np.arange(1000)], expected.min(axis=0))


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_surest_rows_are_decided(coverage: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    prob, costs = rng.random(500), Costs(1, 3)
    weight = rng.exponential(1.0, 500) if weighted else np.ones(500)
    band = by_coverage(costs, prob, coverage, weight)
    decides = band.decides(prob)
    assert np.average(decides, weights=weight) == pytest.approx(coverage, abs=0.02)
    paid = np.minimum(prob * costs.fn, (1 - prob) * costs.fp)
    assert paid[decides].max() <= paid[~decides].min()


def test_by_uncertainty_rows_without_it_are_left_open() -> None:
    prob = np.array([0.1, 0.5, 0.9, 0.9])
    knowledge = np.array([0.3, 0.1, 0.2, np.nan])
    band = by_coverage(Costs(1, 1), prob, 0.5, np.ones(4), knowledge)
    assert band.decides(prob, knowledge).tolist() == [False, True, True, False]


def test_where_too_few_rows_are_known_all_of_these_are_decided() -> None:
    knowledge = np.array([0.3, np.nan, np.nan, 0.2])
    band = by_coverage(Costs(1, 1), np.full(4, 0.9), 0.8, np.ones(4), knowledge)
    assert band.decides(np.full(4, 0.9), knowledge).tolist() == [True, False, False, True]
    with pytest.raises(DataError, match="no numbers"):
        by_coverage(Costs(1, 1), np.full(4, 0.9), 0.8, np.ones(4), np.full(4, np.nan))


def test_bounds_are_exact_and_hold_at_once() -> None:
    rng = np.random.default_rng(1)
    prob = rng.random(400)
    label = (rng.random(400) < prob).astype(np.int64)
    gaps = [by_coverage(Costs(1, 1), prob, share, np.ones(400)) for share in (1.0, 0.5)]
    for found in risks(gaps, prob, (prob >= 0.5) != (label > 0), np.ones(400), None, confidence=0.9):
        kept = found.band.decides(prob)
        wrong = int(((prob >= 0.5) != (label > 0))[kept].sum())
        exact = stats.binomtest(wrong, int(kept.sum()), alternative="less").proportion_ci(1 - 0.1 / 2)
        assert found.risk == pytest.approx(wrong / kept.sum())
        assert found.bound == pytest.approx(exact.high)
