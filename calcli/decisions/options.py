"""What was chosen, beside what else there is: policies that were measured on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from calcli.batch import FloatArray, Units
from calcli.decisions.abstention import Risk
from calcli.decisions.ask import Ask
from calcli.decisions.costs import bootstrap_means
from calcli.decisions.policy import IntervalRule, Policy
from calcli.decisions.rows import Number, Rows, intervals
from calcli.numeric.seeded import Split, folds, in_turn, splits_of_units, stream


@dataclass(frozen=True, slots=True)
class Option:
    """A policy that was measured.

    Attributes
    ----------
    threshold
        None where the policy is no single threshold.
    numbers
        By name: ``cost`` a row, how much it ``saves`` beside today's threshold, and rates.
    """

    name: str
    threshold: float | None
    numbers: Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class Choice:
    """The policy that was chosen, beside what else there is.

    Attributes
    ----------
    policy
        None where nothing is as it must be.
    chosen
        The name of its option.
    why
        A sentence: why this one; or why none, and the best that there is.
    options
        All of them, measured on the same rows.
    bound
        How bad the rate of the target, or the number of yeses of the budget, may be on new rows.
    risks
        Of leaving rows open, by the share that is decided.
    intervals
        In place of a policy, where amounts are predicted.
    """

    policy: Policy | None
    chosen: str | None
    why: str
    options: tuple[Option, ...]
    bound: float | None = None
    risks: tuple[Risk, ...] = ()
    intervals: IntervalRule | None = None

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
                {"coverage": one.coverage, **asdict(one.gap), "risk": one.risk, "bound": one.bound}
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
    def of(cls, paid: Mapping[str, FloatArray], rows: Rows, ask: Ask, seed: int) -> Self:
        means = np.array([np.average(cost, weights=rows.weight) for cost in paid.values()])
        drawn = np.empty((0, len(paid)))
        if ask.bootstrap:
            drawn = bootstrap_means([*paid.values()], rows.weight, rows.together, replicates=ask.bootstrap, seed=seed)
        return cls((*paid,), means, drawn)

    def difference(self, first: str, second: str) -> Number:
        """The mean cost of the first less that of the second."""
        a, b = self.names.index(first), self.names.index(second)
        return intervals(float(self.means[a] - self.means[b]), self.replicates[:, a] - self.replicates[:, b])

    def numbers(self, name: str, today: str) -> dict[str, Number]:
        """What a policy costs a row, and saves beside today's."""
        place = self.names.index(name)
        cost = intervals(float(self.means[place]), self.replicates[:, place])
        return {"cost": cost} | ({} if name == today else {"saves": self.difference(today, name)})


def splits_of(units: Units | None, rows: int, count: int, seed: int) -> Sequence[Split]:
    """Folds of the rows, or of the units that they belong to."""
    rng = stream(seed, "decision folds")
    return in_turn(folds(rows, count, rng), count) if units is None else splits_of_units(units, count, rng)


def with_confidence(confidence: float) -> str:
    return f"with {100 * confidence:g} % confidence"
