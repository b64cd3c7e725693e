"""The policy that was chosen and its alternatives, all measured on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from calcli.batch import FloatArray, Units
from calcli.decisions.abstention import Risk
from calcli.decisions.costs import bootstrap_means
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.measure import Number, Rows, intervals
from calcli.decisions.policy import IntervalRule, Policy
from calcli.numeric.seeded import Split, folds, in_turn, splits_of_units, stream


@dataclass(frozen=True, slots=True)
class Option:
    """A policy that was measured."""

    name: str
    threshold: float | None
    """None where the policy is no single threshold."""

    numbers: Mapping[str, Number]
    """By name: ``cost`` a row, how much it ``saves`` beside today's threshold, and rates."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy that was chosen, and its alternatives."""

    policy: Policy | None
    """None where no policy reaches the goal."""

    chosen: str | None
    """The name of its option."""

    why: str
    """A sentence: why this one; or why none, and which comes nearest."""

    options: tuple[Option, ...]
    """All alternatives, measured on the same rows."""

    bound: float | None = None
    """How bad the rate of the target, or the number of yeses of the budget, may be on new rows."""

    risks: tuple[Risk, ...] = ()
    """The errors left when rows are left open, by the share of rows that is decided."""

    intervals: IntervalRule | None = None
    """The rule in place of a policy, where amounts are predicted."""

    def to_json(self) -> dict[str, Any]:
        """The keys of the object that the verb writes."""
        kept = self.policy or self.intervals
        return {
            "chosen": self.chosen,
            "why": self.why,
            "policy": None if kept is None else dict(kept.to_state().params),
            "bound": self.bound,
            "options": [asdict(option) for option in self.options],
            "risks": [
                {"coverage": one.coverage, **asdict(one.band), "risk": one.risk, "bound": one.bound}
                for one in self.risks
            ],
        }


@dataclass(frozen=True, slots=True)
class Means:
    """Mean costs of several policies, and their replicates."""

    names: tuple[str, ...]
    means: FloatArray
    replicates: FloatArray

    @classmethod
    def of(cls, paid: Mapping[str, FloatArray], rows: Rows, goal: DecisionGoal, seed: int) -> Self:
        means = np.array([np.average(cost, weights=rows.weight) for cost in paid.values()])
        drawn = np.empty((0, len(paid)))
        if goal.bootstrap:
            drawn = bootstrap_means([*paid.values()], rows.weight, rows.together, replicates=goal.bootstrap, seed=seed)
        return cls((*paid,), means, drawn)

    def difference(self, first: str, second: str) -> Number:
        """The mean cost of the first less that of the second."""
        a, b = self.names.index(first), self.names.index(second)
        return intervals(float(self.means[a] - self.means[b]), self.replicates[:, a] - self.replicates[:, b])

    def saves(self, first: str, second: str) -> bool:
        """Whether the first costs less than the second beyond chance."""
        least = self.difference(second, first).lo
        return least is not None and least > 0.0

    def numbers(self, name: str, today: str) -> dict[str, Number]:
        """The cost of a policy per row, and how much it saves beside today's."""
        place = self.names.index(name)
        cost = intervals(float(self.means[place]), self.replicates[:, place])
        return {"cost": cost} | ({} if name == today else {"saves": self.difference(today, name)})


def decision_splits(units: Units | None, rows: int, count: int, seed: int) -> Sequence[Split]:
    """Folds of the rows, or of the units that they belong to."""
    rng = stream(seed, "decision folds")
    return in_turn(folds(rows, count, rng), count) if units is None else splits_of_units(units, count, rng)


def with_confidence(confidence: float) -> str:
    return f"with {100 * confidence:g} % confidence"
