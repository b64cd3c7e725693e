"""Split conformal prediction: sets of classes, and intervals of numbers, that hold the truth at a chosen level.

Each held-out row has a score that says how badly a candidate fits its prediction. The threshold is the quantile
ceil((n + 1) level) / n of the scores of the true labels, and what is predicted for a new row are all candidates whose
score is at most the threshold (Vovk, Gammerman and Shafer 2005; Lei et al. 2018). If the new row and the n held-out
ones are exchangeable, it holds the truth with probability `level` or more; given the held-out rows, the coverage of
scores without ties is Beta(k, n + 1 - k), k = ceil((n + 1) level). Where k > n the threshold is infinite: then all
candidates are predicted. So the coverage is `level` on average over sets of held-out rows, and below it for nearly half
of them. With a `confidence`, k is the least for which the coverage is below `level` for no more than 1 - confidence of
them (Vovk 2012).

A threshold may belong to a group of rows, to a class, or to both (Mondrian): the promise then holds in each of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, get_args

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.decisions.targets import Mask
from calcli.numeric.bins import totals
from calcli.state import Json

SetScore: TypeAlias = Literal["lac", "aps", "aps-randomised"]
Side: TypeAlias = Literal["both", "lower", "upper"]

ROUNDING = 1e-12
"""A share of the mass that rounding may cost: 0.07 of 100 rows are 7, not the next number after it."""

SLACK = 1e-12
"""The most by which a score may exceed its threshold, which is a score too: so the last digit of a probability decides
no row, wherever it is computed. Larger sets keep the promise."""

_MULTIPLIERS = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
"""The constants of splitmix64 (Steele, Lea and Flood 2014)."""


def conformal_quantile(
    score: FloatArray,
    level: float,
    weight: FloatArray | None = None,
    unit: IntArray | None = None,
    confidence: float | None = None,
) -> float:
    """The least score with a share `level` of the mass at or below it, a new row's mass lying at infinity.

    Without weights a row has the mass 1, which gives the ceil((n + 1) level)-th score. With weights, the new row is
    thought to weigh as much as the heaviest of these: the threshold then holds for each that weighs no more
    (Tibshirani et al. 2019). With units, a row has its share of the unit's mass 1, and the new row is one of a new unit
    (Lee, Barber and Willett 2023, theorem 1). The confidence is exact for rows, and nearly so for their effective
    number, (sum of masses)^2 / sum of squares, and for units.
    """
    mass = np.ones(len(score)) if weight is None else weight
    if unit is not None:
        _, place = np.unique(unit, return_inverse=True)
        whole = totals(place, mass)[place]
        mass = np.divide(mass, whole, out=np.zeros_like(whole), where=whole > 0)
    total = float(mass.sum())
    if not total > 0:
        return math.inf
    new = 1.0 if unit is not None else float(mass.max())
    if confidence is not None:
        level = _raised(level, confidence, total if unit is not None else total**2 / float(np.square(mass).sum()))
    order = np.argsort(score, kind="stable")
    at = int(np.searchsorted(np.cumsum(mass[order]), level * (total + new) - ROUNDING * total))
    return float(score[order[at]]) if at < len(score) else math.inf


def _raised(level: float, confidence: float, rows: float) -> float:
    """The share k / (rows + 1) whose coverage is below `level` with a probability of 1 - confidence at most.

    That P(Beta(k, n + 1 - k) < level) is P(Binomial(n, level) >= k).
    """
    from scipy.stats import binom

    n = round(rows)
    return float(binom.ppf(confidence, n, level) + 1.0) / (n + 1.0)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Conformal quantiles."""

    level: float
    """The probability with which the truth is held."""

    confidence: float | None
    """The probability that the level is reached; None where it is reached on average."""

    values: tuple[tuple[float, ...], ...]
    """By group, then by class; one group and one class where nothing is told apart. Infinite where there were too few
    rows.
    """

    rows: tuple[tuple[int, ...], ...]
    """The number of held-out rows behind each quantile."""

    @classmethod
    def of(
        cls,
        score: FloatArray,
        level: float,
        *,
        confidence: float | None = None,
        group: IntArray | None = None,
        kind: IntArray | None = None,
        kinds: int = 1,
        weight: FloatArray | None = None,
        unit: IntArray | None = None,
    ) -> Thresholds:
        """The quantiles of these scores, told apart by group (0, 1, ..) and by kind, which is the class."""
        groups = 1 if group is None else int(group.max(initial=-1)) + 1
        cell = np.zeros(len(score), dtype=np.int64)
        cell += 0 if group is None else group * kinds
        cell += 0 if kind is None else kind
        rows = np.bincount(cell, minlength=groups * kinds)
        parts = np.split(np.argsort(cell, kind="stable"), np.cumsum(rows)[:-1])
        values = [
            conformal_quantile(
                score[part],
                level,
                None if weight is None else weight[part],
                None if unit is None else unit[part],
                confidence,
            )
            for part in parts
        ]
        shape = (groups, kinds)
        return cls(level, confidence, _nested(np.reshape(values, shape)), _nested(rows.reshape(shape)))

    @property
    def unseen(self) -> tuple[float, ...]:
        """The thresholds of a group without held-out rows: the largest finite one of any group, by class."""
        columns = zip(*self.values, strict=True)
        return tuple(max((value for value in column if value < math.inf), default=math.inf) for column in columns)

    def at(self, rows: int, group: IntArray | None = None) -> FloatArray:
        """The thresholds of each row, shape (rows, classes or 1); groups that are not known are `unseen`."""
        if group is None:
            group = np.full(rows, -1, dtype=np.int64)
        table = np.array([*self.values, self.unseen], dtype=np.float64)
        known = (group >= 0) & (group < len(self.values))
        return table[np.where(known, group, len(self.values))]

    def shortage(self, result: str) -> str:
        """The end of a sentence, with the result where there are too few rows for a finite threshold."""
        needed, fewest = rows_needed(self.level, self.confidence), min(map(min, self.rows))
        return "" if fewest >= needed else f"; where there are fewer than {needed} rows (here {fewest}), {result}"

    def to_json(self) -> dict[str, Json]:
        """Infinite thresholds are null."""
        values = [[value if value < math.inf else None for value in row] for row in self.values]
        rows = [list(row) for row in self.rows]
        written = {"level": self.level, "confidence": self.confidence, "values": values, "rows": rows}
        return cast("dict[str, Json]", written)

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> Thresholds:
        values = (tuple(math.inf if one is None else float(one) for one in row) for row in written["values"])
        rows = (tuple(int(one) for one in row) for row in written["rows"])
        sure = written["confidence"]
        return cls(float(written["level"]), None if sure is None else float(sure), tuple(values), tuple(rows))


def of_classes(prob: FloatArray) -> FloatArray:
    """The probability of each class, shape (n, K), also where `prob` is that of the second of two, shape (n,)."""
    return prob if prob.ndim > 1 else np.column_stack([1.0 - prob, prob])


def rows_needed(level: float, confidence: float | None = None) -> int:
    """The fewest held-out rows that give a finite threshold."""
    needed = level / (1.0 - level) if confidence is None else math.log(1.0 - confidence) / math.log(level)
    return math.ceil(needed * (1.0 - ROUNDING))


class HeldOut(TypedDict, total=False):
    """The confidence of thresholds, and the groups, weights and units of the rows behind them, as `Thresholds.of`."""

    confidence: float | None
    group: IntArray | None
    weight: FloatArray | None
    unit: IntArray | None


@dataclass(frozen=True, slots=True)
class PredictionSets:
    """Sets of classes."""

    score: SetScore
    """``lac``: 1 - the probability of the class, which gives the smallest sets (Sadinle, Lei and Wasserman 2019).
    ``aps``: the probability of the class and of all that are likelier, which adapts to rows that are hard (Romano,
    Sesia and Candes 2020). ``aps-randomised``: of the class itself only a random part, for smaller sets.
    """

    thresholds: Thresholds

    @classmethod
    def fit(
        cls,
        prob: FloatArray,
        label: IntArray,
        level: float,
        *,
        score: SetScore = "lac",
        by_class: bool = False,
        **rows: Unpack[HeldOut],
    ) -> PredictionSets:
        """Fit on held-out rows: probabilities (n, K), or (n,) of the positive class, and the true classes."""
        scores = set_scores(prob, score)
        kind, kinds = (label, scores.shape[1]) if by_class else (None, 1)
        true = scores[np.arange(len(label)), label]
        return cls(score, Thresholds.of(true, level, kind=kind, kinds=kinds, **rows))

    def predict(self, prob: FloatArray, group: IntArray | None = None) -> Mask:
        """The classes in the set of each row, shape (n, K).

        A set may be empty: then no class is as likely as the true one mostly is.
        """
        return set_scores(prob, self.score) <= self.thresholds.at(len(prob), group) + SLACK

    def to_json(self) -> dict[str, Json]:
        return {"score": self.score, "thresholds": self.thresholds.to_json()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> PredictionSets:
        return cls(_one_of(written["score"], get_args(SetScore)), Thresholds.from_json(written["thresholds"]))


def set_scores(prob: FloatArray, score: SetScore) -> FloatArray:
    """The misfit of each class to each row, shape (n, K)."""
    prob = of_classes(prob)
    if score == "lac":
        return 1.0 - prob
    # From the least likely class upward, so that it has the score 1 exactly; classes that tie share theirs.
    order = np.argsort(prob, axis=1, kind="stable")
    rising = np.take_along_axis(prob, order, axis=1)
    below = np.cumsum(rising, axis=1) - rising
    first = np.where(np.diff(rising, axis=1, prepend=-1.0) > 0, np.arange(prob.shape[1]), 0)
    below = np.take_along_axis(below, np.maximum.accumulate(first, axis=1), axis=1)
    scores = np.empty_like(below)
    np.put_along_axis(scores, order, 1.0 - below, axis=1)
    return scores if score == "aps" else scores - (1.0 - row_uniforms(prob)[:, None]) * prob


def row_uniforms(prob: FloatArray) -> FloatArray:
    """A number from [0, 1) for each row, made of the bits of its probabilities.

    So a row's set does not depend on the rows beside it, nor on a seed; rows of equal probabilities share the number,
    which leaves the score a function of the row and the promise as it is.
    """
    add, *mix = (np.uint64(one) for one in _MULTIPLIERS)
    state = np.zeros(len(prob), dtype=np.uint64)
    for column in np.ascontiguousarray(prob.T):
        state = (state ^ column.view(np.uint64)) + add
        state = (state ^ (state >> np.uint64(30))) * mix[0]
        state = (state ^ (state >> np.uint64(27))) * mix[1]
        state ^= state >> np.uint64(31)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(frozen=True, slots=True)
class PredictionIntervals:
    """Intervals of numbers, [lower - q spread, upper + q spread] with the threshold q.

    `lower` and `upper` are one prediction (absolute residuals), or two predicted quantiles (CQR: Romano, Patterson and
    Candes 2019), which the interval may narrow too; `spread` is 1, or the predicted standard deviation (normalised).
    """

    side: Side
    """``lower``: the interval has no upper end, and the truth is above its lower end at the level; ``upper`` likewise.
    """

    thresholds: Thresholds

    @classmethod
    def fit(
        cls,
        truth: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        level: float,
        *,
        spread: FloatArray | None = None,
        side: Side = "both",
        **rows: Unpack[HeldOut],
    ) -> PredictionIntervals:
        """Fit on held-out rows: the numbers that came true, and the predictions."""
        misses = {"lower": lower - truth, "upper": truth - upper}
        miss = misses.get(side, np.maximum(*misses.values()))
        if spread is not None:
            sure = spread <= 0.0  # no threshold moves the interval of such a row, which is right or not
            miss = np.where(sure, np.where(miss > 0.0, math.inf, 0.0), miss / np.where(sure, 1.0, spread))
        return cls(side, Thresholds.of(miss, level, **rows))

    def predict(
        self,
        lower: FloatArray,
        upper: FloatArray,
        *,
        spread: FloatArray | None = None,
        group: IntArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """The ends of each row's interval, infinite where there is none; ends that would cross meet halfway."""
        threshold = self.thresholds.at(len(lower), group)[:, 0]
        reach = threshold if spread is None else threshold * np.where(np.isinf(threshold), 1.0, spread)
        lo, hi = lower - reach, upper + reach
        crossed = lo > hi
        lo[crossed] = hi[crossed] = (lo[crossed] + hi[crossed]) / 2.0
        endless = np.full(len(lower), math.inf)
        return (-endless, hi) if self.side == "upper" else (lo, endless) if self.side == "lower" else (lo, hi)

    def to_json(self) -> dict[str, Json]:
        return {"side": self.side, "thresholds": self.thresholds.to_json()}

    @classmethod
    def from_json(cls, written: Mapping[str, Any]) -> PredictionIntervals:
        return cls(_one_of(written["side"], get_args(Side)), Thresholds.from_json(written["thresholds"]))


def _nested(table: NDArray[Any]) -> tuple[tuple[Any, ...], ...]:
    return tuple(map(tuple, table.tolist()))


def _one_of(word: object, known: tuple[str, ...]) -> Any:
    if word not in known:
        raise ValueError(f"{word!r} is none of {', '.join(known)}")
    return word
