"""A policy: the rule that makes decisions of probabilities, and what it promises."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray
from calcli.decisions.abstention import Gap
from calcli.decisions.class_rule import ClassRule
from calcli.decisions.conformal import PredictionIntervals, PredictionSets
from calcli.decisions.cost_rule import CostRule
from calcli.decisions.rates import NEVER, shown
from calcli.decisions.targets import Target
from calcli.expressions import Input, Term
from calcli.state import Json, State

YES = (0.0, math.nan, 1.0, math.nan)
"""The actions of `ThresholdRule` as numbers."""

DECISION, REASON, SET = "decision", "decision_reason", "set"
ENDS = ("lo", "hi")
"""The columns that are added to a table."""


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """Yes from a probability on, no below another one; between them the row is left open."""

    gap: Gap
    column: str | None = None

    kind: ClassVar[str] = "threshold"

    @classmethod
    def at(cls, threshold: float) -> Self:
        """One threshold, which leaves nothing open."""
        return cls(Gap(threshold, threshold))

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def decide(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> IntArray:
        """The action of each row, a place in `actions`; `beside` are the columns that it reads."""
        action = (prob >= self.gap.low).astype(np.int64) + (prob >= self.gap.high)
        if self.gap.limit is not None and self.column is not None:
            action[~(beside[self.column] <= self.gap.limit)] = 3
        return action

    def formula(self, prob: Term) -> Term:
        """1 for yes, 0 for no, missing where the row is left open."""
        answer = terms.choose(prob >= self.gap.high, 1.0, terms.choose(prob < self.gap.low, 0.0, None))
        if self.gap.limit is None or self.column is None:
            return answer
        return terms.choose(Input(self.column) <= self.gap.limit, answer, None)

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        """What is decided, None for nothing, and why; `classes` in the order of the class index."""
        low, high = shown(self.gap.low), shown(self.gap.high)
        return [
            (classes[0], f"probability < {low}"),
            (None, f"probability between {low} and {high}"),
            (classes[1], f"probability >= {high}"),
            (None, f"{self.column} > {0.0 if self.gap.limit is None else self.gap.limit:.6g}, or missing"),
        ]

    def to_json(self) -> dict[str, Json]:
        return {"low": self.gap.low, "high": self.gap.high, "limit": self.gap.limit, "column": self.column}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        limit, column = written["limit"], written["column"]
        if (limit is None) != (column is None) or not isinstance(column, str | None):
            raise ValueError("a limit of uncertainty needs its column")
        low, high = float(written["low"]), float(written["high"])
        if not 0.0 <= low <= high <= NEVER:
            raise ValueError(f"thresholds {low}, {high} do not rise from 0 to 1")
        return cls(Gap(low, high, None if limit is None else float(limit)), column)


@dataclass(frozen=True, slots=True)
class MatrixRule:
    """Of several actions the one whose expected cost is the least.

    Attributes
    ----------
    names
        Of the actions: classes, or others, such as to leave the row to a person; None leaves it open.
    costs
        By class, then by action.
    """

    names: tuple[str | None, ...]
    costs: tuple[tuple[float, ...], ...]

    kind: ClassVar[str] = "classes"

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    def expected(self, prob: FloatArray) -> FloatArray:
        """The expected cost of each action, shape (n, actions)."""
        if prob.ndim == 1:
            prob = np.column_stack([1.0 - prob, prob])
        return np.asarray(prob @ np.array(self.costs))

    def decide(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> IntArray:
        return np.asarray(self.expected(prob).argmin(axis=1), dtype=np.int64)

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        reasons = ("least expected cost", "all else is expected to cost more")
        return [(name, reasons[name is None]) for name in self.names]

    def to_json(self) -> dict[str, Json]:
        return {"names": list(self.names), "costs": [list(row) for row in self.costs]}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        costs = tuple(tuple(map(float, row)) for row in written["costs"])
        names = tuple(None if name is None else str(name) for name in written["names"])
        if any(len(row) != len(names) for row in costs) or not names:
            raise ValueError("a matrix of costs has a column for each action")
        return cls(names, costs)


@dataclass(frozen=True, slots=True)
class SetRule:
    """A set of classes, which holds the truth as often as it promises.

    Attributes
    ----------
    column, groups
        The column whose groups have thresholds of their own, and its values as text; None and none without.
    """

    sets: PredictionSets
    column: str | None = None
    groups: tuple[str, ...] = ()

    kind: ClassVar[str] = "sets"

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def to_json(self) -> dict[str, Json]:
        return {"sets": self.sets.to_json(), "column": self.column, "groups": list(self.groups)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        column, groups = written["column"], tuple(map(str, written["groups"]))
        if not isinstance(column, str | None):
            raise TypeError(f"{column!r} is no name of a column")
        return cls(PredictionSets.from_json(written["sets"]), column, groups)


@dataclass(frozen=True, slots=True)
class IntervalRule:
    """An interval, which holds the amount that comes true as often as it promises.

    Attributes
    ----------
    lower, upper
        The columns of two predicted quantiles, or twice that of the prediction.
    spread, squared
        The column by which intervals are scaled, if there is one, and whether it holds variances.
    column, groups
        As of `SetRule`.
    """

    intervals: PredictionIntervals
    lower: str
    upper: str
    spread: str | None = None
    squared: bool = False
    column: str | None = None
    groups: tuple[str, ...] = ()

    kind: ClassVar[str] = "intervals"

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(dict.fromkeys(name for name in (self.lower, self.upper, self.spread) if name is not None))

    def to_state(self) -> State:
        """What an artifact keeps of it."""
        names: dict[str, Json] = {
            name: getattr(self, name) for name in ("lower", "upper", "spread", "squared", "column")
        }
        return State({"kind": self.kind, "rule": self.intervals.to_json(), **names, "groups": list(self.groups)})

    @classmethod
    def from_state(cls, state: State) -> Self:
        params: Mapping[str, Any] = state.params
        lower, upper, spread, column = (params[name] for name in ("lower", "upper", "spread", "column"))
        if not all(isinstance(name, str) for name in (lower, upper)):
            raise TypeError(f"{lower!r} and {upper!r} are no names of columns")
        if params["kind"] != cls.kind or not all(isinstance(name, str | None) for name in (spread, column)):
            raise ValueError("it is of another kind, or reads columns without a name")
        intervals, groups = PredictionIntervals.from_json(params["rule"]), tuple(map(str, params["groups"]))
        return cls(intervals, lower, upper, spread, bool(params["squared"]), column, groups)


AnyRule = ThresholdRule | CostRule | ClassRule | MatrixRule | SetRule

_RULES: Mapping[str, type[AnyRule]] = {
    rule.kind: rule for rule in (ThresholdRule, CostRule, ClassRule, MatrixRule, SetRule)
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule with its promise, as an artifact keeps it.

    Attributes
    ----------
    target
        What a rate was shown to be, if that is what the threshold was chosen for.
    costs
        Of a false alarm, a miss and the two right decisions, if it was chosen for these.
    """

    rule: AnyRule
    target: Target | None = None
    costs: Mapping[str, float] | None = None

    @property
    def kind(self) -> str:
        return self.rule.kind

    def check(self, classes: int) -> None:
        """Raise a `ValueError` if the rule does not decide rows of so many classes."""
        prob = np.full(2, 0.5) if classes == 2 else np.full((2, classes), 1.0 / classes)
        if isinstance(self.rule, SetRule):
            fits = self.rule.sets.predict(prob, np.zeros(2, dtype=np.int64)).shape == (2, classes)
        elif isinstance(self.rule, MatrixRule):
            fits = self.rule.expected(prob).shape == (2, len(self.rule.names))
        elif isinstance(self.rule, ClassRule):
            fits = len(self.rule.thresholds) == classes > 2
        else:
            fits = classes == 2
        if not fits:
            raise ValueError(f"the rule does not decide between {classes} classes")

    def to_state(self) -> State:
        return State(
            {
                "kind": self.kind,
                "rule": self.rule.to_json(),
                "target": None if self.target is None else self.target.to_json(),
                "costs": None if self.costs is None else dict(self.costs),
            }
        )

    @classmethod
    def from_state(cls, state: State) -> Self:
        params: Mapping[str, Any] = state.params
        target, costs = params["target"], params["costs"]
        return cls(
            _RULES[params["kind"]].from_json(params["rule"]),
            None if target is None else Target.from_json(target),
            None if costs is None else {name: float(cost) for name, cost in costs.items()},
        )
