"""Targets beside scipy's binomial test, by brute force, and by simulation of what they promise."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from calcli.decisions.choice import choose
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Rows
from calcli.decisions.policy import GroupRule
from calcli.decisions.targets import NEVER, RATES, Target, budget_threshold, certify, decided, expected, grid
from calcli.errors import UsageError


def drawn(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Calibrated probabilities and their labels."""
    prob = 1 / (1 + np.exp(-rng.normal(-1.0, 2.0, count)))
    return prob, (rng.random(count) < prob).astype(np.int64)


def true_rate(name: str, threshold: float, power: float = 0.0) -> float:
    """The rate of all rows of `drawn`, by integration over the log-odds; weights are exp(power z)."""
    z = np.linspace(-13, 11, 8_001)
    prob, mass = 1 / (1 + np.exp(-z)), np.exp(power * z - np.square((z + 1.0) / 2.0) / 2.0)
    yes = prob >= threshold
    parts = {"tp": mass * prob * yes, "fp": mass * (1 - prob) * yes}
    parts |= {"fn": mass * prob * ~yes, "tn": mass * (1 - prob) * ~yes}
    hits, of = (sum(parts[name].sum() for name in names) for names in (RATES[name].hits, RATES[name].of))
    return float(hits / of)


@pytest.mark.parametrize(
    "text", ["precision >= 0.8", "recall>=0.9", "accuracy >= 0.75", "fpr <= 0.1", "positive-rate <= 0.2"]
)
def test_p_values_and_bounds_are_those_of_scipy(text: str) -> None:
    target = Target.parse(text, 0.9)
    upper = target.relation == ">="
    hits, rows = np.array([0.0, 3, 40, 60]), np.array([5.0, 9, 50, 60])
    for k, n, p in zip(hits, rows, target.missed(hits, rows), strict=True):
        test = stats.binomtest(int(k), int(n), target.value, alternative="greater" if upper else "less")
        assert p == pytest.approx(test.pvalue)
        interval = test.proportion_ci(0.9)
        assert target.bound(k, n) == pytest.approx(interval.low if upper else interval.high)
        other = stats.binomtest(int(k), int(n), target.value, alternative="less" if upper else "greater")
        assert target.kept(k, n) == pytest.approx(other.pvalue)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "failures"),
    [("precision >= 0.7", 0.05), ("recall >= 0.8", 0.05), ("fpr <= 0.1", 0.05), ("accuracy >= 0.74", 0.05)],
)
def test_targets_hold_on_new_rows(text: str, failures: float) -> None:
    """In at most 5 % of 300 draws the true rate is on the wrong side, as far as 300 draws can tell."""
    target, rng = Target.parse(text, 1 - failures), np.random.default_rng(0)
    broken, found = 0, 0
    for _ in range(300):
        prob, label = drawn(rng, 400)
        thresholds = grid(prob)
        rows = decided(prob, label, thresholds, rates=(target.rate,))
        place = certify(target, rows, expected(prob, thresholds)).place
        if place is not None:
            found += 1
            rate = true_rate(target.rate, float(thresholds[place]))
            broken += rate < target.value if target.relation == ">=" else rate > target.value
    assert found > 150
    assert stats.binomtest(broken, 300, failures, alternative="greater").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("text", ["fpr <= 0.1", "recall >= 0.7"])
def test_targets_hold_in_all_groups_at_once(text: str) -> None:
    """In at most 5 % of 200 draws the true rate of some group is on the wrong side."""
    target, rng, broken, found = Target.parse(text, 0.95), np.random.default_rng(0), 0, 0
    for _ in range(200):
        rows = of_groups(rng, 400)
        rule = getattr(choose(DecisionGoal(target=text, by="place", bootstrap=0), rows, 0).policy, "rule", None)
        if rule is not None:
            found += 1
            rates = np.array([true_rate(target.rate, threshold) for threshold in rule.thresholds])
            broken += bool(((rates < target.value) if target.relation == ">=" else (rates > target.value)).any())
    assert found > 100
    assert stats.binomtest(broken, 200, 0.05, alternative="greater").pvalue > 0.01


def of_groups(rng: np.random.Generator, count: int, groups: int = 2) -> Rows:
    prob, label = drawn(rng, groups * count)
    return Rows(prob, label, group=np.arange(groups * count) % groups, groups=tuple("xyz")[:groups])


@pytest.mark.parametrize("text", ["fpr <= 0.1", "recall >= 0.7", "precision >= 0.7"])
def test_each_group_has_the_threshold_of_its_rows_alone(text: str) -> None:
    rows = of_groups(np.random.default_rng(1), 500, 3)
    choice = choose(DecisionGoal(target=text, by="place", bootstrap=50), rows, 0)
    assert choice.policy is not None
    rule = choice.policy.rule
    assert isinstance(rule, GroupRule)
    bounds = []
    for place, threshold in enumerate(rule.thresholds):
        own = choose(DecisionGoal(target=text, confidence=1 - 0.05 / 3), rows.taken(rows.group == place), 0)
        assert own.options[0].threshold == threshold
        bounds.append(own.bound)
    assert choice.bound == (min if ">=" in text else max)(bounds)
    one = choose(DecisionGoal(target=text), rows, 0).options[0]
    chosen, *groups, all_rows, _ = choice.options
    assert [option.name for option in groups] == ["  place x", "  place y", "  place z"]
    assert (all_rows.threshold, rule.unseen, all_rows.numbers) == (one.threshold, one.threshold, one.numbers)
    price = "precision" if "recall" in text else "recall"
    (said,) = re.findall(price + r" is (\S+), and (\S+) with one threshold for all: a change of (\S+)", choice.why)
    own, single, change = map(float, said)
    yes = rule.yes(rows.prob, rows.group)
    assert chosen.numbers[price].value == pytest.approx(own, abs=5e-4)
    assert one.numbers[price].value == pytest.approx(single, abs=5e-4)
    assert change == pytest.approx(chosen.numbers[price].value - one.numbers[price].value, rel=5e-3, abs=1e-9)
    assert chosen.numbers["positive-rate"].value == pytest.approx(yes.mean())


def test_a_group_that_shows_nothing_gets_no_yes_or_none_is_chosen() -> None:
    rows = of_groups(np.random.default_rng(1), 500)
    few = rows.taken((rows.group == 0) | (np.arange(1000) < 20))
    choice = choose(DecisionGoal(target="precision >= 0.7", by="place"), few, 0)
    assert choice.policy is not None
    rule = choice.policy.rule
    assert isinstance(rule, GroupRule)
    assert rule.thresholds[1] == NEVER
    assert "no row of y gets yes" in choice.why
    reasons = [why for _, why in rule.actions((0, 1))]
    assert reasons[2] == "no probability is enough in place y"  # a row with 1.0, too, gets no
    assert reasons[0].startswith("probability < 0.")
    refused = choose(DecisionGoal(target="recall >= 0.7", by="place"), few, 0)
    assert refused.policy is None
    assert refused.why.startswith("in place y, no threshold has recall >= 0.7 with 97.5 % confidence")


@pytest.mark.slow
@pytest.mark.parametrize(("text", "power"), [("recall >= 0.9", -0.5), ("recall >= 0.9", -0.8), ("fpr <= 0.05", 0.8)])
def test_targets_hold_where_errors_are_few_and_heavy(text: str, power: float) -> None:
    """The rows that a threshold misses have the largest weights, so that the rows seen have too few of them."""
    target, rng = Target.parse(text, 0.95), np.random.default_rng(0)
    broken = 0
    for _ in range(200):
        prob, label = drawn(rng, 1000)
        weight, thresholds = (prob / (1.0 - prob)) ** power, grid(prob)
        rows = decided(prob, label, thresholds, weight, rates=(target.rate,))
        place = certify(target, rows, expected(prob, thresholds, weight)).place
        if place is not None:
            rate = true_rate(target.rate, float(thresholds[place]), power)
            broken += rate < target.value if target.relation == ">=" else rate > target.value
    assert stats.binomtest(broken, 200, 0.05, alternative="greater").pvalue > 0.01


def test_scores_that_promise_too_much_have_a_threshold_too() -> None:
    """The probabilities say where the target should be easy, and are wrong; most tables show it all the same."""
    target, rng = Target.parse("precision >= 0.8", 0.95), np.random.default_rng(0)
    places, broken = [], 0
    for _ in range(100):
        prob, label = drawn(rng, 800)
        confident = 1 / (1 + np.exp(-2.0 * np.log(prob / (1 - prob)) - 1.0))
        thresholds = grid(confident)
        rows = decided(confident, label, thresholds, rates=("precision",))
        place = certify(target, rows, expected(confident, thresholds)).place
        places.append(place)
        if place is not None:
            odds = (np.log(thresholds[place] / (1 - thresholds[place])) - 1.0) / 2.0
            broken += true_rate("precision", 1 / (1 + np.exp(-odds))) < target.value
    assert sum(place is not None for place in places) > 65
    assert stats.binomtest(broken, 100, 0.05, alternative="greater").pvalue > 0.01


@pytest.mark.parametrize("scale", [1e-4, 1e4])
@pytest.mark.parametrize("text", ["precision >= 0.7", "accuracy >= 0.74"])
def test_weights_of_any_scale_choose_the_same(text: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    prob, label = drawn(rng, 400)
    target, weight, thresholds = Target.parse(text, 0.95), rng.uniform(0.5, 2.0, 400), grid(prob)
    one, other = (
        certify(
            target,
            decided(prob, label, thresholds, mass, rates=(target.rate,)),
            expected(prob, thresholds, mass),
        )
        for mass in (weight, weight * scale)
    )
    assert one.place is not None
    assert other == one


def test_a_refusal_blames_the_weights_only_where_rows_of_one_weight_would_do() -> None:
    """Of a recall of 0.9 no fewer than 29 rows can be sure, as 0.9^28 > 0.05; a row with nearly all weight is one."""
    prob, label = drawn(np.random.default_rng(0), 400)
    heavy = np.where(np.arange(400) == np.flatnonzero(label)[0], 1e6, 1.0)
    goal = DecisionGoal(target="recall >= 0.9")
    why = choose(goal, Rows(prob, label, heavy), 0).why
    said = re.search(r"; the weights are why: the (\d+) rows that this rate is about say as much as (\d+) of one", why)
    assert said is not None
    assert int(said[1]) == label.sum()
    assert int(said[2]) < 29
    assert choose(goal, Rows(prob, label, np.ones(400)), 0).policy is not None
    few = np.flatnonzero(label)[:28]
    unsure = choose(goal, Rows(prob[few], label[few], np.full(28, 3.0)), 0)
    assert unsure.policy is None
    assert "weights" not in unsure.why


@pytest.mark.parametrize("weight", [None, 3.0])
def test_a_threshold_below_all_scores_counts_no_row_twice(weight: float | None) -> None:
    """28 positive rows, none of them missed, do not show a recall of 0.9, and 29 do: 0.9^28 > 0.05 > 0.9^29."""
    prob = np.linspace(0.3, 0.9, 29)
    for count in (28, 29):
        rows = Rows(prob[:count], np.ones(count, np.int64), None if weight is None else np.full(count, weight))
        assert (choose(DecisionGoal(target="recall >= 0.9"), rows, 0).policy is not None) == (count == 29)


def test_without_confidence_a_target_breaks_as_often_as_not() -> None:
    """The threshold that these rows alone would choose: what the confidence is for."""
    target, rng = Target.parse("recall >= 0.8", 0.95), np.random.default_rng(0)
    broken = 0
    for _ in range(100):
        prob, label = drawn(rng, 400)
        thresholds = grid(prob)
        rows = decided(prob, label, thresholds, rates=("recall",))
        place = certify(target, rows, expected(prob, thresholds)).without
        assert place is not None
        broken += true_rate("recall", float(thresholds[place])) < 0.8
    assert broken > 30


@pytest.mark.parametrize("text", ["recall >= 0.8", "fpr <= 0.1", "positive-rate <= 0.3", "positive-rate >= 0.3"])
def test_rates_that_fall_are_tested_up_to_the_first_failure(text: str) -> None:
    """By brute force: the last threshold from the safe end that scipy's test passes."""
    target = Target.parse(text, 0.95)
    prob, label = drawn(np.random.default_rng(5), 150)
    thresholds = grid(prob)
    found = certify(target, decided(prob, label, thresholds), expected(prob, thresholds)).place
    passing = []
    for threshold in thresholds if target.relation == ">=" else thresholds[::-1]:
        yes = prob >= threshold
        among = {"recall": label > 0, "fpr": label == 0}.get(target.rate, np.ones(len(prob), dtype=bool))
        side = "greater" if target.relation == ">=" else "less"
        if stats.binomtest(int(yes[among].sum()), int(among.sum()), target.value, alternative=side).pvalue > 0.05:
            break
        passing.append(threshold)
    assert found is not None
    assert thresholds[found] == passing[-1]


def test_what_nothing_meets() -> None:
    target = Target.parse("precision >= 0.99", 0.95)
    prob, label = drawn(np.random.default_rng(1), 100)
    thresholds = grid(prob)
    rows = decided(prob, label, thresholds)
    found = certify(target, rows, expected(prob, thresholds))
    assert found.place is None
    bounds = [
        stats.binomtest(int(k), int(n)).proportion_ci(0.9).low for k, n in zip(*rows.worth("precision"), strict=True)
    ]
    assert found.best == int(np.argmax(bounds))


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "budget"), [(300, 30), (1000, 100), (1000, 5)])
def test_budgets_hold_on_as_many_new_rows(rows: int, budget: int) -> None:
    """As often as promised, and not much more often: a budget is a count, of which there are few values."""
    rng, over, spare = np.random.default_rng(0), 0, 0
    for _ in range(1000):
        threshold = budget_threshold(rng.random(rows), budget, 0.9)
        new = int((rng.random(rows) >= threshold).sum())
        over, spare = over + (new > budget), spare + (new > budget - 2)
    assert stats.binomtest(over, 1000, 0.1, alternative="greater").pvalue > 0.001
    assert spare > 50


def test_a_budget_is_kept_where_probabilities_tie() -> None:
    prob = np.repeat([0.9, 0.5, 0.1], [10, 50, 40])
    assert budget_threshold(prob, 30, 0.9) == 0.9
    assert budget_threshold(prob, 5, 0.9) == NEVER
    with pytest.raises(UsageError, match="no limit for 100 rows"):
        budget_threshold(prob, 100, 0.9)


@pytest.mark.parametrize("text", ["precision", "precision <= 0.9", "precision >= 1.5", "nll >= 0.3", "fpr <= x", ""])
def test_targets_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--target"):
        Target.parse(text, 0.95)
