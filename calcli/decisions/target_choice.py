"""Choosing a threshold for a target, for a figure of merit, for both, or for a budget, where there are two classes.

The tests of a target hold for all thresholds that pass at once, so that any of these may be chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.decisions.goal import Choice, DecisionGoal, Means, Option, decision_splits, with_confidence
from calcli.decisions.measure import Number, Rows, rates_of
from calcli.decisions.merits import FIGURES, MERITS, best_threshold, pseudo_values
from calcli.decisions.policy import GroupRule, Policy, ThresholdRule, group_name
from calcli.decisions.targets import (
    GRID,
    GRID_OF_UNITS,
    NEVER,
    RATES,
    Decided,
    Mask,
    Target,
    budget_threshold,
    certify,
    decided,
    expected,
    grid,
)
from calcli.errors import UsageError


@dataclass(frozen=True, slots=True)
class Certified:
    """The threshold of a score that reaches a target with confidence."""

    threshold: float | None
    """None where no threshold does."""

    best: float
    """The threshold itself, or the one that comes nearest to the target."""

    unsure: float | None
    """The threshold that reaches the target on these rows, without any confidence for others."""

    passed: FloatArray
    bounds: FloatArray
    """`passed`, `bounds`: all thresholds that reach it, and how bad the rate may be at each."""

    bound: float
    """How bad the rate may be at `best`."""

    by_weights: str
    """The sentence that blames weights for the lack of a threshold; empty where they are not to blame."""

    @classmethod
    def of(cls, target: Target, rows: Rows, score: FloatArray) -> Certified:
        """Test a grid of thresholds of the score; the rows' own probabilities say what to expect of it."""
        steps = grid(score, GRID if rows.together is None else GRID_OF_UNITS)
        found = decided(score, rows.label, steps, rows.weight, rows.together, rates=(target.rate,))
        likely = expected(rows.prob, steps, rows.weight, score)
        passed = certify(target, found, likely)
        hits, worth = found.worth(target.rate, likely, target.value)
        bound = target.bound(float(hits[passed.best]), float(worth[passed.best]))
        threshold, unsure = (None if at is None else float(steps[at]) for at in (passed.place, passed.without))
        weights = _by_weights(target, rows, score, found, worth, passed.best) if threshold is None else ""
        bounds = np.array([target.bound(float(hits[place]), float(worth[place])) for place in passed.passed])
        return cls(threshold, float(steps[passed.best]), unsure, steps[[*passed.passed]], bounds, bound, weights)

    def refusal(self, target: Target) -> str:
        side = "at least" if target.relation == ">=" else "at most"
        rate = f"{'an' if target.rate == 'accuracy' else 'a'} {target.rate}"
        best = f"{self.best:.6g}, has {rate} of {side} {self.bound:.3g} with that confidence"
        sure = with_confidence(target.confidence)
        reached = self.bound >= target.value if target.relation == ">=" else self.bound <= target.value
        alone = ", but only if no other had been tried" if reached else ""
        return f"no threshold has {target} {sure}; the best one, {best}{alone}{self.by_weights}"


def _by_weights(target: Target, rows: Rows, score: FloatArray, found: Decided, worth: FloatArray, best: int) -> str:
    """The clause that blames the weights, if as many rows of one weight would show the target at some threshold."""
    if rows.weight is None:
        return ""
    held, effect = rows.weight > 0, found.effects[target.rate]
    count = RATES[target.rate].sums(decided(score[held], rows.label[held], found.thresholds, rates=()).counts)[1]
    hits, of = RATES[target.rate].sums(found.counts)
    share = np.divide(hits, of, out=np.zeros_like(of), where=of > 0)
    if target.missed(share * count / effect, count / effect).min() > 1.0 - target.confidence:
        return ""
    return (
        f"; the weights are why: the {count[best]:,.0f} rows that this rate is about say as much as "
        f"{(worth * effect)[best]:,.0f} of one weight"
    )


def by_target(target: Target, goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """The threshold whose target holds with the confidence, if there is one; of several that with the best figure."""
    found = Certified.of(target, rows, rows.prob)
    if found.threshold is None:
        options = _options({"best": found.best, "today": goal.threshold}, rows)
        return Choice(None, None, found.refusal(target), options, found.bound)
    if goal.maximize is not None:
        return by_merit(goal.maximize, goal, rows, seed, target, found)
    options = _options({"chosen": found.threshold, "without confidence": found.unsure, "today": goal.threshold}, rows)
    policy = Policy(ThresholdRule.at(found.threshold), target)
    return Choice(policy, "chosen", f"{target} holds {with_confidence(target.confidence)}", options, found.bound)


def _options(thresholds: Mapping[str, float | None], rows: Rows) -> tuple[Option, ...]:
    return tuple(
        Option(name, threshold, rates_of(rows, rows.prob >= threshold))
        for name, threshold in thresholds.items()
        if threshold is not None
    )


def by_merit(
    name: str, goal: DecisionGoal, rows: Rows, seed: int, target: Target | None = None, found: Certified | None = None
) -> Choice:
    """The threshold with the largest figure, judged by decisions that other rows have chosen.

    With a target, it is chosen among the thresholds that were found to reach it.
    """

    def best(some: Rows) -> float:
        among = None if found is None else found.passed
        return best_threshold(FIGURES[name], some.prob, some.label, some.weight, among)

    thresholds = {"tuned": best(rows), "today": goal.threshold}
    yes = {each: rows.prob >= threshold for each, threshold in thresholds.items()}
    for train, test in decision_splits(rows.units, len(rows.prob), goal.folds, seed):
        yes["tuned"][test] = rows.prob[test] >= best(rows.taken(train))
    numbers: dict[str, dict[str, Number]] = {each: {} for each in thresholds}
    if name in MERITS:  # rates have intervals of their own
        values = {each: pseudo_values(name, decisions, rows.label, rows.weight) for each, decisions in yes.items()}
        means = Means.of(values, rows, goal, seed)
        numbers = {each: {name: means.number(each)} for each in thresholds}
        numbers["tuned"]["gains"] = means.difference("tuned", "today")
    options = tuple(
        Option(each, thresholds[each], numbers[each] | rates_of(rows, decisions)) for each, decisions in yes.items()
    )
    policy = Policy(ThresholdRule.at(thresholds["tuned"]), target, merit=name)
    if target is None or found is None:
        why = f"here {name} is the largest; the table has what a threshold so chosen reaches on other rows"
        return Choice(policy, "tuned", why, options)
    why = f"{target} holds {with_confidence(target.confidence)}; of all thresholds that are as sure, {name} is largest"
    bound = float(found.bounds[np.flatnonzero(found.passed == thresholds["tuned"])[0]])
    return Choice(policy, "tuned", why, options, bound)


PRICES = {"precision": "recall", "fpr": "recall", "recall": "precision", "accuracy": "accuracy"}
"""By rate: the figure that shows what it costs to reach the target in each group."""


def by_group(target: Target, goal: DecisionGoal, rows: Rows, seed: int) -> Choice:
    """The threshold of each group whose target holds, in all of them at once, and what that costs in the total."""
    assert rows.group is not None
    assert goal.by is not None
    each = replace(target, confidence=1.0 - (1.0 - target.confidence) / len(rows.groups))
    sure, total = with_confidence(target.confidence), Certified.of(target, rows, rows.prob)
    may_be_never = target.rate in ("precision", "fpr") or target.relation == "<="
    thresholds, bounds, never = [], [], []
    for place, name in enumerate(rows.groups):
        part = rows.taken(rows.group == place)
        found = Certified.of(each, part, part.prob)
        if found.threshold is not None:
            bounds.append(found.bound)
        elif may_be_never:
            never.append(group_name(name))
        else:
            refused = f"in {goal.by} {group_name(name)}, {found.refusal(each)}"
            return Choice(None, None, refused, _options({"today": goal.threshold}, rows), found.bound)
        thresholds.append(NEVER if found.threshold is None else found.threshold)
    options = {"one for all": total.threshold, "today": goal.threshold}
    if not bounds:
        why = f"no threshold has {target} in any {goal.by} {sure}"
        return Choice(None, None, why, _options(options, rows))
    unseen = total.threshold if total.threshold is not None else NEVER if may_be_never else min(thresholds)
    rule = GroupRule(tuple(thresholds), goal.by, rows.groups, unseen)
    yes = rule.yes(rows.prob, rows.group)
    parts = [rows.group == place for place in range(len(rows.groups))]
    of_groups = [
        Option(f"  {goal.by} {group_name(name)}", thresholds[place], rates_of(rows.taken(part), yes[part]))
        for place, (name, part) in enumerate(zip(rows.groups, parts, strict=True))
    ]
    why = f"{target} holds in each {goal.by}, in all at once {sure}"
    why += f"; no row of {', '.join(never)} gets yes: nothing is sure enough" if never else ""
    why += _price(target, rows, yes, total, goal, seed)
    chosen = Option("chosen", None, rates_of(rows, yes))
    worst = min if target.relation == ">=" else max
    policy = Policy(rule, target)
    return Choice(policy, "chosen", why, (chosen, *of_groups, *_options(options, rows)), float(worst(bounds)))


def _price(target: Target, rows: Rows, yes: Mask, total: Certified, goal: DecisionGoal, seed: int) -> str:
    """How far the thresholds of groups are from one threshold for all rows, in the figure that the target costs."""
    if total.threshold is None:
        return "; no threshold for all rows has it"
    name = PRICES.get(target.rate, "precision")
    decisions = {"chosen": yes, "one for all": rows.prob >= total.threshold}
    values = {each: pseudo_values(name, said, rows.label, rows.weight) for each, said in decisions.items()}
    means = Means.of(values, rows, goal, seed)
    own, one, gap = means.number("chosen"), means.number("one for all"), means.difference("chosen", "one for all")
    between = "" if gap.lo is None or gap.hi is None else f" ({gap.lo:+.3g} to {gap.hi:+.3g})"
    change = f"a change of {gap.value:+.3g}{between}"
    return f"; in the total {name} is {own.value:.3f}, and {one.value:.3f} with one threshold for all: {change}"


def by_budget(goal: DecisionGoal, rows: Rows) -> Choice:
    """The least threshold that the budget is enough for."""
    assert goal.budget is not None
    if rows.weight is not None or rows.units is not None:
        raise UsageError(
            "--budget counts rows, which have no weights or units", hint="try: --target 'positive-rate <= 0.01'"
        )
    threshold = budget_threshold(rows.prob, goal.budget, goal.confidence)
    without = float(np.sort(rows.prob)[::-1][goal.budget - 1])
    thresholds = {"chosen": threshold, "without confidence": without, "today": goal.threshold}
    options = _options(thresholds, rows)
    count = len(rows.prob)
    sure = with_confidence(goal.confidence)
    if threshold == NEVER:
        why = (
            f"no threshold keeps to {goal.budget:,} of {count:,} new rows {sure}: equal probabilities, or too few rows"
        )
        return Choice(None, None, why, options)
    why = f"at most {goal.budget:,} of {count:,} new rows reach this threshold {sure}"
    target = Target("positive-rate", "<=", goal.budget / count, goal.confidence)
    return Choice(Policy(ThresholdRule.at(threshold), target), "chosen", why, options, float(goal.budget))
