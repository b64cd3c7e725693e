"""The consequences of a threshold: the four counts, and the rates of them that people set targets for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.numeric.binomial import exact_interval

Mask: TypeAlias = NDArray[np.bool_]

GRID = 500
"""The thresholds of a grid that part the rows evenly, and as many more part the expected positives."""

GRID_OF_UNITS = 50
"""The size of a grid where rows belong to units, which takes a pass over the rows for each threshold."""

NEVER = float(np.nextafter(1.0, 2.0))
"""A threshold that no probability reaches."""


def shown(threshold: float) -> str:
    """A threshold with six digits."""
    return "1" if threshold == NEVER else f"{threshold:.6g}"


class Counts(NamedTuple):
    """The weight of the rows by decision and truth, at each of some thresholds."""

    tp: FloatArray
    fp: FloatArray
    fn: FloatArray
    tn: FloatArray


@dataclass(frozen=True, slots=True)
class Rate:
    """A share of rows."""

    hits: tuple[str, ...]
    of: tuple[str, ...]
    """`hits`, `of`: the counts that are hits, and the counts of all rows that the rate is about, hits among them."""

    def sums(self, counts: Counts) -> tuple[FloatArray, FloatArray]:
        """The weight of the hits, and that of all rows that the rate is about."""
        return sum_of(counts, self.hits), sum_of(counts, self.of)

    def rows(self, yes: Mask, positive: Mask) -> tuple[Mask, Mask]:
        """The rows that are hits, and the rows that the rate is about."""
        kinds = {"tp": yes & positive, "fp": yes & ~positive, "fn": ~yes & positive, "tn": ~yes & ~positive}
        hit, of = (np.logical_or.reduce([kinds[name] for name in names]) for names in (self.hits, self.of))
        return hit, of


def sum_of(counts: Counts, names: tuple[str, ...]) -> FloatArray:
    """Some of the four counts, added up."""
    total: FloatArray = np.sum([getattr(counts, name) for name in names], axis=0, dtype=np.float64)
    return total


RATES: Mapping[str, Rate] = {
    "precision": Rate(("tp",), ("tp", "fp")),
    "recall": Rate(("tp",), ("tp", "fn")),
    "accuracy": Rate(("tp", "tn"), Counts._fields),
    "fpr": Rate(("fp",), ("fp", "tn")),
    "positive-rate": Rate(("tp", "fp"), Counts._fields),
}
"""The rates by their names on the command line."""


@dataclass(frozen=True, slots=True)
class Decided:
    """The counts at thresholds, and what they are worth as evidence.

    Attributes
    ----------
    squares
        The sums of squared weights: rows of weight w are worth (sum w)^2 / sum w^2 rows of one weight.
    units
        The design effect (Kish) of each rate: how many rows of a unit say as much as one row of a unit of its own; 1
        where rows stand for themselves.
    """

    thresholds: FloatArray
    counts: Counts
    squares: Counts
    effects: Mapping[str, FloatArray]

    def worth(self, name: str) -> tuple[FloatArray, FloatArray]:
        """The hits and rows of a rate, as the number of independent rows of one weight that say as much.

        Then exact binomial bounds are those of Korn and Graubard (1998); without weights and units they are exact.
        """
        hits, of = RATES[name].sums(self.counts)
        rows = self.alone(name) / self.effects[name]
        return np.divide(hits * rows, of, out=np.zeros_like(of), where=of > 0), rows

    def alone(self, name: str) -> FloatArray:
        """The number of rows of one weight that the rows of a rate are worth, if each stands for itself."""
        of, squares = (RATES[name].sums(counts)[1] for counts in (self.counts, self.squares))
        return np.divide(of**2, squares, out=np.zeros_like(of), where=of > 0)

    def at(self, place: int, confidence: float = 0.95) -> dict[str, tuple[float | None, float, float]]:
        """Each rate at one threshold, with its two-sided interval; None where it is of no rows."""
        found: dict[str, tuple[float | None, float, float]] = {}
        for name in RATES:
            hits, rows = (float(each[place]) for each in self.worth(name))
            value = hits / rows if rows > 0 else None
            found[name] = value, *(exact_interval(hits, rows, confidence) if rows > 0 else (0.0, 1.0))
        return found


def decided(
    prob: FloatArray,
    label: LabelArray,
    thresholds: FloatArray,
    weight: FloatArray | None = None,
    unit: IntArray | None = None,
    rates: Collection[str] = tuple(RATES),
) -> Decided:
    """Say yes to the rows whose probability is at least the threshold, for each of the rising thresholds.

    `rates` are those whose worth is asked for.
    """
    passed = np.searchsorted(thresholds, prob, side="right")  # how many thresholds say yes to the row
    cell = passed * 2 + (label > 0)

    def counted(mass: FloatArray | None) -> Counts:
        sums = np.bincount(cell, mass, minlength=2 * len(thresholds) + 2).reshape(-1, 2).astype(np.float64)
        no = np.cumsum(sums, axis=0)[:-1]
        yes = np.cumsum(sums[::-1], axis=0)[-2::-1]
        return Counts(yes[:, 1], yes[:, 0], no[:, 1], no[:, 0])

    counts = counted(weight)
    squares = counts if weight is None else counted(np.square(weight))
    effects = {name: np.ones(len(thresholds)) for name in rates}
    if unit is not None:
        mass = np.ones(len(prob)) if weight is None else weight
        units = np.unique(unit, return_inverse=True)[1]
        for place in range(len(thresholds)):
            for name in rates:
                effects[name][place] = _effect(RATES[name], passed > place, label > 0, mass, units)
    return Decided(thresholds, counts, squares, effects)


def _effect(rate: Rate, yes: Mask, positive: Mask, mass: FloatArray, unit: IntArray) -> float:
    """The variance of a rate with units, over that with the same rows of different units; 1 or more."""
    hit, of = rate.rows(yes, positive)
    weight = np.where(of, mass, 0.0)
    total = float(weight.sum())
    if not total > 0:
        return 1.0
    residual = weight * (hit - float(weight[hit].sum()) / total)
    alone = float(np.square(residual).sum())
    if not alone > 0:  # all rows agree: a unit may be worth no more than one row
        sizes = np.bincount(unit, weight)
        return max(1.0, float(np.square(sizes).sum()) / float(np.square(weight).sum()))
    return max(1.0, float(np.square(np.bincount(unit, residual)).sum()) / alone)


def expected(
    prob: FloatArray, thresholds: FloatArray, weight: FloatArray | None = None, score: FloatArray | None = None
) -> Counts:
    """The counts that the probabilities lead to expect: each row is positive by its probability.

    `score` is what the thresholds are of, where that is not the probability.
    """
    mass = np.ones(len(prob)) if weight is None else weight
    labels = np.repeat([1, 0], len(prob))
    parts = np.concatenate([mass * prob, mass * (1.0 - prob)])
    return decided(np.tile(prob if score is None else score, 2), labels, thresholds, parts).counts


def grid(prob: FloatArray, size: int = GRID) -> FloatArray:
    """Rising thresholds between probabilities that occur; which, depends on no label, so that tests stay exact.

    Between, so that the last digit of a probability decides no row, wherever it is computed.
    """
    order = np.sort(prob)
    if len(order) > 2 * size:
        evenly = np.linspace(0, len(order) - 1, size).astype(np.int64)
        expected = np.cumsum(order)
        among = np.searchsorted(expected, np.linspace(0.0, float(expected[-1]), size))
        order = order[np.unique(np.concatenate([evenly, np.minimum(among, len(order) - 1)]))]
    distinct = np.unique(order)
    return np.concatenate([distinct[:1] / 2.0, (distinct[1:] + distinct[:-1]) / 2.0])
