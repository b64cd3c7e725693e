"""Thresholds from targets that hold on new rows: Learn then Test (Angelopoulos, Bates, Candes, Jordan and Lei 2021).

For each threshold of a grid the exact binomial test asks whether the labelled rows refute that the rate misses its
target. The order of the tests, and which thresholds there are, follow from the probabilities alone, so that the
fallback procedure (Wiens and Dmitrienko 2005) keeps the chance that any threshold is passed wrongly below
1 - confidence. The probabilities must not have been fitted on these rows.
"""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.decisions.rates import NEVER, RATES, Counts, Decided
from calcli.errors import UsageError
from calcli.numeric.binomial import exact_interval
from calcli.state import Json

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


def certify(target: Target, rows: Decided, expected: Counts) -> Passed:
    """Choose among the thresholds of a grid.

    Parameters
    ----------
    target
        The target.
    rows
        The labelled rows at these thresholds.
    expected
        What the probabilities lead to expect at the same thresholds.
    """
    hits, worth = rows.worth(target.rate)
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
        return Passed(None, int(np.argmax(sign * np.array(bounds))), None)
    return Passed(place, place, _chosen(target, holds, rates))


def _sequence(target: Target, expected: Counts, rows: FloatArray) -> tuple[NDArray[np.int64], FloatArray]:
    """The order of the tests, and which share of the error each threshold has of its own.

    `rows` is how many the rate is about, which for precision and accuracy no label decides.
    """
    count = len(expected.tp)
    rising = np.arange(count)
    spent = np.zeros(count)
    if target.rate not in ("precision", "accuracy"):
        # The rate falls as the threshold rises: from the safe end on, all thresholds are tested until one fails.
        order = rising if target.relation == ">=" else rising[::-1]
        spent[order[0]] = 1.0
        return order, spent
    hits, of = RATES[target.rate].sums(expected)
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
