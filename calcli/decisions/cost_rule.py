"""The rule where each row has costs of its own: yes where that is expected to cost less than no (Elkan 2001)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray
from calcli.decisions.costs import Costs
from calcli.expressions import MOST, Condition, Every, Input, Term
from calcli.state import Json

Cost: TypeAlias = float | str
"""A number, or the name of a column."""


@dataclass(frozen=True, slots=True)
class CostColumns:
    """The costs of a row by decision and truth: numbers, or columns.

    Attributes
    ----------
    positive
        A column by which the two costs of positive rows are multiplied, such as the amount that is at stake.
    """

    fp: Cost
    fn: Cost
    tp: Cost = 0.0
    tn: Cost = 0.0
    positive: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        columns = (self.fp, self.fn, self.tp, self.tn, self.positive)
        return tuple(dict.fromkeys(name for name in columns if isinstance(name, str)))

    def of(self, beside: Mapping[str, FloatArray]) -> Costs:
        """The costs of rows with these columns; the rows must be `known`."""
        return Costs(*self.arrays(beside))

    def known(self, beside: Mapping[str, FloatArray]) -> NDArray[np.bool_]:
        """The rows whose costs are all there, and 0 or more."""
        columns = [beside[name] for name in self.reads]
        known: NDArray[np.bool_] = np.all([np.isfinite(column) & (column >= 0.0) for column in columns], axis=0)
        return known

    def terms(self) -> tuple[Term, Term, Term, Term]:
        """The four costs as a formula."""
        scale = None if self.positive is None else Input(self.positive)
        fp, fn, tp, tn = (
            Input(cost) if isinstance(cost, str) else terms.term(cost) for cost in (self.fp, self.fn, self.tp, self.tn)
        )
        return (fp, fn, tp, tn) if scale is None else (fp, fn * scale, tp * scale, tn)

    def arrays(self, beside: Mapping[str, FloatArray]) -> list[FloatArray]:
        """The four costs of each row."""
        rows = len(next(iter(beside.values())))
        scale = 1.0 if self.positive is None else beside[self.positive]
        fp, fn, tp, tn = (
            beside[cost] if isinstance(cost, str) else np.full(rows, cost)
            for cost in (self.fp, self.fn, self.tp, self.tn)
        )
        return [fp, fn * scale, tp * scale, tn]

    def __str__(self) -> str:
        """``p * amount > (1 - p) * 5``."""
        if (self.fn, self.tp) == (1.0, 0.0) and self.positive is not None:
            return str(replace(self, fn=self.positive, positive=None))
        times = "" if self.positive is None else f" * {self.positive}"
        miss, alarm = (
            _shown(wrong) if right == 0.0 else f"({_shown(wrong)} - {_shown(right)})"
            for wrong, right in ((self.fn, self.tp), (self.fp, self.tn))
        )
        return f"p * {miss}{times} > (1 - p) * {alarm}"


def _shown(cost: Cost) -> str:
    return cost if isinstance(cost, str) else f"{cost:g}"


@dataclass(frozen=True, slots=True)
class CostRule:
    """The decision that is expected to cost less, by the costs of the row.

    Attributes
    ----------
    abstain
        What it costs to leave a row open; None where none is left open, but those whose costs are not known.
    """

    costs: CostColumns
    abstain: float | None = None

    kind: ClassVar[str] = "row-costs"

    @property
    def reads(self) -> tuple[str, ...]:
        return self.costs.reads

    def decide(self, prob: FloatArray, beside: Mapping[str, FloatArray]) -> IntArray:
        """The action of each row, a place in `actions`."""
        with np.errstate(invalid="ignore"):  # rows without a cost are left open
            action = least_expected(prob, *self.costs.arrays(beside), abstain=self.abstain)
        action[~self.costs.known(beside)] = 3
        return action

    def formula(self, prob: Term) -> Term:
        """1 for yes, 0 for no, missing where the row is left open."""
        fp, fn, tp, tn = self.costs.terms()
        wrong = 1.0 - prob
        answer = terms.choose(prob * (fn - tp) > wrong * (fp - tn), 1.0, 0.0)
        known: list[Condition] = [each for name in self.reads for each in (Input(name) >= 0.0, Input(name) <= MOST)]
        if self.abstain is not None:
            known.append(terms.least(prob * tp + wrong * fp, prob * fn + wrong * tn) <= self.abstain)
        return terms.choose(Every(tuple(known)), answer, None)

    def actions(self, classes: Sequence[Json]) -> list[tuple[Json, str]]:
        """What is decided, None for nothing, and why; `classes` in the order of the class index."""
        limit = 0.0 if self.abstain is None else self.abstain
        return [
            (classes[0], str(self.costs).replace(">", "<=")),
            (None, f"both decisions are expected to cost more than {limit:g}"),
            (classes[1], str(self.costs)),
            (None, "a cost is missing, or less than 0"),
        ]

    def to_json(self) -> dict[str, Json]:
        return {**asdict(self.costs), "abstain": self.abstain}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Self:
        fp, fn, tp, tn = (
            written[name] if isinstance(written[name], str) else float(written[name])
            for name in ("fp", "fn", "tp", "tn")
        )
        positive, abstain = written["positive"], written["abstain"]
        if not isinstance(positive, str | None):
            raise TypeError(f"{positive!r} is no name of a column")
        found = cls(CostColumns(fp, fn, tp, tn, positive), None if abstain is None else float(abstain))
        if not found.reads:
            raise ValueError("the costs are those of all rows")
        return found


def least_expected(
    prob: FloatArray, fp: FloatArray, fn: FloatArray, tp: FloatArray, tn: FloatArray, *, abstain: float | None
) -> IntArray:
    """0 for no and 2 for yes, whichever is expected to cost less; 1 where both are expected to cost more than that."""
    action = 2 * (prob * (fn - tp) > (1.0 - prob) * (fp - tn)).astype(np.int64)
    if abstain is not None:
        least = np.minimum(prob * tp + (1.0 - prob) * fp, prob * fn + (1.0 - prob) * tn)
        action[least > abstain] = 1
    return action
