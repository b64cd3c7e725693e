"""A policy: the rule that makes decisions of probabilities, and its promise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray
from calcli.decisions.abstention import AbstentionBand
from calcli.decisions.conformal import PredictionIntervals, PredictionSets, of_classes
from calcli.decisions.costs import CostRule
from calcli.decisions.merits import FIGURES
from calcli.decisions.targets import NEVER, Mask, Target, shown
from calcli.expressions import Condition, Every, Input, Term, Terms
from calcli.state import Json, State

YES = (0.0, math.nan, 1.0, math.nan)
"""The actions of `ThresholdRule` as numbers."""

DECISION, REASON, SET = "decision", "decision_reason", "set"
ENDS = ("lo", "hi")
"""The columns that are added to a table."""


def _uncertainty_limit(written: Mapping[str, Any]) -> tuple[float | None, str | None]:
    """The largest uncertainty that a rule decides, and its column."""
    limit, column = written["limit"], written["column"]
    if (limit is None) != (column is None) or not isinstance(column, str | None):
        raise ValueError("a limit of uncertainty needs its column")
    return None if limit is None else float(limit), column


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """Yes from a probability on, no below another one; between them the row is left open."""

    band: AbstentionBand
    column: str | None = None

    kind: ClassVar[str] = "threshold"

    @classmethod
    def at(cls, threshold: float) -> Self:
        """One threshold, which leaves nothing open."""
        return cls(AbstentionBand(threshold, threshold))

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def decide(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> IntArray:
        """The action of each row, a place in `actions`; `beside` are the columns that it reads."""
        action = (prob >= self.band.low).astype(np.int64) + (prob >= self.band.high)
        if self.band.limit is not None and self.column is not None:
            action[~(beside[self.column] <= self.band.limit)] = 3
        return action

    def formula(self, prob: Term) -> Term:
        """1 for yes, 0 for no, missing where the row is left open."""
        answer = terms.choose(prob >= self.band.high, 1.0, terms.choose(prob < self.band.low, 0.0, None))
        if self.band.limit is None or self.column is None:
            return answer
        return terms.choose(Input(self.column) <= self.band.limit, answer, None)

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        """The decision of each action, None for none, and its reason; `classes` in the order of the class index."""
        low, high = shown(self.band.low), shown(self.band.high)
        return [
            (classes[0], _below(self.band.low)),
            (None, f"probability between {low} and {high}"),
            (classes[1], f"probability >= {high}"),
            (None, f"{self.column} > {0.0 if self.band.limit is None else self.band.limit:.6g}, or missing"),
        ]

    def to_json(self) -> dict[str, Json]:
        return {**asdict(self.band), "column": self.column}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        limit, column = _uncertainty_limit(written)
        low, high = float(written["low"]), float(written["high"])
        if not 0.0 <= low <= high <= NEVER:
            raise ValueError(f"thresholds {low}, {high} do not rise from 0 to 1")
        return cls(AbstentionBand(low, high, limit), column)


@dataclass(frozen=True, slots=True)
class GroupRule:
    """Yes from a probability on, which each group of rows has of its own."""

    thresholds: tuple[float, ...]
    column: str
    groups: tuple[str, ...]
    """`column`, `groups`: the column that names the group of a row, and its values as text; the empty one for none."""

    unseen: float
    """The threshold of all other groups, of which nothing is promised."""

    kind: ClassVar[str] = "group-thresholds"

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def yes(self, prob: FloatArray, group: IntArray) -> Mask:
        """The decisions; `group` is the place of each row's group, -1 for an unseen one."""
        return prob >= np.array([*self.thresholds, self.unseen])[group]

    def decide(self, prob: FloatArray, group: IntArray) -> IntArray:
        """The action of each row, a place in `actions`."""
        return 2 * np.where(group < 0, len(self.groups), group) + self.yes(prob, group)

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        """The decision and the reason of each action: no and yes in each group."""
        names = [*(f"in {self.column} {group_name(name)}" for name in self.groups), f"in another {self.column}"]
        return [
            (classes[place], f"{why} {name}")
            for name, least in zip(names, (*self.thresholds, self.unseen), strict=True)
            for place, why in enumerate((_below(least), f"probability >= {shown(least)}"))
        ]

    def to_json(self) -> dict[str, Json]:
        return asdict(self) | {"thresholds": list(self.thresholds), "groups": list(self.groups)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        thresholds, groups = tuple(map(float, written["thresholds"])), tuple(map(str, written["groups"]))
        column, unseen = written["column"], float(written["unseen"])
        if not isinstance(column, str) or len(groups) != len(thresholds):
            raise ValueError("each group has a threshold, and a column names the groups")
        if not all(0.0 <= each <= NEVER for each in (*thresholds, unseen)):
            raise ValueError(f"thresholds {thresholds}, {unseen} do not lie between 0 and 1")
        return cls(thresholds, column, groups, unseen)


def _below(threshold: float) -> str:
    """The reason of a no by one threshold, which a probability of 1 does not always reach."""
    return "no probability is enough" if threshold == NEVER else f"probability < {shown(threshold)}"


def spellings(groups: Sequence[str]) -> list[tuple[str, ...]]:
    """The texts that stand for each group: floats that are whole end with .0, and Python writes True and False."""
    found: list[tuple[str, ...]] = []
    for name in groups:
        number = name.removesuffix(".0")
        other = name
        if number.isascii() and number.removeprefix("-").isdecimal():
            other = number if number != name else f"{name}.0"
        elif name.lower() in ("true", "false"):
            other = name.capitalize() if name == name.lower() else name.lower()
        found.append((name,) if other in groups else (name, other))
    return found


def group_name(name: str) -> str:
    """A group in messages."""
    return name or "null"


@dataclass(frozen=True, slots=True)
class ClassRule:
    """The `top` likeliest classes of a row, except those below their thresholds; without any, the row is left open."""

    thresholds: tuple[float, ...]
    """By class: the probability from which a row may get it."""

    top: int = 1
    sure: float = 0.0
    """The probability that the likeliest classes must have together; otherwise the row is left open."""

    limit: float | None = None
    column: str | None = None
    """`limit`, `column`: rows whose uncertainty in this column is larger, or not known, are left open too; None where
    there is none.
    """

    kind: ClassVar[str] = "class-thresholds"

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def members(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> Mask:
        """The classes of each row, shape (n, K); `beside` are the columns that the rule reads."""
        leading = likeliest(prob, self.top)
        found: Mask = leading & (prob >= np.array(self.thresholds))
        found &= (np.where(leading, prob, 0.0).sum(axis=1) >= self.sure)[:, None]
        if self.limit is not None and self.column is not None:
            found &= (beside[self.column] <= self.limit)[:, None]
        return found

    def decide(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> IntArray:
        """The action of each row that gets one class at most, a place in `actions`."""
        first, classes = prob.argmax(axis=1), prob.shape[1]
        open_row = ~self.members(prob, beside).any(axis=1)
        action = np.asarray(first + classes * open_row, dtype=np.int64)
        if self.limit is not None and self.column is not None:
            action[~(beside[self.column] <= self.limit)] = 2 * classes
        return action

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        """The decision of each action, None for none, and its reason; `classes` in the order of the class index."""
        pairs = list(zip(classes, map(shown, self.thresholds), strict=True))
        named: list[tuple[Json, str]] = [(name, f"likeliest, probability >= {least}") for name, least in pairs]
        left: list[tuple[Json, str]] = [
            (None, f"{name} is likeliest, and its probability < {least}") for name, least in pairs
        ]
        return [*named, *left, (None, f"{self.column} > {0.0 if self.limit is None else self.limit:.6g}, or missing")]

    def formula(self, prob: Terms) -> Terms:
        """1 for each class that a row gets, 0 for the others."""
        leading = [_leads(prob, place, self.top) for place in range(len(prob))]
        always: list[Condition] = []
        if self.sure > 0.0:
            whole = terms.total(
                [terms.choose(Every(tuple(lead)), p, 0.0) for lead, p in zip(leading, prob, strict=True)]
            )
            always.append(whole >= self.sure)
        if self.limit is not None and self.column is not None:
            always.append(Input(self.column) <= self.limit)
        return tuple(
            terms.choose(Every((*lead, p >= least, *always)), 1.0, 0.0)
            for lead, p, least in zip(leading, prob, self.thresholds, strict=True)
        )

    def to_json(self) -> dict[str, Json]:
        return asdict(self) | {"thresholds": list(self.thresholds)}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        thresholds, top, sure = tuple(map(float, written["thresholds"])), int(written["top"]), float(written["sure"])
        limit, column = _uncertainty_limit(written)
        if not all(0.0 <= each <= NEVER for each in (*thresholds, sure)) or not 1 <= top <= len(thresholds):
            raise ValueError(f"{written!r} is no rule of more classes")
        return cls(thresholds, top, sure, limit, column)


def likeliest(prob: FloatArray, top: int) -> Mask:
    """Which are the `top` likeliest classes of each row; of equal ones the first."""
    leading = np.zeros(prob.shape, dtype=np.bool_)
    np.put_along_axis(leading, np.argsort(-prob, axis=1, kind="stable")[:, :top], np.True_, axis=1)
    return leading


def _leads(prob: Terms, place: int, top: int) -> list[Condition]:
    """The conditions on which a class is among the likeliest ones."""
    own = prob[place]
    if top >= len(prob):
        return []
    if top == 1:
        return [own > other if at < place else own >= other for at, other in enumerate(prob) if at != place]
    ahead: list[Term] = [
        terms.choose(other >= own if at < place else other > own, 1.0, 0.0)
        for at, other in enumerate(prob)
        if at != place
    ]
    return [terms.total(ahead) < float(top)]


@dataclass(frozen=True, slots=True)
class MatrixRule:
    """The action with the least expected cost."""

    names: tuple[str | None, ...]
    """The names of the actions: classes, or others, such as to leave the row to a person; None leaves it open."""

    costs: tuple[tuple[float, ...], ...]
    """By class, then by action."""

    kind: ClassVar[str] = "classes"

    @property
    def reads(self) -> tuple[str, ...]:
        return ()

    def expected(self, prob: FloatArray) -> FloatArray:
        """The expected cost of each action, shape (n, actions)."""
        return np.asarray(of_classes(prob) @ np.array(self.costs))

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
    """A set of classes, which holds the truth as often as it promises."""

    sets: PredictionSets
    column: str | None = None
    groups: tuple[str, ...] = ()
    """`column`, `groups`: the column whose groups have thresholds of their own, and its values as text; None and none
    without.
    """

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
    """An interval, which holds the amount that comes true as often as it promises."""

    intervals: PredictionIntervals
    lower: str
    upper: str
    """`lower`, `upper`: the columns of two predicted quantiles, or twice that of the prediction."""

    spread: str | None = None
    squared: bool = False
    """`spread`, `squared`: the column by which intervals are scaled, if there is one, and whether it holds variances.
    """

    column: str | None = None
    groups: tuple[str, ...] = ()
    """`column`, `groups`: the column whose groups have thresholds of their own, and its values as text."""

    kind: ClassVar[str] = "intervals"

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of numbers."""
        return tuple(dict.fromkeys(name for name in (self.lower, self.upper, self.spread) if name is not None))

    def to_state(self) -> State:
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


AnyRule = ThresholdRule | GroupRule | CostRule | ClassRule | MatrixRule | SetRule

_RULES: Mapping[str, type[AnyRule]] = {
    rule.kind: rule for rule in (ThresholdRule, GroupRule, CostRule, ClassRule, MatrixRule, SetRule)
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule with its promise, as an artifact keeps it."""

    rule: AnyRule
    target: Target | None = None
    """The rate that was shown to hold, if the threshold was chosen for one."""

    costs: Mapping[str, float] | None = None
    """The costs of a false alarm, a miss and the two right decisions, if the rule was chosen for them."""

    merit: str | None = None
    """The figure of merit that the threshold makes largest, if it was chosen for one."""

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
        if self.merit is not None and not (self.merit in FIGURES and isinstance(self.rule, ThresholdRule)):
            raise ValueError(f"no threshold is chosen for {self.merit!r}")
        if not fits:
            raise ValueError(f"the rule does not decide between {classes} classes")

    def to_state(self) -> State:
        return State(
            {
                "kind": self.kind,
                "rule": self.rule.to_json(),
                "target": None if self.target is None else self.target.to_json(),
                "costs": None if self.costs is None else dict(self.costs),
                **({} if self.merit is None else {"merit": self.merit}),
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
            params.get("merit"),
        )
