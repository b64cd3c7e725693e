"""Labelled rows: the rates and costs of decisions on them, with intervals, and whether a policy keeps its promise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from calcli.batch import FloatArray, IntArray, LabelArray, SamplingUnits, taken
from calcli.decisions.conformal import HeldOut, Thresholds
from calcli.decisions.costs import CostRule, Costs, bootstrap_means
from calcli.decisions.merits import pseudo_values
from calcli.decisions.policy import AnyRule, ClassRule, GroupRule, MatrixRule, Policy, SetRule, ThresholdRule
from calcli.decisions.targets import RATES, Decided, Mask, Target, decided
from calcli.metrics.paired import Z975, skewed

BROKEN = 0.05
"""New rows refute a promise if, were it kept, they had turned out as badly with no larger probability."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Labelled rows with their probabilities."""

    prob: FloatArray
    label: LabelArray
    weight: FloatArray | None = None
    units: SamplingUnits | None = None
    """The rows that belong together."""

    costs: Costs | None = None
    """The costs of each row, where they differ."""

    uncertainty: FloatArray | None = None
    """The number by which rows may be left open; NaN where it is not known."""

    group: IntArray | None = None
    groups: tuple[str, ...] = ()
    """`group`, `groups`: the group of each row, and the names of the groups; None and none without."""

    classes: tuple[str, ...] = ()
    """The names of the classes, in the order of the class index."""

    @property
    def together(self) -> IntArray | None:
        """The unit of each row, where rows of a unit count as one."""
        return None if self.units is None else self.units.together

    @property
    def mass(self) -> FloatArray:
        """Weights, ones where none were given."""
        return np.ones(len(self.prob)) if self.weight is None else self.weight

    taken = taken

    def held_out(self, confidence: float) -> HeldOut:
        """The rows behind thresholds, beside their scores."""
        return {"confidence": confidence, "group": self.group, "weight": self.weight, "unit": self.together}

    def held(self, members: Mask) -> Mask:
        """Whether the true class of each row is among those that the row gets, shape (n, K)."""
        return members[np.arange(len(members)), self.label]

    def decided(self, yes: Mask, rates: Collection[str] = tuple(RATES)) -> Decided:
        """The counts that follow from saying yes to some of the rows; `rates` are those whose worth is asked for."""
        return decided(yes.astype(np.float64), self.label, np.array([0.5]), self.weight, self.together, rates)

    def worth(self, yes: Mask, rate: str = "positive-rate") -> tuple[float, float]:
        """The hits of a rate and the rows that it is about, as independent rows, after saying yes to some rows."""
        hits, rows = self.decided(yes, (rate,)).worth(rate)
        return float(hits[0]), float(rows[0])


@dataclass(frozen=True, slots=True)
class Number:
    """An estimate with its 95 % interval."""

    value: float | None
    lo: float | None = None
    hi: float | None = None


def rates_of(rows: Rows, yes: Mask) -> dict[str, Number]:
    """The rates of decisions, with exact binomial intervals."""
    return {name: Number(*rate) for name, rate in rows.decided(yes).at(0).items()}


def share_of(rows: Rows, chosen: Mask) -> Number:
    return rates_of(rows, chosen)["positive-rate"]


def coverage_and_error(rows: Rows, done: Mask, wrong: Mask) -> dict[str, Number]:
    """The share of rows that are decided, and among them that of the rows that are decided wrongly."""
    return {"coverage": share_of(rows, done), "error": share_of(rows.taken(done), wrong[done])}


def intervals(value: float, replicates: FloatArray) -> Number:
    """A mean with the interval that follows from its replicates, if there are any.

    Costs are skewed where few rows cost much. The percentiles of the replicates are then skewed as the mean is, but not
    as far as the mean over its own error, which Hall's transformation allows for.
    """
    if not len(replicates):
        return Number(value)
    error = float(replicates.std())
    skew = float(((replicates - replicates.mean()) ** 3).mean()) / error**3 if error > 0.0 else 0.0
    return Number(value, *skewed(value, error, skew, Z975)[:2]) if error > 0.0 else Number(value, value, value)


def set_numbers(rows: Rows, members: Mask) -> dict[str, Number]:
    """The coverage of the sets, their mean size, and how often they have just one class, or none."""
    size = members.sum(axis=1)
    return {
        "coverage": share_of(rows, rows.held(members)),
        "size": Number(float(np.average(size, weights=rows.weight))),
        "single": share_of(rows, size == 1),
        "empty": share_of(rows, size == 0),
    }


@dataclass(frozen=True, slots=True)
class Promise:
    """The promise of a policy, tested on new rows."""

    target: str
    confidence: float
    """`target`, `confidence`: the promise, and the probability with which it was made."""

    value: float | None
    """The rate on the new rows; None where it is of no rows."""

    p: float
    """The p-value of the exact binomial test that the rate keeps to the target; small where it does not."""

    broken: bool


@dataclass(frozen=True, slots=True)
class Promised:
    """One promise with the rows to test it on: a rate of decisions must reach a target."""

    target: Target
    rows: Rows
    yes: Mask
    """The decisions on the rows, whose true classes are `rows.label`."""

    name: str = "positive-rate"
    """The name of the rate."""

    each: str = "class"
    """Where there are several promises: what there is one of each of."""

    def outcomes(self) -> tuple[Mask, FloatArray]:
        """For the rows that the rate is about: whether each is a hit, and its weight."""
        hit, of = RATES[self.name].rows(self.yes, self.rows.label > 0)
        return hit[of], self.rows.mass[of]

    def tested(self) -> Promise:
        """The exact binomial test."""
        hits, worth = self.rows.worth(self.yes, self.name)
        p = self.target.kept(hits, worth) if worth > 0 else 1.0
        value = hits / worth if worth > 0 else None
        return Promise(str(self.target), self.target.confidence, value, p, p < BROKEN)


@dataclass(frozen=True, slots=True)
class JudgedScores:
    """Rows with probabilities under a policy, and the columns of numbers that its rule reads."""

    policy: Policy
    rows: Rows
    beside: Mapping[str, FloatArray]

    @property
    def kind(self) -> str:
        return self.policy.kind

    def taken(self, mask: Mask) -> JudgedScores:
        return replace(
            self, rows=self.rows.taken(mask), beside={name: values[mask] for name, values in self.beside.items()}
        )

    def measured(self, *, replicates: int, seed: int) -> tuple[dict[str, Number], Promise | None]:
        """The rates and costs of the decisions, and the test of the promise of the policy."""
        policy, rows, rule = self.policy, self.rows, self.policy.rule
        promise = tested(self.promised())
        if isinstance(rule, SetRule):
            return set_numbers(rows, rule.sets.predict(rows.prob, rows.group)), promise
        paid = self.paid()
        sign, name = (1.0, "cost") if policy.merit is None else (-1.0, policy.merit)
        cost = {}
        if paid is not None:
            drawn = bootstrap_means([sign * paid], rows.weight, rows.together, replicates=replicates, seed=seed)
            cost = {name: intervals(float(np.average(sign * paid, weights=rows.weight)), drawn[:, 0])}
        if isinstance(rule, ClassRule):
            return cost | _of_classes(rows, rule.members(rows.prob, self.beside)), promise
        if isinstance(rule, MatrixRule):
            return cost, promise
        done, yes = self._done(rule)
        numbers = rates_of(rows, yes) if done.all() else coverage_and_error(rows, done, yes != (rows.label > 0))
        return cost | numbers, promise

    def promised(self) -> list[Promised]:
        """The promises of the policy about these rows: one, one for each class or group, or none."""
        rows, rule, target, kind = self.rows, self.policy.rule, self.policy.target, "class"
        if isinstance(rule, SetRule):
            return [coverage(rule.sets.thresholds, rows, rows.held(rule.sets.predict(rows.prob, rows.group)))]
        if target is None or isinstance(rule, MatrixRule):
            return []
        if isinstance(rule, ClassRule):
            members = rule.members(rows.prob, self.beside)
            done, wrong = members.sum(axis=1) > 0, ~rows.held(members)
            each = [(of_class(rows, place), yes) for place, yes in enumerate(members.T)]
        else:
            done, yes = self._done(rule)
            wrong, each = yes != (rows.label > 0), [(rows, yes)]
            if isinstance(rule, GroupRule):
                parts = [np.asarray(rows.group) == place for place in range(len(rule.groups))]
                each, kind = [(rows.taken(part), yes[part]) for part in parts], rule.column
        if target.rate == "error":
            return [Promised(target, rows.taken(done), wrong[done])]
        return [Promised(target, *pair, target.rate, kind) for pair in each]

    def paid(self) -> FloatArray | None:
        """The cost of the decision on each row; None where the policy was chosen neither for costs nor for a figure.

        Less of a figure of merit is a cost.
        """
        rows, rule = self.rows, self.policy.rule
        if isinstance(rule, MatrixRule):
            return np.asarray(np.array(rule.costs)[rows.label, rule.decide(rows.prob, self.beside)])
        if isinstance(rule, CostRule):
            done, yes = self._done(rule)
            return np.where(done, rule.costs.of(self.beside).of_rows(rows.label, yes), rule.abstain or 0.0)
        if self.policy.costs is None:
            merit = self.policy.merit
            return None if merit is None else -pseudo_values(merit, _yes(rule, rows), rows.label, rows.weight)
        costs = Costs(**self.policy.costs)
        if isinstance(rule, ClassRule):
            return class_costs(costs, rows, rule.members(rows.prob, self.beside))
        if isinstance(rule, ThresholdRule) and rule.band.low == rule.band.high and rule.band.limit is None:
            return costs.of_rows(rows.label, _yes(rule, rows))
        return None

    def _done(self, rule: ThresholdRule | GroupRule | CostRule) -> tuple[Mask, Mask]:
        """The rows that are decided, and those decided with yes: action 0 is no, 2 is yes, others leave a row open."""
        rows = self.rows
        if isinstance(rule, GroupRule):
            assert rows.group is not None
            return np.ones(len(rows.prob), dtype=np.bool_), rule.yes(rows.prob, rows.group)
        action = rule.decide(rows.prob, self.beside)
        return action % 2 == 0, action == 2


def coverage(thresholds: Thresholds, rows: Rows, held: Mask) -> Promised:
    """The promise of sets or intervals, from whether they held the truth of each row."""
    assert thresholds.confidence is not None  # policies are chosen with one
    return Promised(Target("coverage", ">=", thresholds.level, thresholds.confidence), rows, held)


def tested(promises: Sequence[Promised]) -> Promise | None:
    """The tests of all promises as one, with Bonferroni's correction: broken where one of them is."""
    if not promises:
        return None
    found = [promise.tested() for promise in promises]
    about = [promise for promise in found if promise.value is not None] or found[:1]  # no rows break no promise
    worst = min(about, key=lambda promise: promise.p)
    p = min(1.0, worst.p * len(about))
    each = f" in each {promises[0].each}" if len(promises) > 1 else ""
    return replace(worst, target=f"{worst.target}{each}", p=p, broken=p < BROKEN)


def _yes(rule: AnyRule, rows: Rows) -> Mask:
    """The yeses of a rule with one threshold."""
    return rows.prob >= cast("ThresholdRule", rule).band.high


def class_numbers(rows: Rows, members: Mask) -> dict[str, Number]:
    """The share of rows that get a class, how often the true one is not among theirs, and how many they get."""
    size = members.sum(axis=1)
    found = coverage_and_error(rows, size > 0, ~rows.held(members))
    if size.max(initial=0) > 1:
        found["size"] = Number(float(np.average(size, weights=rows.weight)))
    return found


def class_costs(costs: Costs, rows: Rows, members: Mask) -> FloatArray:
    """The cost of each row: the sum over all classes, each of which the row may get or not."""
    each = [costs.of_rows(of_class(rows, place).label, named) for place, named in enumerate(members.T)]
    paid: FloatArray = np.sum(each, axis=0)
    return paid


def of_class(rows: Rows, place: int) -> Rows:
    """The rows, positive where they are of this class."""
    return replace(rows, prob=rows.prob[:, place], label=(rows.label == place).astype(np.int64))


def _of_classes(rows: Rows, members: Mask) -> dict[str, Number]:
    """The numbers of all classes, then of each."""
    numbers = class_numbers(rows, members)
    for place, (name, named) in enumerate(zip(rows.classes, members.T, strict=True)):
        found = rates_of(of_class(rows, place), named)
        numbers |= {f"{rate} of {name}": found[rate] for rate in ("precision", "recall")}
    return numbers
