"""A policy on labelled rows that did not choose it: costs, rates, and whether its promise still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.decisions.class_rule import ClassRule
from calcli.decisions.conformal import Thresholds
from calcli.decisions.cost_rule import CostRule
from calcli.decisions.costs import Costs, bootstrap_means
from calcli.decisions.policy import MatrixRule, Policy, SetRule, ThresholdRule
from calcli.decisions.rates import decided
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


def measure(
    policy: Policy, rows: Rows, beside: Mapping[str, FloatArray], *, replicates: int, seed: int
) -> tuple[dict[str, Number], Promise | None]:
    """What the decisions of the policy are worth."""
    if isinstance(policy.rule, SetRule):
        members = policy.rule.sets.predict(rows.prob, rows.group)
        held = members[np.arange(len(members)), rows.label]
        return set_numbers(rows, members), held_as_promised(policy.rule.sets.thresholds, rows, held)
    paid = paid_of(policy, rows, beside)
    cost = {} if paid is None else {"cost": _cost(paid, rows, replicates, seed)}
    if isinstance(policy.rule, ClassRule):
        numbers, promise = _of_classes(policy, policy.rule.members(rows.prob, beside), rows)
        return cost | numbers, promise
    action = policy.rule.decide(rows.prob, beside)
    if isinstance(policy.rule, MatrixRule):
        return cost, None
    done = action % 2 == 0  # 0 is no, 2 is yes; the others are left open
    yes = action == 2
    numbers = rates_of(rows, yes)
    if not done.all():
        wrong = rows.taken(done)
        numbers = {
            "coverage": rates_of(rows, done)["positive-rate"],
            "error": rates_of(wrong, yes[done] != (wrong.label > 0))["positive-rate"],
        }
    numbers = cost | numbers
    if policy.target is None:
        return numbers, None
    if policy.target.rate == "error":
        among = rows.taken(done)
        return numbers, _promise(policy.target, among, yes[done] != (among.label > 0), *_SHARE)
    return numbers, _promise(policy.target, rows, yes, policy.target.rate)


def paid_of(policy: Policy, rows: Rows, beside: Mapping[str, FloatArray]) -> FloatArray | None:
    """What the decisions of the policy cost each row; None where it was not chosen for costs."""
    rule = policy.rule
    if isinstance(rule, MatrixRule):
        return np.asarray(np.array(rule.costs)[rows.label, rule.decide(rows.prob, beside)])
    if isinstance(rule, ClassRule):
        return (
            None if policy.costs is None else class_costs(Costs(**policy.costs), rows, rule.members(rows.prob, beside))
        )
    if isinstance(rule, CostRule):
        action = rule.decide(rows.prob, beside)
        paid = rule.costs.of(beside).of_rows(rows.label, action == 2)
        return np.where(action % 2 == 0, paid, rule.abstain or 0.0)
    if isinstance(rule, ThresholdRule) and policy.costs is not None and rule.gap.low == rule.gap.high:
        return (
            None
            if rule.gap.limit is not None
            else Costs(**policy.costs).of_rows(rows.label, rows.prob >= rule.gap.high)
        )
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


def _of_classes(policy: Policy, members: NDArray[np.bool_], rows: Rows) -> tuple[dict[str, Number], Promise | None]:
    """The numbers of all classes, then of each; the promise is broken where one class refutes it."""
    numbers = class_numbers(rows, members)
    own = [of_class(rows, place) for place in range(members.shape[1])]
    for name, each, named in zip(rows.classes, own, members.T, strict=True):
        numbers |= {f"{rate} of {name}": rates_of(each, named)[rate] for rate in ("precision", "recall")}
    target = policy.target
    if target is None:
        return numbers, None
    if target.rate == "error":
        some = members.sum(axis=1) > 0
        wrong = ~members[np.arange(len(members)), rows.label]
        return numbers, _promise(target, rows.taken(some), wrong[some], *_SHARE)
    # A class that no row gets breaks no promise.
    parts = [_promise(target, each, named, target.rate) for each, named in zip(own, members.T, strict=True)]
    parts = [part for part in parts if part.value is not None] or parts[:1]
    worst = min(parts, key=lambda part: part.p)
    p = min(1.0, worst.p * len(parts))
    return numbers, replace(worst, target=f"{target} in each class", p=p, broken=p < BROKEN)


def held_as_promised(thresholds: Thresholds, rows: Rows, held: NDArray[np.bool_]) -> Promise:
    """The test of the coverage of sets or intervals."""
    assert thresholds.confidence is not None  # policies are chosen with one
    return _promise(Target("coverage", ">=", thresholds.level, thresholds.confidence), rows, held, *_SHARE)


def error_bound(rows: Rows, wrong: NDArray[np.bool_], confidence: float) -> float:
    """The most errors that there may be among new rows, as a share of them."""
    if not len(rows.prob):
        return 1.0
    found = decided(wrong.astype(np.float64), rows.label, np.array([0.5]), rows.weight, rows.together, rates=_SHARE)
    hits, worth = (float(each[0]) for each in found.worth(*_SHARE))
    return Target("error", "<=", 0.5, confidence).bound(hits, worth)


def _promise(target: Target, rows: Rows, yes: NDArray[np.bool_], name: str) -> Promise:
    """The test of a target: the rate of this name, of these rows."""
    if not len(rows.prob):
        return Promise(str(target), target.confidence, None, 1.0, False)
    found = decided(yes.astype(np.float64), rows.label, np.array([0.5]), rows.weight, rows.together, rates=(name,))
    hits, worth = (float(each[0]) for each in found.worth(name))
    p = target.kept(hits, worth) if worth > 0 else 1.0
    return Promise(str(target), target.confidence, hits / worth if worth > 0 else None, p, p < BROKEN)


def _cost(paid: FloatArray, rows: Rows, replicates: int, seed: int) -> Number:
    drawn = bootstrap_means([paid], rows.weight, rows.together, replicates=replicates, seed=seed)
    return intervals(float(np.average(paid, weights=rows.weight)), drawn[:, 0])
