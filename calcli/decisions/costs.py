"""Costs of decisions: the thresholds that follow from them, and the rule for rows with costs of their own.

Two thresholds follow from costs that are the same for all rows: the one that calibrated probabilities imply, and the
one that costs least on labelled rows. A row with costs of its own gets yes where that is expected to cost less than no
(Elkan 2001).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np

from calcli import expressions as terms
from calcli.batch import FloatArray, IntArray, LabelArray, taken
from calcli.decisions.targets import NEVER, Mask, decided
from calcli.errors import UsageError
from calcli.expressions import MOST, Condition, Every, Input, Term
from calcli.numeric.seeded import Split, column_keys, stream
from calcli.state import Json

CHUNK = 20
"""Replicates that are drawn at a time."""

BLOCKS = 20_000
"""More rows than this, if they differ, are drawn in so many blocks of random rows: the error of a mean is then known to
half a per cent, which is less than what a thousand replicates leave open."""

Cost: TypeAlias = float | str
"""A number, or the name of a column."""

MOST_COST = 1e15
"""The greatest cost: sums over rows, and what is saved, are then numbers, and cents are not lost beside it."""

_NAMES = ("fp", "fn", "tp", "tn")


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a row by decision and truth: a false alarm, a miss, and the two right decisions.

    Each is a number, or an array where each row has costs of its own.
    """

    fp: FloatArray | float
    fn: FloatArray | float
    tp: FloatArray | float = 0.0
    tn: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        for name in _NAMES:
            cost = np.asarray(getattr(self, name))
            if (bad := ~((cost >= 0.0) & (cost <= MOST_COST))).any():
                hint = "a gain is the cost of missing it: add it to the other decision"
                if (large := float(cost[bad].max())) > MOST_COST:
                    hint = "give all costs in a larger unit"
                    raise UsageError(f"--cost-{name} {large:g}: a cost is at most {MOST_COST:g}", hint=hint)
                raise UsageError(f"--cost-{name} {cost[bad].min():g}: a cost is 0 or more", hint=hint)
        for wrong, right in (("fp", "tn"), ("fn", "tp")):
            if (np.asarray(getattr(self, wrong)) < getattr(self, right)).any():
                raise UsageError(f"--cost-{wrong} is less than --cost-{right}: errors cost no less than what is right")
        stakes = np.asarray(self.false_alarm + self.miss)
        if stakes.size and not stakes.any():
            raise UsageError("all decisions cost the same, so that no threshold is better", hint="see: --cost-fn")

    @property
    def false_alarm(self) -> FloatArray | float:
        """The extra cost of saying yes to a negative row, compared with saying no."""
        return self.fp - self.tn

    @property
    def miss(self) -> FloatArray | float:
        """The extra cost of saying no to a positive row, compared with saying yes."""
        return self.fn - self.tp

    @property
    def threshold(self) -> float:
        """The probability from which yes is expected to cost no more than no (Elkan 2001, equation 2).

        Rows with costs of their own share the threshold of their mean costs.
        """
        false_alarm, miss = float(np.mean(self.false_alarm)), float(np.mean(self.miss))
        return false_alarm / (false_alarm + miss)

    take = taken

    def of_rows(self, label: LabelArray, yes: Mask) -> FloatArray:
        cost = np.where(label > 0, np.where(yes, self.tp, self.fn), np.where(yes, self.fp, self.tn))
        return cost.astype(np.float64)

    def at_thresholds(
        self, prob: FloatArray, label: LabelArray, thresholds: FloatArray, weight: FloatArray | None
    ) -> FloatArray:
        """The mean cost of a row at each of the rising thresholds."""
        mass = np.ones(len(prob)) if weight is None else weight
        paid = np.zeros(len(thresholds))
        for name in _NAMES:
            each = decided(prob, label, thresholds, mass * getattr(self, name), rates=()).counts
            paid += getattr(each, name)
        return paid / float(mass.sum())

    def best_threshold(self, prob: FloatArray, label: LabelArray, mass: FloatArray | None = None) -> float:
        """The threshold that costs least on these rows: midway between two probabilities that occur, or `NEVER`.

        `mass` is the weight of a row.
        """
        saved = np.where(label > 0, self.miss, -self.false_alarm)
        if mass is not None:
            saved = saved * mass
        order = np.argsort(-prob, kind="stable")
        falling = prob[order]
        last = np.flatnonzero(np.append(falling[1:] < falling[:-1], True))  # of each run of equal probabilities
        gains = np.concatenate([[0.0], np.cumsum(saved[order])[last]])
        best = int(gains.argmax())
        if best == 0:
            return NEVER
        if best == len(last):
            return 0.0
        return float(falling[last[best - 1]] + falling[last[best]]) / 2.0


def cross_fitted(
    costs: Costs, prob: FloatArray, label: LabelArray, mass: FloatArray | None, splits: Sequence[Split]
) -> Mask:
    """Each row decided by the best threshold of other rows."""
    yes = np.zeros(len(prob), dtype=np.bool_)
    for train, test in splits:
        weight = None if mass is None else mass[train]
        threshold = costs.take(train).best_threshold(prob[train], label[train], weight)
        yes[test] = prob[test] >= threshold
    return yes


def bootstrap_means(
    values: Sequence[FloatArray],
    weight: FloatArray | None = None,
    unit: IntArray | None = None,
    *,
    replicates: int,
    seed: int,
) -> FloatArray:
    """The mean of each of `values` over rows, or units, that are drawn with replacement; shape (replicates, values).

    Rows that agree in everything are drawn together, as one cell of a multinomial distribution; many rows that differ
    are drawn in blocks.
    """
    mass = np.ones(len(values[0])) if weight is None else weight
    columns = [*(value * mass for value in values), mass]
    if unit is not None:
        units = np.unique(unit, return_inverse=True)[1]
        columns = [np.bincount(units, column).astype(np.float64) for column in columns]
    _, first, count = np.unique(column_keys(columns, seed, "cells"), return_index=True, return_counts=True)
    if 8 * len(first) >= len(columns[0]) > BLOCKS:
        blocks = stream(seed, "blocks").permutation(len(columns[0])) % BLOCKS
        columns = [np.bincount(blocks, column).astype(np.float64) for column in columns]
        first, count = np.arange(BLOCKS), np.ones(BLOCKS, dtype=np.int64)
    drawn = len(columns[0])
    table = np.column_stack([column[first] for column in columns])
    rng, found = stream(seed, "bootstrap"), []
    for start in range(0, replicates, CHUNK):
        size = min(CHUNK, replicates - start)
        if 8 * len(first) < drawn:
            counts = rng.multinomial(drawn, count / drawn, size)
        else:
            picks = rng.integers(0, drawn, (size, drawn))
            cells = np.repeat(np.arange(len(first)), count)
            counts = np.stack([np.bincount(cells[pick], minlength=len(first)) for pick in picks])
        sums = counts @ table
        found.append(sums[:, :-1] / sums[:, -1:])
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class CostColumns:
    """The costs of a row by decision and truth: numbers, or columns."""

    fp: Cost
    fn: Cost
    tp: Cost = 0.0
    tn: Cost = 0.0
    positive: str | None = None
    """A column by which the two costs of positive rows are multiplied, such as the amount that is at stake."""

    @property
    def reads(self) -> tuple[str, ...]:
        columns = (self.fp, self.fn, self.tp, self.tn, self.positive)
        return tuple(dict.fromkeys(name for name in columns if isinstance(name, str)))

    def of(self, beside: Mapping[str, FloatArray]) -> Costs:
        """The costs of rows with these columns; the rows must be `known`."""
        return Costs(*self.arrays(beside))

    def known(self, beside: Mapping[str, FloatArray]) -> Mask:
        """The rows whose costs are all there, and 0 or more."""
        columns = [beside[name] for name in self.reads]
        known: Mask = np.all([np.isfinite(column) & (column >= 0.0) for column in columns], axis=0)
        return known

    def terms(self) -> tuple[Term, Term, Term, Term]:
        """The four costs as a formula."""
        return self._scaled(lambda cost: Input(cost) if isinstance(cost, str) else terms.term(cost))

    def arrays(self, beside: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The four costs of each row."""
        rows = len(next(iter(beside.values())))
        return self._scaled(lambda cost: beside[cost] if isinstance(cost, str) else np.full(rows, cost))

    def _scaled(self, read: Callable[[Cost], Any]) -> tuple[Any, Any, Any, Any]:
        """The four costs as `read`, those of positive rows multiplied by the column `positive`."""
        fp, fn, tp, tn = map(read, (self.fp, self.fn, self.tp, self.tn))
        if self.positive is None:
            return fp, fn, tp, tn
        return fp, fn * (scale := read(self.positive)), tp * scale, tn

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
    """The decision that is expected to cost less, by the costs of the row."""

    costs: CostColumns
    abstain: float | None = None
    """The cost of leaving a row open; None where only rows with unknown costs are left open."""

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
        """The decision of each action, None for none, and its reason; `classes` in the order of the class index."""
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
    prob: FloatArray,
    fp: FloatArray | float,
    fn: FloatArray | float,
    tp: FloatArray | float,
    tn: FloatArray | float,
    *,
    abstain: float | None,
) -> IntArray:
    """0 for no and 2 for yes, whichever is expected to cost less; 1 where both are expected to cost over `abstain`."""
    action = 2 * (prob * (fn - tp) > (1.0 - prob) * (fp - tn)).astype(np.int64)
    if abstain is not None:
        least = np.minimum(prob * tp + (1.0 - prob) * fp, prob * fn + (1.0 - prob) * tn)
        action[least > abstain] = 1
    return action
