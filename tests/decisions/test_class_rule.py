"""Rules of more classes: row by row by the definition, and what is promised of each class by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calcli.decisions.choice import choose
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import JudgedScores, Rows, class_costs
from calcli.decisions.policy import ClassRule, Policy, likeliest
from calcli.decisions.targets import NEVER, Target
from calcli.errors import UsageError

NAMES = ("a", "b", "c", "d")


def drawn(seed: int, count: int, spread: float = 2.0) -> Rows:
    """Calibrated probabilities of four classes, and the classes that come true."""
    rng = np.random.default_rng(seed)
    logits = rng.normal((0.0, 0.5, 0.5, -1.0), spread, (count, 4))
    prob = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return Rows(prob, (rng.random(count)[:, None] > prob.cumsum(axis=1)).sum(axis=1).clip(max=3), classes=NAMES)


@pytest.mark.parametrize(
    "rule",
    [
        ClassRule((0.4, 0.5, 0.3, NEVER)),
        ClassRule((0.1, 0.2, 0.3, 0.05), 3),
        ClassRule((0.0,) * 4, 2, sure=0.8),
        ClassRule((0.3,) * 4, 4, limit=0.5, column="u"),
    ],
)
def test_the_classes_of_a_row(rule: ClassRule) -> None:
    prob = np.concatenate([drawn(0, 50).prob, [[0.25] * 4, [0.4, 0.4, 0.2, 0.0]]])
    uncertainty = np.linspace(0, 1, len(prob))
    uncertainty[3] = np.nan
    found = rule.members(prob, {"u": uncertainty})
    for row, p in enumerate(prob):
        leading = sorted(range(4), key=lambda place: (-p[place], place))[: rule.top]
        known = rule.limit is None or uncertainty[row] <= rule.limit
        expected = {place for place in leading if p[place] >= rule.thresholds[place]}
        if not known or sum(p[leading]) < rule.sure:
            expected = set()
        assert set(np.flatnonzero(found[row])) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("text", "top"), [("precision >= 0.7", 1), ("precision >= 0.6", 2), ("recall >= 0.7", 3)])
def test_targets_hold_in_each_class_at_once(text: str, top: int) -> None:
    """In at most 5 % of 100 draws one of the classes misses the target on new rows."""
    fresh, broken, found = drawn(10**6, 50_000), 0, 0
    target = Target.parse(text, 0.95)
    leading = likeliest(fresh.prob, top)
    for seed in range(100):
        choice = choose(DecisionGoal(target=text, top=top), drawn(seed, 600), 0)
        if choice.policy is None:
            continue
        found += 1
        assert isinstance(choice.policy.rule, ClassRule)
        named = leading & (fresh.prob >= np.array(choice.policy.rule.thresholds))
        hits = (named & (fresh.label[:, None] == np.arange(4))).sum(axis=0)
        of = named.sum(axis=0) if target.rate == "precision" else np.bincount(fresh.label, minlength=4)
        broken += bool((hits[of > 0] / of[of > 0] < target.value).any())
    assert found > 60
    assert stats.binomtest(broken, 100, 0.05, alternative="greater").pvalue > 0.01


def test_a_class_that_is_never_sure_enough_is_named_to_none() -> None:
    """The fourth class has no rows: its precision cannot be shown, nor its recall."""
    rows = drawn(0, 3000)
    there = rows.taken(rows.label != 3)
    choice = choose(DecisionGoal(target="precision >= 0.7"), there, 0)
    assert choice.policy is not None
    assert choice.policy.rule.thresholds[3] == NEVER
    assert "no row gets d" in choice.why
    assert choose(DecisionGoal(target="recall >= 0.1", top=4), there, 0).policy is None


@pytest.mark.slow
def test_accuracy_is_that_of_the_rows_that_are_decided() -> None:
    """On as many new rows as you like, the likeliest two classes hold the truth as often as was asked for."""
    fresh, broken = drawn(10**6, 50_000), 0
    for seed in range(60):
        policy = choose(DecisionGoal(target="accuracy >= 0.9", top=2), drawn(seed, 400), 0).policy
        assert policy is not None
        members = policy.rule.members(fresh.prob, {})
        some = members.any(axis=1)
        assert some.mean() > 0.2
        broken += bool(members[np.arange(len(some)), fresh.label][some].mean() < 0.9)
    assert stats.binomtest(broken, 60, 0.05, alternative="greater").pvalue > 0.01


def test_costs_give_the_decision_of_brute_force() -> None:
    """The set of two classes at most that is expected to cost the least."""
    rows = drawn(1, 200)
    goal = DecisionGoal(cost_fp=1.0, cost_fn=3.0, cost_tp=0.2, cost_tn=0.1, top=2)
    choice = choose(goal, rows, 0)
    assert choice.policy is not None
    members = choice.policy.rule.members(rows.prob, {})
    subsets = np.array([[place in (i, j) for place in range(4)] for i in range(-1, 4) for j in range(-1, 4)])
    costs = goal.four_costs()
    for row, p in enumerate(rows.prob):
        one = Rows(np.tile(p, (4, 1)), np.arange(4), classes=NAMES)
        expected = [p @ class_costs(costs, one, np.tile(named, (4, 1))) for named in subsets]
        chosen = p @ class_costs(costs, one, np.tile(members[row], (4, 1)))
        assert chosen == pytest.approx(min(expected))


def test_the_promise_of_a_class_that_changed_is_broken() -> None:
    """The test is that of scipy in the worst class, times the number of classes."""
    policy = Policy(ClassRule((0.5,) * 4), Target("precision", ">=", 0.6, 0.95))
    rows = drawn(2, 4000)
    swapped = Rows(rows.prob, np.where((rows.label == 1) & (np.arange(4000) % 3 > 0), 0, rows.label), classes=NAMES)
    for each, broken in ((rows, False), (swapped, True)):
        _, promise = JudgedScores(policy, each, {}).measured(replicates=10, seed=0)
        assert promise is not None
        assert promise.broken is broken
        named = likeliest(each.prob, 1) & (each.prob >= 0.5)
        tests = [
            stats.binomtest(int((each.label[yes] == place).sum()), int(yes.sum()), 0.6, alternative="less").pvalue
            for place, yes in enumerate(named.T)
        ]
        assert promise.p == pytest.approx(min(1.0, 4 * min(tests)))


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({"top": 5}, "--top 5: there are 4 classes"),
        ({"top": 0}, "--top 0"),
        ({"budget": 5}, "two classes"),
        ({"cost_fp": 1.0, "cost_fn": 1.0, "abstain": 0.1}, "--cost-fn"),
        ({"cost_fp": 1.0, "cost_fn": 1.0, "cost": "w"}, "each row"),
    ],
)
def test_what_more_classes_cannot_be_asked(asked: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        choose(DecisionGoal(**asked), drawn(0, 20), 0)  # type: ignore[arg-type]
