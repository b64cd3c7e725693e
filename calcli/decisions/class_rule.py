"""The rule for more than two classes: the likeliest ones, each from a probability of its own on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray
from calcli.decisions.rates import NEVER, shown
from calcli.expressions import Condition, Every, Input, Term, Terms
from calcli.state import Json


@dataclass(frozen=True, slots=True)
class ClassRule:
    """A row gets the `top` likeliest classes, without those below their thresholds; without any, it is left open.

    Attributes
    ----------
    thresholds
        By class: the probability from which a row may get it.
    sure
        What the likeliest classes must have together; otherwise the row is left open.
    limit, column
        Rows whose uncertainty in this column is larger, or not known, are left open too; None where there is none.
    """

    thresholds: tuple[float, ...]
    top: int = 1
    sure: float = 0.0
    limit: float | None = None
    column: str | None = None

    kind: ClassVar[str] = "class-thresholds"

    @property
    def reads(self) -> tuple[str, ...]:
        return () if self.column is None else (self.column,)

    def members(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> NDArray[np.bool_]:
        """The classes of each row, shape (n, K); `beside` are the columns that the rule reads."""
        leading = likeliest(prob, self.top)
        found: NDArray[np.bool_] = leading & (prob >= np.array(self.thresholds))
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
        """What is decided, None for nothing, and why; `classes` in the order of the class index."""
        pairs = list(zip(classes, map(shown, self.thresholds), strict=True))
        named: list[tuple[Json, str]] = [(name, f"likeliest, probability >= {least}") for name, least in pairs]
        left: list[tuple[Json, str]] = [
            (None, f"{name} is likeliest, and its probability < {least}") for name, least in pairs
        ]
        return [*named, *left, (None, f"{self.column} > {0.0 if self.limit is None else self.limit:.6g}, or missing")]

    def formula(self, prob: Terms) -> Terms:
        """For each class 1 where a row gets it, or else 0."""
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
        return {
            "thresholds": list(self.thresholds),
            "top": self.top,
            "sure": self.sure,
            "limit": self.limit,
            "column": self.column,
        }

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        limit, column = written["limit"], written["column"]
        thresholds, top, sure = tuple(map(float, written["thresholds"])), int(written["top"]), float(written["sure"])
        if (limit is None) != (column is None) or not isinstance(column, str | None):
            raise ValueError("a limit of uncertainty needs its column")
        if not all(0.0 <= each <= NEVER for each in (*thresholds, sure)) or not 1 <= top <= len(thresholds):
            raise ValueError(f"{written!r} is no rule of more classes")
        return cls(thresholds, top, sure, None if limit is None else float(limit), column)


def likeliest(prob: FloatArray, top: int) -> NDArray[np.bool_]:
    """Which are the `top` likeliest classes of each row; of equal ones the first."""
    leading = np.zeros(prob.shape, dtype=np.bool_)
    np.put_along_axis(leading, np.argsort(-prob, axis=1, kind="stable")[:, :top], np.True_, axis=1)
    return leading


def _leads(prob: Terms, place: int, top: int) -> list[Condition]:
    """That a class is among the likeliest ones."""
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
