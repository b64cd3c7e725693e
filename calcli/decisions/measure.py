"""A policy on labelled rows that did not choose it: costs, rates, and whether its promise still holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.decisions.conformal import Thresholds
from calcli.decisions.costs import Costs, bootstrap_means
from calcli.decisions.policy import MatrixRule, Policy, SetRule
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
    action = policy.rule.decide(rows.prob, beside)
    if isinstance(policy.rule, MatrixRule):
        paid = np.array(policy.rule.costs)[rows.label, action]
        return {"cost": _cost(paid, rows, replicates, seed)}, None
    done = action % 2 == 0  # 0 is no, 2 is yes; the others are left open
    yes = action == 2
    numbers = rates_of(rows, yes)
    if not done.all():
        wrong = rows.taken(done)
        numbers = {
            "coverage": rates_of(rows, done)["positive-rate"],
            "error": rates_of(wrong, yes[done] != (wrong.label > 0))["positive-rate"],
        }
    elif policy.costs is not None:
        paid = Costs(**policy.costs).of_rows(rows.label, yes, rows.scale)
        numbers = {"cost": _cost(paid, rows, replicates, seed), **numbers}
    if policy.target is None:
        return numbers, None
    if policy.target.rate == "error":
        among = rows.taken(done)
        return numbers, _promise(policy.target, among, yes[done] != (among.label > 0), *_SHARE)
    return numbers, _promise(policy.target, rows, yes, policy.target.rate)


def held_as_promised(thresholds: Thresholds, rows: Rows, held: NDArray[np.bool_]) -> Promise:
    """The test of the coverage of sets or intervals."""
    assert thresholds.confidence is not None  # policies are chosen with one
    return _promise(Target("coverage", ">=", thresholds.level, thresholds.confidence), rows, held, *_SHARE)


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
