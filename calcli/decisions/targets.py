"""Thresholds from targets that hold on new rows: Learn then Test (Angelopoulos, Bates, Candes, Jordan and Lei 2021).

The consequences of a threshold are four counts, and people set targets for rates of these.

For each threshold of a grid the exact binomial test asks whether the labelled rows refute that the rate misses its
target. The order of the tests, and which thresholds there are, follow from the probabilities alone, so that the
fallback procedure (Wiens and Dmitrienko 2005) keeps the chance that any threshold is passed wrongly below
1 - confidence. The probabilities must not have been fitted on these rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, Self, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray
from calcli.errors import UsageError
from calcli.numeric.binomial import exact_interval
from calcli.state import Json

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
        hits, of = (np.array([getattr(counts, name) for name in names]).sum(axis=0) for names in (self.hits, self.of))
        return hits, of

    def rows(self, yes: Mask, positive: Mask) -> tuple[Mask, Mask]:
        """The rows that are hits, and the rows that the rate is about."""
        kinds = {"tp": yes & positive, "fp": yes & ~positive, "fn": ~yes & positive, "tn": ~yes & ~positive}
        hit, of = (np.logical_or.reduce([kinds[name] for name in names]) for names in (self.hits, self.of))
        return hit, of


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
    """The counts at thresholds, and what they are worth as evidence."""

    thresholds: FloatArray
    counts: Counts
    squares: Counts
    """The sums of squared weights: rows of weight w are worth (sum w)^2 / sum w^2 rows of one weight."""

    effects: Mapping[str, FloatArray]
    """The design effect (Kish) of each rate: how many rows of a unit say as much as one row of a unit of its own; 1
    where rows stand for themselves.
    """

    def worth(
        self, name: str, expected: Decided | None = None, value: float | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """The hits and rows of a rate, as the number of independent rows of one weight that say as much.

        Then exact binomial bounds are those of Korn and Graubard (1998), whose number r (1 - r) / var(r) is at most
        Kish's; without weights and units they are exact. Where hits are few, the weights of hits to come are not those
        of the hits seen: a test of the rate `value` takes the variance there, and from what is `expected` how large
        weights may be.
        """
        hits, of = RATES[name].sums(self.counts)
        rate = np.divide(hits, of, out=np.zeros_like(of), where=of > 0)
        sizes, alone = self._sizes(name), self.alone(name)
        if expected is not None:
            sizes = np.array([_nearest(each) for each in np.maximum(sizes, expected._sizes(name))])
        r = rate if value is None else value
        chance = (1.0 - r) * sizes[0] + r * sizes[1]
        rows = np.divide(of, chance, out=alone.copy(), where=chance > 0)
        rows = (rows if value is not None else np.minimum(rows, alone)) / self.effects[name]
        return rate * rows, rows

    def _sizes(self, name: str) -> FloatArray:
        """The sum of w^2 over that of w, of the hits and of the other rows that the rate is about."""
        (hits, of), (of_hits, of_all) = (RATES[name].sums(counts) for counts in (self.counts, self.squares))
        sums, squares = np.stack([hits, of - hits]), np.stack([of_hits, of_all - of_hits])
        return np.divide(squares, sums, out=np.zeros_like(sums), where=sums > 1e-12 * of)

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


def _nearest(sizes: FloatArray) -> FloatArray:
    """The sizes; where there are no such rows, at the first or the last thresholds, those of the nearest ones."""
    known = np.flatnonzero(sizes)
    return np.interp(np.arange(len(sizes)), known, sizes[known]) if len(known) else sizes


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
) -> Decided:
    """The counts that the probabilities lead to expect: each row is positive by its probability.

    `score` is what the thresholds are of, where that is not the probability.
    """
    mass = np.ones(len(prob)) if weight is None else weight
    labels, twice = np.repeat([1, 0], len(prob)), np.tile(prob if score is None else score, 2)
    counts, squares = (
        decided(twice, labels, thresholds, np.concatenate([each * prob, each * (1.0 - prob)]), rates=()).counts
        for each in (mass, np.square(mass))
    )
    return Decided(thresholds, counts, squares, {name: np.ones(len(thresholds)) for name in RATES})


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


Relation = Literal[">=", "<="]

EASIEST = 0.7
"""The share of the error that is spent on the threshold at which, as the probabilities say, the target is the easiest
to show."""

FEW_ERRORS = 4
"""The rest is spent on the largest threshold with enough yeses to show the target in spite of this many errors,
whatever the probabilities are worth."""

_SIDES: dict[str, tuple[Relation, ...]] = {
    "precision": (">=",),
    "recall": (">=",),
    "accuracy": (">=",),
    "fpr": ("<=",),
    "positive-rate": ("<=", ">="),
}
"""The directions in which a target may be set for each rate."""


@dataclass(frozen=True, slots=True)
class Target:
    """``precision >= 0.9``: what a rate must be, with which confidence.

    ``error`` is the rate of errors among the rows that a policy decides, which only policies promise.
    """

    rate: str
    relation: Relation
    value: float
    confidence: float = 0.95

    @classmethod
    def parse(cls, text: str, confidence: float) -> Self:
        """The target that the command line names."""
        found = re.fullmatch(r"\s*([a-z-]+)\s*(>=|<=)\s*([0-9.eE+-]+)\s*", text)
        if found is None or found[1] not in RATES:
            rates = ", ".join(f"{name} {' or '.join(sides)}" for name, sides in _SIDES.items())
            raise UsageError(
                f"--target {text!r}: give a rate, >= or <=, and a number, such as 'precision >= 0.9'",
                hint=f"rates: {rates}",
            )
        if found[2] not in _SIDES[found[1]]:
            hint = f"try: '{found[1]} {_SIDES[found[1]][0]} {found[3]}'"
            raise UsageError(f"--target {text!r}: {found[1]} is wanted the other way round", hint=hint)
        try:
            value = float(found[3])
        except ValueError:
            value = math.nan
        if not 0.0 < value < 1.0:
            raise UsageError(f"--target {text!r}: {found[3]} does not lie between 0 and 1")
        return cls(found[1], cast("Relation", found[2]), value, confidence)

    def __str__(self) -> str:
        return f"{self.rate} {self.relation} {self.value:g}"

    def to_json(self) -> dict[str, Json]:
        return asdict(self)

    @classmethod
    def from_json(cls, written: dict[str, Any]) -> Self:
        if written["rate"] not in (*RATES, "error") or written["relation"] not in get_args(Relation):
            raise ValueError(f"{written!r} is no target")
        return cls(written["rate"], written["relation"], float(written["value"]), float(written["confidence"]))

    def missed(self, hits: FloatArray, rows: FloatArray) -> FloatArray:
        """The p-value of the rows, if the rate were just on the wrong side of the target."""
        return _tail(hits, rows, self.value, upper=self.relation == ">=")

    def kept(self, hits: float, rows: float) -> float:
        """The p-value of new rows, if the rate were just on the right side: small where the promise is broken."""
        return float(_tail(np.array([hits]), np.array([rows]), self.value, upper=self.relation == "<=")[0])

    def bound(self, hits: float, rows: float) -> float:
        """The worst value of the rate, with the confidence of the target."""
        lo, hi = exact_interval(hits, rows, 2.0 * self.confidence - 1.0) if rows > 0 else (0.0, 1.0)
        return lo if self.relation == ">=" else hi


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of the tests."""

    place: int | None
    """The place of the threshold that was chosen; None where none passed."""

    best: int
    """The place of the threshold that was chosen, or else of the one whose bound comes nearest to the target."""

    passed: tuple[int, ...]
    """The places of all thresholds that passed, any of which may be chosen: all of their tests hold at once."""

    without: int | None
    """The place of the threshold that would be chosen if these rows were all rows: it shows what confidence costs."""


def _tail(hits: FloatArray, rows: FloatArray, rate: float, *, upper: bool) -> FloatArray:
    """The probability of as many hits or more (or less), by the incomplete beta function; 1 where there are no rows."""
    from scipy.special import betainc

    if not upper:
        return _tail(rows - hits, rows, 1.0 - rate, upper=True)
    tail = np.ones(len(hits))
    some = hits > 0
    tail[some] = betainc(hits[some], rows[some] - hits[some] + 1.0, rate)
    return tail


def certify(target: Target, rows: Decided, expected: Decided) -> Passed:
    """Choose among the thresholds of a grid, at which the labelled `rows` and the `expected` counts were taken."""
    hits, worth = rows.worth(target.rate, expected, target.value)
    p = target.missed(hits, worth)
    order, spent = _sequence(target, expected, rows.alone(target.rate))
    passed = np.zeros(len(p), dtype=np.bool_)
    carried = 0.0
    for place in order:
        level = carried + spent[place] * (1.0 - target.confidence)
        passed[place] = level > 0.0 and p[place] <= level
        carried = level if passed[place] else 0.0
    rates = np.divide(hits, worth, out=np.full(len(hits), math.nan), where=worth > 0)
    sign = 1.0 if target.relation == ">=" else -1.0
    holds = sign * (rates - target.value) >= 0.0
    place = _chosen(target, passed, rates)
    if place is None:
        bounds = [target.bound(*pair) for pair in zip(hits.tolist(), worth.tolist(), strict=True)]
        return Passed(None, int(np.argmax(sign * np.array(bounds))), (), None)
    return Passed(place, place, tuple(np.flatnonzero(passed).tolist()), _chosen(target, holds, rates))


def _sequence(target: Target, expected: Decided, rows: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """The order of the tests, and which share of the error each threshold has of its own.

    `rows` is how many the rate is about, which for precision and accuracy no label decides.
    """
    count = len(expected.thresholds)
    rising = np.arange(count)
    spent = np.zeros(count)
    if target.rate not in ("precision", "accuracy"):
        # The rate falls as the threshold rises: from where the target is the easiest to show, which is the safe end
        # unless rows are much heavier there, thresholds are tested towards the other end until one fails.
        order = rising if target.relation == ">=" else rising[::-1]
        first = int(target.missed(*expected.worth(target.rate, expected, target.value))[order].argmin())
        order = np.concatenate([order[first:], order[:first][::-1]])
        spent[order[0]] = 1.0
        return order, spent
    hits, of = RATES[target.rate].sums(expected.counts)
    surprise = (np.divide(hits, of, out=np.zeros_like(of), where=of > 0) - target.value) * np.sqrt(rows)
    if target.rate == "accuracy":
        order = np.argsort(-surprise, kind="stable")
        spent[order[0]] = 1.0
        return order, spent
    easiest = int(surprise.argmax())
    spent[easiest] = EASIEST
    enough = target.missed(rows - FEW_ERRORS, rows) <= (1.0 - EASIEST) * (1.0 - target.confidence)
    spent[np.flatnonzero(enough)[-1] if enough.any() else easiest] += 1.0 - EASIEST
    return rising[::-1], spent


def _chosen(target: Target, passed: NDArray[np.bool_], rates: FloatArray) -> int | None:
    """The threshold with the most yeses among those that pass, or the fewest where few are wanted."""
    places = np.flatnonzero(passed)
    if not len(places):
        return None
    if target.rate == "accuracy":
        return int(places[rates[places].argmax()])
    fewest = target.rate == "recall" or (target.rate, target.relation) == ("positive-rate", ">=")
    return int(places[-1] if fewest else places[0])


def budget_threshold(prob: FloatArray, budget: int, confidence: float) -> float:
    """The least threshold that at most `budget` of as many new rows reach, with this confidence.

    Of n rows the j-th largest probability is exceeded by a share of all rows with the distribution Beta(j, n + 1 - j),
    so that the number of new rows that reach it is beta-binomial, whatever the distribution of the probabilities is.
    """
    from scipy.stats import betabinom

    falling, rows = np.sort(prob)[::-1], len(prob)
    if budget >= rows:
        raise UsageError(f"--budget {budget:,} is no limit for {rows:,} rows", hint="leave it out, or name fewer")
    few, many = 0, budget + 1  # few rows are within the budget, many are not
    while many - few > 1:
        middle = (few + many) // 2
        within = betabinom.cdf(budget, rows, middle, rows + 1 - middle) >= confidence
        few, many = (middle, many) if within else (few, middle)
    above = falling[few]  # the next probability: all that are larger, and no tie with it, may pass
    larger = falling[:few][falling[:few] > above]
    return float(larger[-1]) if len(larger) else NEVER
