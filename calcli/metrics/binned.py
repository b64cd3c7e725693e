"""Gaps between prediction and label over bins of the prediction: the expected calibration error and its family.

Bins of equal mass of more rows than are held in memory are cut between the narrow cells of a histogram of the log-odds.
All rows of a cell are in one bin. Where an exact edge lies inside a cell, some of its rows are in the wrong bin. With
S_b the sum of w (p - y) over the rows of a bin, the calibration error is sum |S_b| / sum w. A group of rows with the
sum s that moves from a bin to another changes it by no more than 2 |s| / sum w, and of any rows of a cell s lies
between -sum w (1 - p) over its positive rows and sum w p over its negative ones. The definition of the metric states
this bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.errors import UsageError
from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.conventions import convention
from calcli.metrics.forms import Additive, ByProblem, OfProblems, ProblemMetric, Reduction, of_ties
from calcli.metrics.ranking import CELLS, CELLS_PER_UNIT, Cells, Merged, cell_of, rounded_up
from calcli.metrics.tied import TiedScores
from calcli.numeric import bins
from calcli.numeric.bins import totals
from calcli.state import added

NEARLY_NORMAL = 25.0
"""The variance from which on a binomial's mean deviation is the normal one to within a hundredth."""

UNBINNED = "every row is on the edge that the convention leaves out"


@dataclass(frozen=True, slots=True)
class BinSums:
    """Sums over the rows of each bin. Sums over parts of the rows add up to those over all."""

    weight: FloatArray
    prob: FloatArray
    label: FloatArray
    """`weight`, `prob`, `label`: sums of w, of w p and of w y."""

    noise: FloatArray
    """Sums of w^2 p (1 - p): the variance of that of w y, if the score were calibrated."""

    @classmethod
    def empty(cls, count: int) -> BinSums:
        """The sums over no rows, of `count` bins."""
        return cls(*np.zeros((4, count)))

    __add__ = added

    @property
    def shares(self) -> FloatArray:
        """The share of the weight that each bin holds."""
        shares: FloatArray = self.weight / self.weight.sum()
        return shares

    @property
    def gaps(self) -> FloatArray:
        """|mean p - mean y| of each bin, 0 where it holds nothing."""
        return np.divide(
            np.abs(self.prob - self.label), self.weight, out=np.zeros_like(self.weight), where=self.weight > 0
        )

    def norm(self, norm: float) -> float:
        """The `norm`-mean of the gaps, each bin counting by its weight; the largest gap if it is infinite."""
        if math.isinf(norm):
            return float(self.gaps.max())
        return float((self.shares * self.gaps**norm).sum() ** (1.0 / norm))

    @property
    def floor(self) -> float:
        """The mean gap that a calibrated score would show on these rows, each bin counting by its weight.

        That of a bin of many rows is nearly normal. In one of few it is that of a binomial, whose mean deviation is
        de Moivre's, 2 k C(n, k) p^k (1 - p)^(n - k + 1) with k the first whole number above n p; its p and n are
        those of the mean prediction and of the variance.
        """
        some = (self.weight > 0) & (self.noise > 0)
        weight, p, noise = self.weight[some], self.prob[some] / self.weight[some], self.noise[some]
        p = np.clip(p, 1e-300, 1.0 - 1e-16)
        deviation = np.sqrt(2.0 / math.pi * noise) / weight
        n = p * (1.0 - p) * np.square(weight) / noise
        for place in np.flatnonzero(n * p * (1.0 - p) < NEARLY_NORMAL):
            whole = max(1, round(n[place]))
            deviation[place] = _mean_deviation(whole, p[place]) * math.sqrt(whole / n[place])
        return float((weight * deviation).sum() / self.weight.sum())


def _mean_deviation(n: int, p: float) -> float:
    """The mean of |X/n - p| where X is binomial (de Moivre 1730)."""
    k = min(math.floor(n * p) + 1, n)
    choose = math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
    return 2.0 * k / n * math.exp(choose + k * math.log(p) + (n - k + 1) * math.log1p(-p))


def sums_by(scored: Scored, place: IntArray, count: int) -> BinSums:
    """The sums over the rows of each of `count` bins, given the bin of every row; binary only."""
    of_label = place + count * scored.label  # one pass adds up the negative rows, then the positive ones
    weighted = scored.prob if scored.weight is None else scored.weight * scored.prob
    weight = totals(of_label, scored.weight, 2 * count).reshape(2, count)
    prob = totals(of_label, weighted, 2 * count).reshape(2, count)
    rest = 1.0 - scored.prob if scored.weight is None else scored.weight * (1.0 - scored.prob)
    return BinSums(weight.sum(axis=0), prob.sum(axis=0), weight[1], totals(place, weighted * rest, count))


def binned_sums(scored: Scored, edges: FloatArray, name: str = "sklearn") -> BinSums:
    """The sums over the rows between `edges`, and in the bins that a convention adds to them; binary only."""
    rule, count = convention(name), len(edges) + 1
    total = BinSums.empty(count)
    for part in scored.parts():
        total += sums_by(part, rule.locate(part.prob, edges), count)
    return _without_the_dropped(total, name)


def tied_sums(ties: TiedScores, options: Options) -> BinSums:
    """The sums over bins from ties, between which the edges of equal mass are cut."""
    if options.binning == "mass":
        ties = ties.with_positive_weight
    edges = edges_of(options, ties)
    starts, into = convention(options.convention).runs(ties.prob, edges)
    noise = ties.square * ties.prob * (1.0 - ties.prob)
    columns = (ties.weight, ties.weight * ties.prob, ties.positive, noise)
    sums = np.zeros((4, len(edges) + 1))
    for row, column in enumerate(columns):
        sums[row, into] = np.add.reduceat(column, starts)
    return _without_the_dropped(BinSums(*sums), options.convention)


def _without_the_dropped(sums: BinSums, name: str) -> BinSums:
    """Bin 0 holds the rows that belong to no bin: they have no gap, and may not even count among the rows."""
    kept = np.stack([sums.weight, sums.prob, sums.label, sums.noise])
    kept[1:, 0] = 0.0
    if convention(name).least != "unbinned":
        kept[0, 0] = 0.0
    return BinSums(*kept)


def edges_of(options: Options, ties: TiedScores | None) -> FloatArray:
    """The edges of the bins; those of equal mass are cut between the rows of `ties`, which must all hold some."""
    rule = convention(options.convention)
    count = rule.count(options.bin_count)
    if options.binning == "width" or ties is None:
        return bins.width_edges(count)
    if rule.side == "truncated":
        raise UsageError(f"{options.convention} has no bins of equal mass", hint="try: --convention sklearn")
    return rule.mass_edges(ties, count)


def _sums(scored: Scored, options: Options) -> BinSums:
    """Bins of equal width need no order of the rows."""
    if options.binning == "width":
        return binned_sums(scored, edges_of(options, None), options.convention)
    return tied_sums(scored.ties, options)


def _norm(sums: BinSums, norm: float) -> float | None:
    return sums.norm(norm) if sums.weight.sum() > 0 else None


@dataclass(frozen=True, slots=True)
class EqualMassSums:
    """Sums over the rows of each cell."""

    cells: Cells
    """The weight of the rows by label, and whether a cell has several probabilities."""

    rows: FloatArray
    """How many have a positive weight."""

    prob: FloatArray
    """Sums of w p, of the negative and of the positive rows."""

    square: FloatArray
    """Sums of w^2."""

    heaviest: float
    """The greatest weight of any row."""

    def __add__(self, other: EqualMassSums) -> EqualMassSums:
        merged = Merged(self.cells.cell, other.cells.cell)
        return EqualMassSums(
            self.cells + other.cells,
            merged.all(self.rows, other.rows),
            merged.all(self.prob, other.prob),
            merged.all(self.square, other.square),
            max(self.heaviest, other.heaviest),
        )

    @classmethod
    def of(cls, scored: Scored) -> EqualMassSums:
        weight = scored.weights
        scored = replace(scored, odds=None)
        cell = cell_of(scored)
        of_label = cell + CELLS * scored.label.astype(np.int64, copy=False)
        cells = Cells.of(scored)
        held = cells.cell
        return cls(
            cells,
            totals(cell, (weight > 0).astype(np.float64), CELLS)[held],
            totals(of_label, weight * scored.prob, 2 * CELLS).reshape(2, CELLS)[:, held],
            totals(cell, weight**2, CELLS)[held],
            float(weight.max(initial=0.0)),
        )

    @property
    def ties(self) -> TiedScores:
        """The cells that hold rows as ties of tied rows, each at its mean probability."""
        filled = self.rows > 0
        positive = self.cells.positive[filled]
        weight = positive + self.cells.negative[filled]
        mean = self.prob[:, filled].sum(axis=0) / weight
        prob = np.where(self.cells.mixed[filled], mean, self.cells.lowest[filled])
        return TiedScores(prob, self.rows[filled], weight, positive, self.square[filled])

    def bound(self, options: Options) -> float:
        """An upper bound of the difference between the error of bins cut between cells and of bins cut between rows."""
        filled, ties = self.rows > 0, self.ties
        mixed = self.cells.mixed[filled]
        if not mixed.any():
            return 0.0
        # Only cells of several probabilities on an edge can have rows in the wrong bin. With unequal weights the place
        # of an edge is itself uncertain, so that all cells near it count.
        cut = np.isin(ties.prob, edges_of(options, ties)[1:-1]) & mixed
        if not np.allclose(ties.square * ties.rows, ties.weight**2, rtol=1e-12) or not ties.even:
            cut |= self._near_cuts(ties, len(edges_of(options, ties)) - 1)
        low, high = self.prob[0, filled], self.cells.positive[filled] - self.prob[1, filled]
        return float((low + high + np.maximum(low, high))[cut].sum()) / ties.total

    def _near_cuts(self, ties: TiedScores, count: int) -> NDArray[np.bool_]:
        """Cells in which an edge may lie whose place depends on how the weight is spread over the rows of a cell.

        Rows stand at the middles of their weights, between the middles of the first and the last one: an edge is
        nowhere further than two of the greatest weights from its share of all.
        """
        end = np.cumsum(ties.weight)
        start = end - ties.weight
        near = np.zeros(len(end), dtype=np.bool_)
        for share in np.arange(1, count) / count * ties.total:
            near |= (end >= share - 2.0 * self.heaviest) & (start <= share + 2.0 * self.heaviest)
        return near


def _cut_between_rows(options: Options) -> bool:
    """Whether the bin of a row depends on the cuts alone, so that cells suffice."""
    rule = convention(options.convention)
    return rule.side != "truncated" and rule.least == "kept" and not rule.last_own


def _definition(norm: float, options: Options) -> Definition:
    rule = convention(options.convention)
    return Definition(
        "lower",
        bins=rule.count(options.bin_count),
        binning=options.binning,
        edge=rule.text,
        norm=None if math.isinf(norm) else norm,
        approximation="the largest gap of any bin that holds rows" if math.isinf(norm) else None,
        auto_bins=options.auto_bins,
    )


def _gaps(
    norm: float,
    reduction: Reduction = "binned",
    *,
    floor: bool = False,
    masses: ByProblem[EqualMassSums] | None = None,
    by_mass: bool = False,
) -> ProblemMetric:
    """The `norm`-mean of the gaps of each problem, with its `floor` if that is asked for.

    `masses` computes it from sums over cells where bins are of equal mass. With `by_mass` they are that whatever the
    options say; then there are no sums.
    """

    def how(options: Options) -> Options:
        return replace(options, binning="mass") if by_mass else options

    here = ByProblem(
        reduction,
        lambda one, options: _sums(one, how(options)),
        lambda sums, _: _norm(sums, norm),
        lambda _, options: _definition(norm, how(options)),
        UNBINNED,
        (lambda sums, _: sums.floor) if floor else None,
    )

    def pooled(ties: TiedScores, options: Options) -> float | None:
        return _norm(tied_sums(ties, how(options)), norm)

    def sums(options: Options) -> Additive[Any] | None:
        if how(options).binning == "width":
            return here
        return masses if _cut_between_rows(options) and not by_mass else None

    return ProblemMetric(here, pooled, sums=sums)


def _mass_gaps(
    reduction: Reduction, floor: Callable[[EqualMassSums, Options], float] | None = None
) -> ByProblem[EqualMassSums]:
    """The mean gap of bins of equal mass that are cut between cells."""

    def value(masses: EqualMassSums, options: Options) -> float | None:
        ties = masses.ties
        return tied_sums(ties, options).norm(1.0) if len(ties.prob) else None

    def definition(scores: Sequence[OfProblems[EqualMassSums]], options: Options) -> Definition:
        bound = max((part.bound(options) for score in scores for part in score.parts if part.rows.any()), default=0.0)
        text = f"histogram: cut between log-odds 1/{CELLS_PER_UNIT} apart, right to {rounded_up(bound)}"
        return replace(_definition(1.0, options), approximation=text)

    return ByProblem(reduction, lambda one, _: EqualMassSums.of(one), value, definition, UNBINNED, floor)


ece = _gaps(
    1.0,
    floor=True,
    masses=_mass_gaps("binned", lambda masses, options: tied_sums(masses.ties, options).floor),
)
"""Expected calibration error: the mean over bins of |mean p - mean y|, each bin counting by its weight.

Two classes: of the positive class. More: of the predicted class, and whether the prediction was right.
"""

rmsce = _gaps(2.0)
"""Root mean square calibration error: the root of the weighted mean over bins of (mean p - mean y)^2."""

mce = _gaps(math.inf)
"""Maximum calibration error (Naeini et al. 2015): the largest |mean p - mean y| of any bin."""

classwise_ece = _gaps(1.0, "each", masses=_mass_gaps("each"))
"""Classwise ECE (Kull et al. 2019): the mean over classes of the ECE of each one against the rest."""

cumulative_ece = _gaps(1.0, "cumulative")
"""The mean over the thresholds between classes in order of the ECE of being of a class from the threshold on."""

ada_ece = _gaps(2.0, by_mass=True)
"""AdaECE (CCL, section 1.1.2): the root of the weighted mean of squared gaps over bins of equal mass."""


def _debiased(scored: Scored, options: Options) -> Definition:
    return Definition(
        "lower",
        bins=options.bin_count,
        binning="mass",
        edge="right-closed, cut halfway between rows",
        norm=2.0,
        approximation="bins with one row contribute 0; a sum below 0 is 0",
        auto_bins=options.auto_bins,
    )


@of_ties("top", _debiased)
def ece_debiased(ties: TiedScores, options: Options) -> float:
    """Debiased calibration error (Kumar, Liang & Ma 2019): squared gaps less what chance adds to them.

    The root of sum n_b/n [(mean p - mean y)^2 - ybar (1 - ybar)/(n_b - 1)].

    With weights n_b is Kish's effective number of rows, (sum w)^2 / sum w^2: the variance of the mean label.
    """
    ties = ties.with_positive_weight
    cuts = ties.halfway_cuts(options.bin_count)
    place, count = np.searchsorted(cuts, ties.prob, side="left"), len(cuts) + 1
    columns = (ties.weight, ties.weight * ties.prob, ties.positive, ties.square)
    weight, prob, positive, square = (np.bincount(place, column, minlength=count) for column in columns)
    more = weight**2 > square * (1.0 + 1e-12)  # effectively more than one row
    weight, prob, positive, square = weight[more], prob[more], positive[more], square[more]
    label = positive / weight
    noise = float((weight * label * (1.0 - label) / (weight**2 / square - 1.0)).sum())
    gaps = float((weight * ((prob - positive) / weight) ** 2).sum())
    # Where the two cancel, the root of what rounding leaves would be a hundred million times as large.
    return math.sqrt((gaps - noise) / ties.total) if gaps - noise > 1e-13 * noise else 0.0
