"""Metrics of the order of the scores, and of the class that they predict.

Uncertainty is a ranking too: it tells which rows to reject, wrong predictions and rows from out of the domain. Its
numbers (Malinin et al. 2021, section 5) are exact: tied rows get the mid-rank, which is what the mean over all
orders of them would give, and weights count as rows.

A rejection curve is the mean loss of the rows that are accepted when the most uncertain ones are rejected. A row is
rejected by any uncertainty, or by u = 1 - p of the predicted class with the loss 1 for a wrong prediction: then either
a share of the rows is rejected, or all rows whose uncertainty on a scale from 0 (certain) to 1 (no idea),
u / (1 - 1/K), is above a threshold (CCL paper, 4.2). Of equally uncertain rows equal parts are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray, spans
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import ByProblem, OfProblems, RowMean, of_ties
from calcli.metrics.paired import Z975
from calcli.metrics.tied import TiedScores, cumulated, dot
from calcli.numeric.binomial import score_interval
from calcli.numeric.bins import run_starts, totals, weight_below
from calcli.numeric.links import drawn_in, scores

WITHIN_FOLDS = "within each held-out fold"
NO_ORDER = "the loss is the same in every row: there is nothing to reject first"
_ONE_CLASS = "the rows are all of one class"


def over_folds(
    scored: Scored, value: Callable[[Scored], float | None], share: Callable[[Scored], float]
) -> float | None:
    """The mean over folds of a metric of the order, weighted by a share; folds without the metric are left out."""
    if scored.folds is None:
        return value(scored)
    known = [(share(part), one) for part in scored.each_fold() if len(part) and (one := value(part)) is not None]
    total = math.fsum(weight for weight, _ in known)
    return math.fsum(weight * one for weight, one in known) / total if total > 0 else None


def positives(scored: Scored) -> float:
    """The weight of the positive rows."""
    return scored.sum_of(lambda part: part.label.astype(np.float64))


def pairs(scored: Scored) -> float:
    """The weight of the pairs of a positive and a negative row."""
    high = positives(scored)
    return high * (scored.total_weight - high)


def binary_auc(scored: Scored) -> float | None:
    """The area for two classes, or None where one of them is absent."""
    if scored.weight is None:
        return _counted(scored.prob, scored.label)
    return _weighed(scored, scored.weight)


def _counted(prob: FloatArray, label: LabelArray) -> float | None:
    """The area from counts of pairs, in integers, so that it is exact.

    Each row is one integer: the bits of its probability, which rise with it, and below them its label. Sorting these
    is several times faster than ordering rows by a float, and puts the negative rows of a tie before the positive.
    """
    if prob.max(initial=0.0) > 1.0:  # odds: the bits of numbers from 2 on leave no room for the label
        prob = np.sqrt(prob) * 2.0**-512
    keys: IntArray = prob.view(np.int64) << 1  # this also drops the sign of a negative zero
    keys |= label
    keys.sort()
    positive = places = ties = 0
    for some in spans(len(keys)):
        label = keys[some] & 1
        count = int(label.sum())
        positive += count
        places += int(label @ np.arange(len(label))) + some.start * count
        ties += _ties(keys, some)
    negative = len(keys) - positive
    if not positive or not negative:
        return None
    # The j-th positive row stands at place i, so i - j negative rows come before it. Those that tie with it count half.
    before = places - positive * (positive - 1) // 2
    return (2 * before - ties) / (2 * positive * negative)


def _ties(keys: IntArray, some: slice) -> int:
    """The number of pairs of both labels that share a value, of values whose last negative row is among `some`."""
    pair = keys[some.start : some.stop + 1]
    mixed = some.start + np.flatnonzero(pair[1:] - pair[:-1] == 1)  # from 2 v + 0 to 2 v + 1
    mixed = mixed[keys[mixed] & 1 == 0]
    if not len(mixed):
        return 0
    first = np.searchsorted(keys, keys[mixed], side="left")
    last = np.searchsorted(keys, keys[mixed] + 1, side="right")
    return int(((mixed + 1 - first) * (last - mixed - 1)).sum())


def _weighed(scored: Scored, weight: FloatArray) -> float | None:
    """The area from sums of products of weights, tied rows together."""
    area = positive = negative = 0.0
    for low, high in _tied(scored, weight):
        area += dot(high, negative + np.cumsum(low) - low / 2.0)
        positive, negative = positive + float(high.sum()), negative + float(low.sum())
    return area / (positive * negative) if positive > 0 and negative > 0 else None


def _tied(scored: Scored, weight: FloatArray) -> Iterator[tuple[FloatArray, FloatArray]]:
    """The weight of negative and of positive rows at each distinct probability, in rising order."""
    last, low, high = np.empty(0), np.empty(0), np.empty(0)
    for some in spans(len(scored)):
        rows = scored.order[some]
        prob = np.concatenate([last, scored.prob[rows]])
        signed = np.where(scored.label[rows] == 1, weight[rows], -weight[rows])
        starts = run_starts(prob)
        low = np.add.reduceat(np.concatenate([low, np.maximum(-signed, 0.0)]), starts)
        high = np.add.reduceat(np.concatenate([high, np.maximum(signed, 0.0)]), starts)
        yield low[:-1], high[:-1]  # more rows may share the last
        last, low, high = prob[-1:], low[-1:], high[-1:]
    yield low, high


CELLS_PER_UNIT = 4096
"""Cells of the log-odds in which rows are counted that are too many to be held."""

_OUTERMOST = math.ceil(float(drawn_in(np.array([750.0]))[0]) * CELLS_PER_UNIT)

CELLS = 2 * _OUTERMOST + 1
"""The number of these cells."""


def cell_of(scored: Scored) -> IntArray:
    """The cell of each row, 0 .. `CELLS` - 1, by log-odds that are drawn in far out; it rises with the score."""
    cell = np.empty(len(scored), dtype=np.int64)
    for some in spans(len(scored)):
        z = scores(scored.prob[some]) if scored.odds is None else drawn_in(np.log(scored.odds[some]))
        cell[some] = np.floor(z * CELLS_PER_UNIT)
    cell += _OUTERMOST
    return cell


class Merged:
    """Cells in rising order, each once, that occur here or there, and sums over them."""

    def __init__(self, cell: IntArray, more: IntArray) -> None:
        together = np.concatenate([cell, more])
        self._order = np.argsort(together, kind="stable")  # two runs that rise are merged in linear time
        together = together[self._order]
        self._first = np.flatnonzero(np.diff(together, prepend=-1))
        self.cell: IntArray = together[self._first]

    def all(self, values: NDArray[Any], more: NDArray[Any], how: np.ufunc = np.add) -> NDArray[Any]:
        """The sum of the last axis over the cells, or what else `how` says."""
        if not len(self.cell):
            return values
        together = np.concatenate([values, more], axis=-1)[..., self._order]
        return np.asarray(how.reduceat(together, self._first, axis=-1))


@dataclass(frozen=True, slots=True)
class Cells:
    """The weight of each class in each cell of the log-odds, fold after fold where there are folds."""

    cell: IntArray
    """Which cells hold rows, rising."""

    positive: FloatArray
    negative: FloatArray
    """`positive`, `negative`: the weight of the rows of either label."""

    lowest: FloatArray
    highest: FloatArray
    """`lowest`, `highest`: the least and the greatest score in the cell if they agree, so that its rows do tie; else
    -inf and inf.
    """

    def __add__(self, other: Cells) -> Cells:
        merged = Merged(self.cell, other.cell)
        positive, negative = (merged.all(getattr(self, one), getattr(other, one)) for one in ("positive", "negative"))
        lowest = merged.all(self.lowest, other.lowest, np.minimum)
        highest = merged.all(self.highest, other.highest, np.maximum)
        return Cells(merged.cell, positive, negative, *_unless_mixed(lowest, highest))

    @classmethod
    def of(cls, scored: Scored) -> Cells:
        cell, ranked = cell_of(scored), scored.ranked.prob
        if scored.folds is not None:
            cell = cell + CELLS * scored.folds.fold_of
        first = int(cell.min()) if len(cell) else 0
        cell -= first
        count = int(cell.max(initial=-1)) + 1
        held = np.flatnonzero(np.bincount(cell, minlength=count))
        lowest, highest = np.full(count, np.inf), np.full(count, -np.inf)
        np.minimum.at(lowest, cell, ranked)
        np.maximum.at(highest, cell, ranked)
        cell += count * scored.label.astype(np.int64, copy=False)
        sums = totals(cell, scored.weight, 2 * count)
        scores_there = _unless_mixed(lowest[held], highest[held])
        return cls(first + held, sums[count + held], sums[held], *scores_there)

    @property
    def mixed(self) -> NDArray[np.bool_]:
        """Whether several scores stand in a cell."""
        return np.asarray(self.lowest < self.highest)

    @property
    def _folds(self) -> Iterator[slice]:
        """The cells of each fold."""
        ends = np.searchsorted(self.cell, np.arange(0, int(self.cell.max(initial=0)) + CELLS, CELLS))
        return (slice(start, end) for start, end in zip(ends, [*ends[1:], len(self.cell)], strict=True))

    @property
    def pairs(self) -> float:
        """The weight of the pairs of a positive and a negative row of one fold."""
        return math.fsum(float(self.positive[fold].sum()) * float(self.negative[fold].sum()) for fold in self._folds)

    @property
    def area(self) -> float | None:
        """The area under the ROC curve, as if the rows of a cell tied."""
        pairs = self.pairs
        if not pairs > 0:
            return None
        areas = (
            dot(self.positive[fold], np.cumsum(self.negative[fold]) - self.negative[fold] / 2.0) for fold in self._folds
        )
        return math.fsum(areas) / pairs

    @property
    def bound(self) -> float:
        """The most that the area may be off by: a pair in one cell counts half, and may have had to count 0 or 1."""
        within = dot(self.positive[self.mixed], self.negative[self.mixed])
        return within / 2.0 / self.pairs if self.pairs > 0 else 0.0


def _unless_mixed(lowest: FloatArray, highest: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends of each cell; those of several scores say nothing more, and are packed into next to nothing."""
    mixed = lowest < highest
    return np.where(mixed, -np.inf, lowest), np.where(mixed, np.inf, highest)


def _in_cells(scores: Sequence[OfProblems[Cells]], options: Options) -> Definition:
    bound = max(part.bound for score in scores for part in score.parts)
    text = f"histogram: log-odds within 1/{CELLS_PER_UNIT} (far out more) count as ties, right to {rounded_up(bound)}"
    if any(part.cell.max(initial=0) >= CELLS for score in scores for part in score.parts):
        text = f"{WITHIN_FOLDS}; {text}"
    return Definition("higher", approximation=text)


def rounded_up(bound: float) -> str:
    """Two digits, none of them too low."""
    unit = 10.0 ** (math.floor(math.log10(bound)) - 1) if bound > 0 else 1.0
    return f"{math.ceil(bound / unit) * unit:.2g}"


AUC_SUMS = ByProblem("macro", lambda one, _: Cells.of(one), lambda cells, _: cells.area, _in_cells, _ONE_CLASS)


def _within_folds(scored: Scored, options: Options) -> Definition:
    return Definition("higher", approximation=None if scored.folds is None else WITHIN_FOLDS)


@of_ties(
    "macro",
    _within_folds,
    _ONE_CLASS,
    of_rows=lambda one, _: over_folds(one.ranked, binary_auc, pairs),
    sums=AUC_SUMS,
    ranked=True,
)
def auc(ties: TiedScores, options: Options) -> float | None:
    """Area under the ROC curve: how often a positive row scores above a negative one, ties counting half.

    With more than two classes, the mean over classes of each one against the rest; classes that do not occur are left
    out. Rows that several calibrators have predicted are compared within each fold.
    """
    negative = ties.weight - ties.positive
    below = np.cumsum(negative)
    pairs = float(ties.positive.sum()) * float(below[-1])
    return dot(ties.positive, below - negative / 2.0) / pairs if pairs > 0 else None


def _rejection_ratio(ties: TiedScores, options: Options) -> float | None:
    area = auc.pooled(ties, options)
    return None if area is None else 200.0 * area - 100.0


prr = of_ties(
    "confidence",
    _within_folds,
    NO_ORDER,
    of_rows=lambda one, options: over_folds(one, lambda part: _rejection_ratio(part.ties, options), pairs),
)(_rejection_ratio)
"""Prediction-rejection ratio of a score by its own uncertainty, 1 - the probability of the predicted class.

The loss is 0 or 1, so that `calcli.metrics.rejection.rejection_ratio` is 200 AUC - 100 of that probability as a score
for being right.
"""


def _average_precision(ties: TiedScores, options: Options) -> float | None:
    positive, weight = np.cumsum(ties.positive[::-1]), np.cumsum(ties.weight[::-1])
    if not positive[-1] > 0:
        return None
    precision = np.divide(positive, weight, out=np.zeros_like(weight), where=weight > 0)
    return dot(precision, ties.positive[::-1]) / float(positive[-1])


def _step_function(scored: Scored, options: Options) -> Definition:
    text = "step function" if scored.folds is None else f"step function, {WITHIN_FOLDS}"
    return Definition("higher", approximation=text)


pr_auc = of_ties(
    "macro",
    _step_function,
    "no row is positive",
    of_rows=lambda one, how: over_folds(one.ranked, lambda part: _average_precision(part.ties, how), positives),
    ranked=True,
)(_average_precision)
"""Average precision: the precision at each threshold, weighted by the recall that the threshold adds.

The area under the precision-recall curve as a step function, as scikit-learn has it: nothing is interpolated. With more
than two classes, the mean over classes one-vs-rest. Rows that several calibrators have predicted are ranked within each
fold, which counts by the weight of its positive rows.
"""


def accuracy_rows(scored: Scored) -> FloatArray:
    """1 where the predicted class is right, 0 elsewhere; where two are equally probable, the first is predicted."""
    predicted = scored.prob > 0.5 if scored.binary else scored.prob.argmax(axis=1)
    return np.asarray(predicted == scored.label, dtype=np.float64)


accuracy = RowMean(accuracy_rows, (Definition("higher", reduction="top label"),) * 2, one_vs_rest=False)
"""How often the most probable class is the right one."""


def rejection_ratio(uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Prediction-rejection ratio: the gain over chance of rejecting by uncertainty, in percent of an oracle's gain.

    Rows are rejected in the order of falling uncertainty and count as right from then on, which leaves the curve
    E(r) = sum of the losses of accepted rows / n. With A the area under it, PRR = 100 (A_random - A) /
    (A_random - A_oracle), the oracle rejecting by the loss itself. A row of mid-rank R leaves at the share
    1 - (R - 1/2)/n, so that PRR = 100 sum l_i (R_i(u) - (n+1)/2) / sum l_i (R_i(l) - (n+1)/2). The loss of a row is 0
    or 1, or the squared error.
    """
    definition = Definition("higher")
    masses = np.ones(len(loss)) if weight is None else weight
    if not masses.sum() > 0:
        return Measured(None, definition, reason="there are no rows")
    half = masses.sum() / 2.0
    weighted_loss = masses * loss
    gain = float((weighted_loss * (weight_below(uncertainty, masses) - half)).sum())
    oracle_gain = float((weighted_loss * (weight_below(loss, masses) - half)).sum())
    if not oracle_gain > 0:
        return Measured(None, definition, reason=NO_ORDER)
    return Measured(100.0 * gain / oracle_gain, definition)


def ood_auc(inside: FloatArray, outside: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Area under the ROC curve of uncertainty as a score for rows from out of the domain, ties counting half.

    `inside` and `outside` are the uncertainty of rows from the domain, which may have weights, and of rows from out of
    it, which all count the same.
    """
    definition = Definition("higher")
    masses = np.ones(len(inside)) if weight is None else weight
    if not masses.sum() > 0 or not len(outside):
        return Measured(None, definition, reason="there are no rows on one side")
    # Rows of weight zero get a rank among the others without counting in it.
    all_masses = np.concatenate([masses, np.zeros(len(outside))])
    below = weight_below(np.concatenate([inside, outside]), all_masses)[len(inside) :]
    return Measured(float(below.mean() / masses.sum()), definition)


RATES = tuple(place / 20 for place in range(20))
THRESHOLDS = tuple(place / 10 for place in range(11))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The rows that are accepted."""

    at: float
    """The share of rows that was rejected, or the threshold."""

    error: float | None
    """The mean loss of the accepted rows, so the share of wrong predictions among them; None without any."""

    n: float
    """Their weight."""

    lo: float | None = None
    hi: float | None = None
    """`lo`, `hi`: wilson's 95 % interval of the share of wrong predictions; rows of uneven weight count as their
    effective number.
    """


def by_rate(scored: Scored, rates: Sequence[float] = RATES) -> tuple[Accepted, ...]:
    """The error when these shares of the rows are rejected."""
    _, *sums = _sums_by_confidence(scored)
    return tuple(_accepted(rate, (1.0 - rate) * sums[0][-1], *sums) for rate in rates)


def by_threshold(scored: Scored, thresholds: Sequence[float] = THRESHOLDS) -> tuple[Accepted, ...]:
    """The error when only rows no more uncertain than the threshold are accepted."""
    uncertainty, *sums = _sums_by_confidence(scored)
    most = 1.0 - 1.0 / scored.classes
    # A threshold of 0.1 must hold p = 0.95, of which 1 - p is a rounding error more than 0.05.
    limits = [threshold * most * (1.0 + 1e-12) + 1e-15 for threshold in thresholds]
    ties = np.searchsorted(uncertainty, limits, side="right")
    return tuple(
        _accepted(threshold, float(sums[0][block]), *sums) for threshold, block in zip(thresholds, ties, strict=True)
    )


def rejection_curve(
    uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None, *, shares: FloatArray
) -> tuple[Accepted, ...]:
    """The mean loss of the accepted rows at each share of the weight rejected; without intervals."""
    each = np.ones(len(loss)) if weight is None else weight
    _, rejected, lost = _cumulated(-uncertainty, each, each * loss)
    total = float(rejected[-1])
    if not total > 0:
        return ()
    means = (float(lost[-1]) - np.interp(shares * total, rejected, lost)).clip(min=0.0)
    return tuple(
        Accepted(float(share), float(mean) / float(left) if left > 0 else None, float(left))
        for share, mean, left in zip(shares, means, total * (1.0 - shares), strict=True)
    )


def _sums_by_confidence(scored: Scored) -> tuple[FloatArray, ...]:
    """1 - p of the predicted class, and over the surest rows the sums of w, of w where wrong, and of w^2."""
    top = scored.prob.max(axis=1) if not scored.binary else np.maximum(scored.prob, 1.0 - scored.prob)
    weight = scored.weights
    return _cumulated(1.0 - top, weight, weight * (1.0 - accuracy_rows(scored)), np.square(weight))


def _cumulated(order: FloatArray, *columns: FloatArray) -> tuple[FloatArray, ...]:
    """The distinct values of `order`, rising, and of each column the sums over the first 0, 1, .. of these values."""
    distinct, block = np.unique(order, return_inverse=True)
    return distinct, *(cumulated(totals(block, column, len(distinct))) for column in columns)


def _accepted(at: float, left: float, weight: FloatArray, wrong: FloatArray, square: FloatArray) -> Accepted:
    """The surest rows of the weight `left`, with Wilson's interval."""
    if not left > 0.0:
        return Accepted(at, None, 0.0)
    error = float(np.interp(left, weight, wrong)) / left
    rows = left**2 / float(np.interp(left, weight, square))
    return Accepted(at, error, left, *score_interval(error, rows, Z975))
