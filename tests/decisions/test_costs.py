"""Thresholds by cost: closed form, brute force, scikit-learn; the bootstrap beside its own law."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from calcli.decisions import costs as thresholds_by_costs
from calcli.decisions.choice import choose
from calcli.decisions.costs import MOST_COST, Costs, bootstrap_means, cross_fitted
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Number, Rows, intervals
from calcli.decisions.targets import NEVER
from calcli.errors import UsageError
from calcli.numeric.seeded import Split
from tests.support.estimators import GivenProbabilities


def rows(seed: int, count: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    prob = rng.integers(0, 31, count) / 30
    return prob, (rng.random(count) < prob**1.5).astype(np.int64), rng.exponential(1.0, count)


COSTS = [Costs(1, 20), Costs(3, 1), Costs(5, 8, 2, 1), Costs(1, 0), Costs(0, 1)]


@pytest.mark.parametrize("costs", COSTS)
def test_at_the_threshold_both_decisions_are_expected_to_cost_the_same(costs: Costs) -> None:
    p = costs.threshold
    assert p * costs.tp + (1 - p) * costs.fp == pytest.approx(p * costs.fn + (1 - p) * costs.tn)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("costs", COSTS)
def test_the_best_threshold_is_that_of_brute_force(costs: Costs, seed: int) -> None:
    prob, label, scale = rows(seed)
    for mass in (None, scale):

        def paid(threshold: float) -> float:
            return float(np.average(costs.of_rows(label, prob >= threshold), weights=mass))  # noqa: B023 called within the turn

        found = costs.best_threshold(prob, label, mass)
        assert paid(found) == pytest.approx(min(map(paid, [*np.unique(prob), NEVER])))


def test_one_threshold_for_rows_with_costs_of_their_own() -> None:
    """By brute force; the curve of costs is that of each threshold."""
    prob, label, _ = rows(4)
    rng = np.random.default_rng(0)
    costs = Costs(rng.exponential(1.0, 200), rng.exponential(3.0, 200), 0.0, 0.0)
    steps = np.append(np.unique(prob), NEVER)
    paid = np.array([costs.of_rows(label, prob >= step).mean() for step in steps])
    np.testing.assert_allclose(costs.at_thresholds(prob, label, steps, None), paid)
    found = costs.best_threshold(prob, label)
    assert costs.of_rows(label, prob >= found).mean() == pytest.approx(paid.min())
    assert costs.take(np.zeros(200, dtype=bool)).of_rows(label[:0], prob[:0] > 0).tolist() == []


def test_it_costs_what_the_tuned_threshold_of_scikit_learn_costs() -> None:
    prob, label, _ = rows(3, 500)
    rates = np.column_stack([1 - prob, prob])
    costs = Costs(1, 4, 0.5, 0.1)
    saved = make_scorer(lambda y, yes: -costs.of_rows(y, yes > 0).sum())
    peer = TunedThresholdClassifierCV(
        GivenProbabilities().fit(rates, label), scoring=saved, thresholds=np.unique(prob), cv="prefit", refit=False
    ).fit(rates, label)
    found = costs.best_threshold(prob, label)
    assert costs.of_rows(label, prob >= found).sum() == pytest.approx(-peer.best_score_)


def test_no_row_chooses_the_threshold_that_judges_it() -> None:
    """Labels of the judged rows are turned round: their decisions stay."""
    prob, label, _ = rows(1)
    fold = np.arange(len(prob)) % 3
    splits = [Split(fold != index, fold == index) for index in range(3)]
    costs = Costs(1, 3)
    decisions = cross_fitted(costs, prob, label, None, splits)
    for index in range(3):
        turned = np.where(fold == index, 1 - label, label)
        np.testing.assert_array_equal(
            cross_fitted(costs, prob, turned, None, splits)[fold == index], decisions[fold == index]
        )


@pytest.mark.parametrize(
    ("fp", "fn", "tp", "tn", "word"),
    [(-1, 1, 0, 0, "0 or more"), (1, float("nan"), 0, 0, "0 or more"), (1, 1, 2, 0, "--cost-tp"), (1, 1, 1, 1, "same")],
)
def test_costs_that_are_none(fp: float, fn: float, tp: float, tn: float, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Costs(fp, fn, tp, tn)


def test_the_ends_of_an_interval_are_where_hall_transforms_the_error_to_two_standard_deviations() -> None:
    """g(t) = ((1 + s t / 3)^3 - 1) / s + s / 6, with three quarters of the skewness 2 / sqrt(k) of a gamma variable."""
    shape, value = 16.0, 3.0
    levels = (np.arange(200_000) + 0.5) / 200_000
    found = intervals(value, stats.gamma.ppf(levels, shape))
    error, skew = np.sqrt(shape), 0.75 * 2.0 / np.sqrt(shape)
    for end, normal in ((found.lo, 1.959964), (found.hi, -1.959964)):
        t = (value - end) / error
        assert ((1 + skew * t / 3) ** 3 - 1) / skew + skew / 6 == pytest.approx(normal, abs=0.01)
    assert intervals(value, np.full(9, 3.0)) == Number(3.0, 3.0, 3.0)
    assert intervals(value, np.empty(0)) == Number(3.0)


@pytest.mark.parametrize("kind", ["cells", "rows", "units", "weights", "blocks of rows", "blocks of units"])
def test_replicates_have_the_mean_and_the_error_of_the_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The standard error of a mean is known; of units it is that of the ratio of their sums."""
    rng = np.random.default_rng(0)
    monkeypatch.setattr(thresholds_by_costs, "BLOCKS", 2_000)
    count = 20_000 if kind.startswith("blocks") else 400
    value = rng.integers(0, 3, count).astype(float) if kind == "cells" else rng.normal(size=count)
    weight = rng.exponential(1.0, count) if kind in ("weights", "blocks of rows") else None
    unit = np.arange(count) // 4 if kind.endswith("units") else None
    found = bootstrap_means([value, 2.0 * value], weight, unit, replicates=4000, seed=1)
    mass = np.ones(count) if weight is None else weight
    mean = np.average(value, weights=weight)
    residual = mass * (value - mean)
    if unit is not None:
        residual = np.bincount(unit, residual)
    error = np.sqrt(np.square(residual).sum()) / mass.sum()
    assert found[:, 0].mean() == pytest.approx(mean, abs=4 * error / np.sqrt(4000) + 0.05 * error)
    assert found[:, 0].std() == pytest.approx(error, rel=0.05)
    np.testing.assert_allclose(found[:, 1], 2.0 * found[:, 0])


@pytest.mark.parametrize("large", [1e308, 1.7e308, 1e16, np.inf])
@pytest.mark.parametrize("name", ["fp", "fn"])
def test_costs_too_large_for_sums_are_refused(large: float, name: str) -> None:
    for cost in (large, np.array([5.0, large])):
        with pytest.raises(UsageError, match=f"--cost-{name} .*: a cost is at most 1e.15"):
            Costs(**{"fp": 1.0, "fn": 1.0, name: cost})


def test_the_largest_costs_add_up() -> None:
    prob, label, _ = rows(0)
    costs = Costs(MOST_COST, MOST_COST)
    assert costs.threshold == 0.5
    assert np.isfinite(costs.of_rows(label, prob >= 0.5).sum())


def test_a_matrix_of_costs_too_large_is_refused() -> None:
    goal = DecisionGoal(costs=(("no", "yes"), ((0.0, 1e308), (1.0, 0.0))))
    with pytest.raises(UsageError, match=r"--costs has 1e\+308"):
        _ = goal.matrix


def test_an_interval_allows_for_a_positive_that_no_row_is() -> None:
    """Ten rows change their decision, none is a positive: so it is in 2.5 % of samples at that share."""
    prob = np.r_[np.full(10, 0.1), np.full(190, 0.01), 0.9]
    label = np.r_[np.zeros(200, dtype=np.int64), 1]
    choice = choose(DecisionGoal(cost_fp=1, cost_fn=20), Rows(prob, label), 0)
    (saves,) = (option.numbers["saves"] for option in choice.options if option.name == "bayes")
    assert saves.value == pytest.approx(-10 / 201)
    share = brentq(lambda p: (1 - p) ** 10 - 0.025, 0, 1)
    assert saves.hi == pytest.approx((-10 + 10 * share * 21) / 201)
