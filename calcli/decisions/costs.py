"""Thresholds from costs: the one that calibrated probabilities imply, and the one that costs least on labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.decisions.rates import NEVER, decided
from calcli.errors import UsageError
from calcli.numeric.seeded import Split, column_keys, stream

Decisions = NDArray[np.bool_]

CHUNK = 20
"""Replicates that are drawn at a time."""

BLOCKS = 20_000
"""More rows than this, if they differ, are drawn in so many blocks of random rows: the error of a mean is then known to
half a per cent, which is less than what a thousand replicates leave open."""


_NAMES = ("fp", "fn", "tp", "tn")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a row costs by decision and truth: a false alarm, a miss, and the two right decisions.

    Each is a number, or an array where each row has costs of its own.
    """

    fp: FloatArray | float
    fn: FloatArray | float
    tp: FloatArray | float = 0.0
    tn: FloatArray | float = 0.0

    def __post_init__(self) -> None:
        for name in _NAMES:
            cost = np.asarray(getattr(self, name))
            if (bad := ~(np.isfinite(cost) & (cost >= 0.0))).any():
                hint = "a gain is the cost of missing it: add it to the other decision"
                raise UsageError(f"--cost-{name} {cost[bad].min():g}: a cost is 0 or more", hint=hint)
        for wrong, right in (("fp", "tn"), ("fn", "tp")):
            if (np.asarray(getattr(self, wrong)) < getattr(self, right)).any():
                raise UsageError(f"--cost-{wrong} is less than --cost-{right}: errors cost no less than what is right")
        stakes = np.asarray(self.false_alarm + self.miss)
        if stakes.size and not stakes.any():
            raise UsageError("all decisions cost the same, so that no threshold is better", hint="see: --cost-fn")

    @property
    def false_alarm(self) -> FloatArray | float:
        """What saying yes to a negative row costs more than saying no."""
        return self.fp - self.tn

    @property
    def miss(self) -> FloatArray | float:
        """What saying no to a positive row costs more than saying yes."""
        return self.fn - self.tp

    @property
    def threshold(self) -> float:
        """The probability from which yes is expected to cost no more than no (Elkan 2001, equation 2).

        Of rows with costs of their own it is that of their mean costs.
        """
        false_alarm, miss = float(np.mean(self.false_alarm)), float(np.mean(self.miss))
        return false_alarm / (false_alarm + miss)

    def arrays(self, rows: int) -> list[FloatArray]:
        """The four costs of each row."""
        return [np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), (rows,)) for name in _NAMES]

    def taken(self, rows: Decisions) -> Costs:
        """Those of some rows."""
        parts = (getattr(self, name) for name in _NAMES)
        return Costs(*(part[rows] if isinstance(part, np.ndarray) else part for part in parts))

    def of_rows(self, label: LabelArray, yes: Decisions) -> FloatArray:
        """What each row costs."""
        cost: FloatArray = np.where(label > 0, np.where(yes, self.tp, self.fn), np.where(yes, self.fp, self.tn)).astype(
            np.float64
        )
        return cost

    def at_thresholds(
        self, prob: FloatArray, label: LabelArray, thresholds: FloatArray, weight: FloatArray | None
    ) -> FloatArray:
        """What a row costs on average, at each of the rising thresholds."""
        mass = np.ones(len(prob)) if weight is None else weight
        paid = np.zeros(len(thresholds))
        for name in _NAMES:
            each = decided(prob, label, thresholds, mass * getattr(self, name), rates=()).counts
            paid += getattr(each, name)
        average: FloatArray = paid / float(mass.sum())
        return average

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
) -> Decisions:
    """Each row decided by the best threshold of other rows."""
    yes = np.zeros(len(prob), dtype=np.bool_)
    for train, test in splits:
        weight = None if mass is None else mass[train]
        threshold = costs.taken(train).best_threshold(prob[train], label[train], weight)
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
