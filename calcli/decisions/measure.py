"""A policy on labelled rows that did not choose it: costs, rates, and whether its promise still holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.decisions.class_rule import ClassRule
from calcli.decisions.conformal import Thresholds
from calcli.decisions.cost_rule import CostRule
from calcli.decisions.costs import Costs, bootstrap_means
from calcli.decisions.policy import MatrixRule, Policy, SetRule, ThresholdRule
from calcli.decisions.rates import RATES, decided
from calcli.decisions.rows import Number, Rows, intervals, rates_of, set_numbers
from calcli.decisions.targets import Target

BROKEN = 0.05
"""New rows refute a promise if, were it kept, they had turned out as badly with no larger probability."""

_SHARE = ("positive-rate",)


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of a policy on new rows.

    Attributes
    ----------
    target, confidence
        What was promised, and with which probability.
    value
        The rate on the new rows; None where it is of no rows.
    p
        Of the exact binomial test that the rate keeps to the target; small where it does not.
    """

    target: str
    confidence: float
    value: float | None
    p: float
    broken: bool


@dataclass(frozen=True, slots=True)
class Promised:
    """One promise on new rows: a rate of decisions, of these rows.

    Attributes
    ----------
    yes
        The rows that are decided, whose true classes are `rows.label`.
    name
        Of the rate.
    """

    target: Target
    rows: Rows
    yes: NDArray[np.bool_]
    name: str = "positive-rate"

    def outcomes(self) -> tuple[NDArray[np.bool_], FloatArray]:
        """For the rows that the rate is about: whether each is a hit, and its weight."""
        hit, of = RATES[self.name].rows(self.yes, self.rows.label > 0)
        return hit[of], self.rows.mass[of]

    def tested(self) -> Promise:
        """The exact binomial test."""
        found = decided(
            self.yes.astype(np.float64),
            self.rows.label,
            np.array([0.5]),
            self.rows.weight,
            self.rows.together,
            rates=(self.name,),
        )
        hits, worth = (float(each[0]) for each in found.worth(self.name))
        p = self.target.kept(hits, worth) if worth > 0 else 1.0
        value = hits / worth if worth > 0 else None
        return Promise(str(self.target), self.target.confidence, value, p, p < BROKEN)


def measure(
    policy: Policy, rows: Rows, beside: Mapping[str, FloatArray], *, replicates: int, seed: int
) -> tuple[dict[str, Number], Promise | None]:
    """What the decisions of the policy are worth, and the test of its promise."""
    promise = tested(promised(policy, rows, beside))
    rule = policy.rule
    if isinstance(rule, SetRule):
        return set_numbers(rows, rule.sets.predict(rows.prob, rows.group)), promise
    paid = paid_of(policy, rows, beside)
    cost = {} if paid is None else {"cost": _cost(paid, rows, replicates, seed)}
    if isinstance(rule, ClassRule):
        return cost | _of_classes(rows, rule.members(rows.prob, beside)), promise
    if isinstance(rule, MatrixRule):
        return cost, promise
    done, yes = _done(rule, rows, beside)
    numbers = rates_of(rows, yes)
    if not done.all():
        wrong = rows.taken(done)
        numbers = {
            "coverage": rates_of(rows, done)["positive-rate"],
            "error": rates_of(wrong, yes[done] != (wrong.label > 0))["positive-rate"],
        }
    return cost | numbers, promise


def promised(policy: Policy, rows: Rows, beside: Mapping[str, FloatArray]) -> list[Promised]:
    """What the policy promises of these rows: one promise, one for each class, or none."""
    rule, target = policy.rule, policy.target
    if isinstance(rule, SetRule):
        members = rule.sets.predict(rows.prob, rows.group)
        return [coverage(rule.sets.thresholds, rows, members[np.arange(len(members)), rows.label])]
    if target is None or isinstance(rule, MatrixRule):
        return []
    if isinstance(rule, ClassRule):
        members = rule.members(rows.prob, beside)
        if target.rate == "error":
            some = members.sum(axis=1) > 0
            wrong = ~members[np.arange(len(members)), rows.label]
            return [Promised(target, rows.taken(some), wrong[some])]
        return [Promised(target, of_class(rows, place), yes, target.rate) for place, yes in enumerate(members.T)]
    done, yes = _done(rule, rows, beside)
    if target.rate == "error":
        among = rows.taken(done)
        return [Promised(target, among, yes[done] != (among.label > 0))]
    return [Promised(target, rows, yes, target.rate)]


def coverage(thresholds: Thresholds, rows: Rows, held: NDArray[np.bool_]) -> Promised:
    """What sets or intervals promise."""
    assert thresholds.confidence is not None  # policies are chosen with one
    return Promised(Target("coverage", ">=", thresholds.level, thresholds.confidence), rows, held)


def tested(promises: Sequence[Promised]) -> Promise | None:
    """The tests of all promises as one, with Bonferroni's correction: it is broken where one of them is."""
    if not promises:
        return None
    found = [promise.tested() for promise in promises]
    about = [promise for promise in found if promise.value is not None] or found[:1]  # no rows break no promise
    worst = min(about, key=lambda promise: promise.p)
    p = min(1.0, worst.p * len(about))
    each = " in each class" if len(promises) > 1 else ""
    return replace(worst, target=f"{worst.target}{each}", p=p, broken=p < BROKEN)


def _done(
    rule: ThresholdRule | CostRule, rows: Rows, beside: Mapping[str, FloatArray]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are decided, and which with yes: of the actions 0 is no and 2 is yes, the others leave a row open."""
    action = rule.decide(rows.prob, beside)
    return action % 2 == 0, action == 2


def paid_of(policy: Policy, rows: Rows, beside: Mapping[str, FloatArray]) -> FloatArray | None:
    """What the decisions of the policy cost each row; None where it was not chosen for costs."""
    rule = policy.rule
    if isinstance(rule, MatrixRule):
        return np.asarray(np.array(rule.costs)[rows.label, rule.decide(rows.prob, beside)])
    if isinstance(rule, CostRule):
        done, yes = _done(rule, rows, beside)
        return np.where(done, rule.costs.of(beside).of_rows(rows.label, yes), rule.abstain or 0.0)
    if policy.costs is None:
        return None
    costs = Costs(**policy.costs)
    if isinstance(rule, ClassRule):
        return class_costs(costs, rows, rule.members(rows.prob, beside))
    if isinstance(rule, ThresholdRule) and rule.gap.low == rule.gap.high and rule.gap.limit is None:
        return costs.of_rows(rows.label, rows.prob >= rule.gap.high)
    return None


def class_numbers(rows: Rows, members: NDArray[np.bool_]) -> dict[str, Number]:
    """The share of rows that get a class, how often the true one is not among theirs, and how many they get."""
    size = members.sum(axis=1)
    among, held = rows.taken(size > 0), members[np.arange(len(size)), rows.label][size > 0]
    found = {
        "coverage": rates_of(rows, size > 0)["positive-rate"],
        "error": rates_of(among, ~held)["positive-rate"],
    }
    if size.max(initial=0) > 1:
        found["size"] = Number(float(np.average(size, weights=rows.weight)))
    return found


def class_costs(costs: Costs, rows: Rows, members: NDArray[np.bool_]) -> FloatArray:
    """What each row costs: the decisions on all classes, each of which it may get or not."""
    each = [costs.of_rows(of_class(rows, place).label, named) for place, named in enumerate(members.T)]
    paid: FloatArray = np.sum(each, axis=0)
    return paid


def of_class(rows: Rows, place: int) -> Rows:
    """The rows, positive where they are of this class."""
    return replace(rows, prob=rows.prob[:, place], label=(rows.label == place).astype(np.int64))


def _of_classes(rows: Rows, members: NDArray[np.bool_]) -> dict[str, Number]:
    """The numbers of all classes, then of each."""
    numbers = class_numbers(rows, members)
    for place, (name, named) in enumerate(zip(rows.classes, members.T, strict=True)):
        found = rates_of(of_class(rows, place), named)
        numbers |= {f"{rate} of {name}": found[rate] for rate in ("precision", "recall")}
    return numbers


def error_bound(rows: Rows, wrong: NDArray[np.bool_], confidence: float) -> float:
    """The most errors that there may be among new rows, as a share of them."""
    if not len(rows.prob):
        return 1.0
    found = decided(wrong.astype(np.float64), rows.label, np.array([0.5]), rows.weight, rows.together, rates=_SHARE)
    hits, worth = (float(each[0]) for each in found.worth(*_SHARE))
    return Target("error", "<=", 0.5, confidence).bound(hits, worth)


def _cost(paid: FloatArray, rows: Rows, replicates: int, seed: int) -> Number:
    drawn = bootstrap_means([paid], rows.weight, rows.together, replicates=replicates, seed=seed)
    return intervals(float(np.average(paid, weights=rows.weight)), drawn[:, 0])
