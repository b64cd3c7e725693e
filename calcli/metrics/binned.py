"""Gaps between prediction and label over bins of the prediction: the expected calibration error and its family."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.errors import UsageError
from calcli.metrics.additive import Additive, OfProblems, of_problems
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.conventions import convention
from calcli.metrics.reduce import OfClasses, Reduction, assembled, measured, problems, reduction_text
from calcli.numeric import bins

NEARLY_NORMAL = 25.0
"""From this variance on a binomial's mean deviation is the normal one to within a hundredth."""

UNBINNED = "every row is on the edge that the convention leaves out"


@dataclass(frozen=True, slots=True)
class BinSums:
    """Sums over the rows of each bin. Sums over parts of the rows add up to those over all.

    Attributes
    ----------
    weight, prob, label
        Sums of w, of w p and of w y.
    noise
        Sums of w^2 p (1 - p): the variance of that of w y, if the score were calibrated.
    """

    weight: FloatArray
    prob: FloatArray
    label: FloatArray
    noise: FloatArray

    @classmethod
    def nothing(cls, count: int) -> BinSums:
        """The sums over no rows, of `count` bins."""
        return cls(*np.zeros((4, count)))

    def __add__(self, other: BinSums) -> BinSums:
        return BinSums(
            self.weight + other.weight, self.prob + other.prob, self.label + other.label, self.noise + other.noise
        )

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
    weight = np.bincount(of_label, scored.weight, minlength=2 * count).reshape(2, count)
    prob = np.bincount(of_label, weighted, minlength=2 * count).reshape(2, count)
    noise = (
        weighted * (1.0 - scored.prob) if scored.weight is None else weighted * (scored.weight * (1.0 - scored.prob))
    )
    return BinSums(
        weight.sum(axis=0, dtype=np.float64),
        prob.sum(axis=0),
        weight[1].astype(np.float64),
        np.bincount(place, noise, minlength=count).astype(np.float64),
    )


def binned_sums(scored: Scored, edges: FloatArray, name: str = "sklearn") -> BinSums:
    """The sums over the rows between `edges`, and in the bins that a convention adds to them; binary only."""
    rule, count = convention(name), len(edges) + 1
    total = BinSums.nothing(count)
    for part in scored.parts():
        total += sums_by(part, rule.place(part.prob, edges), count)
    return _without_the_dropped(total, name)


def block_sums(blocks: Blocks, options: Options) -> BinSums:
    """The same from blocks, whose edges of equal mass are cut here."""
    if options.binning == "mass":
        blocks = blocks.held
    edges = edges_of(options, blocks)
    starts, into = convention(options.convention).runs(blocks.prob, edges)
    noise = blocks.square * blocks.prob * (1.0 - blocks.prob)
    columns = (blocks.weight, blocks.weight * blocks.prob, blocks.positive, noise)
    sums = np.zeros((4, len(edges) + 1))
    for row, column in enumerate(columns):
        sums[row, into] = np.add.reduceat(column, starts)
    return _without_the_dropped(BinSums(*sums), options.convention)


def _without_the_dropped(sums: BinSums, name: str) -> BinSums:
    """Bin 0 holds the rows that belong to no bin: they have no gap, and may not even count among the rows."""
    weight, prob, label, noise = (each.copy() for each in (sums.weight, sums.prob, sums.label, sums.noise))
    prob[0] = label[0] = noise[0] = 0.0
    if convention(name).least != "unbinned":
        weight[0] = 0.0
    return BinSums(weight, prob, label, noise)


def edges_of(options: Options, blocks: Blocks | None) -> FloatArray:
    """The edges of the bins; those of equal mass are cut between the rows of `blocks`, which must all hold some."""
    rule = convention(options.convention)
    count = rule.count(options.bin_count)
    if options.binning == "width" or blocks is None:
        return bins.width_edges(count)
    if rule.side == "truncated":
        raise UsageError(f"{options.convention} has no bins of equal mass", hint="try: --convention sklearn")
    return rule.mass_edges(blocks, count)


def _sums(scored: Scored, options: Options) -> BinSums:
    """Bins of equal width need no order of the rows."""
    if options.binning == "width":
        return binned_sums(scored, edges_of(options, None), options.convention)
    return block_sums(scored.blocks, options)


def gap_norm(scored: Scored, options: Options, norm: float) -> float | None:
    """The `norm`-mean of the gaps; None if the convention leaves no row. Binary only."""
    return _norm(_sums(scored, options), norm)


def _norm(sums: BinSums, norm: float) -> float | None:
    return sums.norm(norm) if sums.weight.sum() > 0 else None


def _gaps(scored: Scored, options: Options, norm: float, reduction: Reduction = "binned") -> Measured:
    definition = definition_of(scored, options, norm, reduction)
    return measured(scored, options, lambda one, how: gap_norm(one, how, norm), reduction, definition, UNBINNED)


def definition_of(rows: OfClasses, options: Options, norm: float, reduction: Reduction) -> Definition:
    rule = convention(options.convention)
    return Definition(
        "lower",
        bins=rule.count(options.bin_count),
        binning=options.binning,
        edge=rule.text,
        reduction=reduction_text(rows, reduction, options),
        norm=None if math.isinf(norm) else norm,
        approximation="the largest gap of any bin that holds rows" if math.isinf(norm) else None,
        auto_bins=options.auto_bins,
    )


def ece(scored: Scored, options: Options) -> Measured:
    """Expected calibration error: the mean over bins of |mean p - mean y|, each bin counting by its weight.

    Two classes: of the positive class. More: of the predicted class, and whether the prediction was right.
    """
    if scored.nothing:
        return _gaps(scored, options, 1.0)
    (problem,) = problems(scored, "binned", options)
    sums = _sums(problem, options)  # once, for the value and its floor
    rest = None if scored.binary else [gap_norm(one, options, 1.0) for one in problems(scored, "macro", options)]
    definition = definition_of(scored, options, 1.0, "binned")
    found = assembled([_norm(sums, 1.0)], rest, "binned", definition, UNBINNED)
    return found if found.value is None else replace(found, floor=sums.floor)


def _width_sums(
    norm: float, reduction: Reduction = "binned", floor: Callable[[BinSums, Options], float] | None = None
) -> Additive[OfProblems[BinSums]]:
    """Of bins of equal width; for those of equal mass see `calcli.metrics.equal_mass`."""
    return of_problems(
        reduction,
        _sums,
        lambda sums, _: _norm(sums, norm),
        lambda scores, options: definition_of(scores[0], options, norm, reduction),
        UNBINNED,
        floor,
    )


ECE_SUMS = _width_sums(1.0, floor=lambda sums, _: sums.floor)
RMSCE_SUMS, MCE_SUMS = _width_sums(2.0), _width_sums(math.inf)
CLASSWISE_SUMS = _width_sums(1.0, "each")


def rmsce(scored: Scored, options: Options) -> Measured:
    """Root mean square calibration error: the root of the weighted mean over bins of (mean p - mean y)^2."""
    return _gaps(scored, options, 2.0)


def mce(scored: Scored, options: Options) -> Measured:
    """Maximum calibration error (Naeini et al. 2015): the largest |mean p - mean y| of any bin."""
    return _gaps(scored, options, math.inf)


def classwise_ece(scored: Scored, options: Options) -> Measured:
    """Classwise ECE (Kull et al. 2019): the mean over classes of the ECE of each one against the rest."""
    return _gaps(scored, options, 1.0, "each")


def ada_ece(scored: Scored, options: Options) -> Measured:
    """AdaECE (CCL, section 1.1.2): the root of the weighted mean of squared gaps over bins of equal mass."""
    return _gaps(scored, replace(options, binning="mass"), 2.0)


def ece_debiased(scored: Scored, options: Options) -> Measured:
    """Debiased calibration error (Kumar, Liang & Ma 2019): squared gaps less what chance adds to them."""
    definition = Definition(
        "lower",
        bins=options.bin_count,
        binning="mass",
        edge="right-closed, cut halfway between rows",
        reduction=reduction_text(scored, "top", options),
        norm=2.0,
        approximation="bins with one row contribute 0; a sum below 0 is 0",
        auto_bins=options.auto_bins,
    )
    return measured(scored, options, lambda one, how: debiased_of(one.blocks, how), "top", definition, "")


def debiased_of(blocks: Blocks, options: Options) -> float:
    """The root of sum n_b/n [(mean p - mean y)^2 - ybar (1 - ybar)/(n_b - 1)].

    With weights n_b is Kish's effective number of rows, (sum w)^2 / sum w^2: the variance of the mean label.
    """
    blocks = blocks.held
    cuts = blocks.halfway_cuts(options.bin_count)
    place, count = np.searchsorted(cuts, blocks.prob, side="left"), len(cuts) + 1
    columns = (blocks.weight, blocks.weight * blocks.prob, blocks.positive, blocks.square)
    weight, prob, positive, square = (np.bincount(place, column, minlength=count) for column in columns)
    more = weight**2 > square * (1.0 + 1e-12)  # effectively more than one row
    weight, prob, positive, square = weight[more], prob[more], positive[more], square[more]
    label = positive / weight
    noise = float((weight * label * (1.0 - label) / (weight**2 / square - 1.0)).sum())
    gaps = float((weight * ((prob - positive) / weight) ** 2).sum())
    # Where the two cancel, the root of what rounding leaves would be a hundred million times as large.
    return math.sqrt((gaps - noise) / blocks.total) if gaps - noise > 1e-13 * noise else 0.0


def _of_blocks(blocks: Blocks, options: Options, norm: float) -> float | None:
    return _norm(block_sums(blocks, options), norm)


ece_of, rmsce_of, mce_of = (partial(_of_blocks, norm=norm) for norm in (1.0, 2.0, math.inf))


def ada_ece_of(blocks: Blocks, options: Options) -> float | None:
    return rmsce_of(blocks, replace(options, binning="mass"))
