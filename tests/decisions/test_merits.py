"""Figures of merit: equal to scikit-learn's, thresholds by trying all, pseudo-values that are derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics

from calcli.decisions.choice import choose
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import JudgedScores, Rows
from calcli.decisions.merits import MERITS, best_threshold, pseudo_values
from calcli.decisions.targets import Target, certify, decided, expected, grid
from calcli.errors import UsageError

ORACLES = {
    "f1": metrics.f1_score,
    "mcc": metrics.matthews_corrcoef,
    "balanced-accuracy": metrics.balanced_accuracy_score,
    "youden": lambda y, yes, sample_weight=None: metrics.balanced_accuracy_score(
        y, yes, sample_weight=sample_weight, adjusted=True
    ),
}


def rows(count: int, *, weighted: bool = False, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    prob = rng.beta(1, 3, count).round(2)
    weight = rng.exponential(size=count) if weighted else None
    return Rows(prob, (rng.random(count) < prob).astype(np.int64), weight)


@pytest.mark.parametrize("name", MERITS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_best_threshold_is_the_best_of_all(name: str, weighted: bool) -> None:
    some = rows(60, weighted=weighted)
    values = {
        each: ORACLES[name](some.label, some.prob >= each, sample_weight=some.weight) for each in np.unique(some.prob)
    }
    found = best_threshold(MERITS[name], some.prob, some.label, some.weight)
    assert values[found] == pytest.approx(max(values.values()))


@pytest.mark.parametrize("name", MERITS)
def test_pseudo_values_have_the_figure_as_mean_and_say_what_a_row_more_does(name: str) -> None:
    some = rows(400, weighted=True)
    yes = some.prob >= 0.3
    values = pseudo_values(name, yes, some.label, some.weight)
    whole = ORACLES[name](some.label, yes, sample_weight=some.weight)
    assert np.average(values, weights=some.weight) == pytest.approx(whole)
    more = 1e-5 * some.mass.sum()
    for place in range(0, 400, 37):
        weight = some.mass.copy()
        weight[place] += more
        moved = ORACLES[name](some.label, yes, sample_weight=weight)
        assert (moved - whole) / 1e-5 == pytest.approx(values[place] - whole, rel=1e-3, abs=1e-4)


def test_the_policy_reports_what_it_reaches_on_rows_that_did_not_choose_it() -> None:
    truth, found = rows(20_000, seed=1), []
    for seed in range(40):
        choice = choose(DecisionGoal(maximize="f1", bootstrap=200), rows(300, seed=seed), 0)
        assert choice.policy is not None
        number = choice.options[0].numbers["f1"]
        new = JudgedScores(choice.policy, truth, {}).measured(replicates=10, seed=0)[0]["f1"]
        assert new.value is not None
        assert number.lo is not None
        assert number.hi is not None
        found.append((number.value, new.value, number.lo <= new.value <= number.hi))
    reported, reached, inside = map(np.mean, zip(*found, strict=True))
    assert reported == pytest.approx(reached, abs=0.02)  # a standard error is .006; judged by its own rows: .03 off
    assert inside >= 0.8


def test_a_figure_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"no figure 'f2'; .*--target 'fpr <= 0\.05'"):
        DecisionGoal(maximize="f2").check()
    with pytest.raises(UsageError, match=r"needs something that limits it; add --target"):
        DecisionGoal(maximize="recall").check()
    with pytest.raises(UsageError, match="--costs excludes --maximize"):
        DecisionGoal(maximize="f1", costs=(("0", "1"), ((0.0, 1.0), (1.0, 0.0)))).check()
    with pytest.raises(UsageError, match="leave out --maximize"):
        DecisionGoal(maximize="f1", target="recall >= 0.5", by="place").check()


@pytest.mark.parametrize("weighted", [False, True])
def test_of_the_thresholds_that_reach_a_target_that_with_the_largest_figure_is_chosen(weighted: bool) -> None:
    """By trying the thresholds of the grid that pass; the largest recall is that of the lowest, as for the target."""
    some = rows(800, weighted=weighted, seed=3)
    for text in ("fpr <= 0.2", "recall >= 0.5"):
        target, steps = Target.parse(text, 0.95), grid(some.prob)
        found = decided(some.prob, some.label, steps, some.weight)
        passed = steps[[*certify(target, found, expected(some.prob, steps, some.weight)).passed]]
        assert len(passed) > 10
        values = [ORACLES["f1"](some.label, some.prob >= each, sample_weight=some.weight) for each in passed]
        choice = choose(DecisionGoal(target=text, maximize="f1", bootstrap=0), some, 0)
        assert choice.options[0].threshold == passed[int(np.argmax(values))]
        assert choice.policy is not None
        assert (choice.policy.target, choice.policy.merit) == (target, "f1")
        assert choice.bound is not None
        assert target.missed(*found.worth(target.rate))[steps == choice.options[0].threshold] <= 0.05
    alone, recall = (
        choose(DecisionGoal(target="fpr <= 0.2", maximize=maximize), some, 0) for maximize in (None, "recall")
    )
    assert (alone.options[0].threshold, alone.bound) == (recall.options[0].threshold, recall.bound)
    assert alone.options[0].numbers["recall"] == recall.options[0].numbers["recall"]
