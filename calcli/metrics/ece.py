"""Gaps between prediction and label over bins of the prediction: the expected calibration error and its family."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.numeric import bins

EDGE = "right-closed, 0 in the first bin"


@dataclass(frozen=True, slots=True)
class BinSums:
    """What the rows of each bin add up to. Sums over parts of the rows add up to those over all.

    Attributes
    ----------
    weight, prob, label
        Sums of w, of w p and of w y.
    """

    weight: FloatArray
    prob: FloatArray
    label: FloatArray

    def __add__(self, other: BinSums) -> BinSums:
        return BinSums(self.weight + other.weight, self.prob + other.prob, self.label + other.label)

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


def sums_by(scored: Scored, place: IntArray, count: int) -> BinSums:
    """The sums over the rows of each of `count` bins, given the bin of every row; binary only."""
    of_label = place + count * scored.label  # one pass adds up the negative rows, then the positive ones
    weighted = scored.prob if scored.weight is None else scored.weight * scored.prob
    weight = np.bincount(of_label, scored.weight, minlength=2 * count).reshape(2, count)
    prob = np.bincount(of_label, weighted, minlength=2 * count).reshape(2, count)
    return BinSums(weight.sum(axis=0, dtype=np.float64), prob.sum(axis=0), weight[1].astype(np.float64))


def binned_sums(scored: Scored, edges: FloatArray) -> BinSums:
    """The sums over the rows between `edges`; binary only."""
    count = len(edges) - 1
    total = BinSums(np.zeros(count), np.zeros(count), np.zeros(count))
    for part in scored.parts():
        total += sums_by(part, bins.assign(part.prob, edges), count)
    return total


def edges_for(scored: Scored, options: Options) -> FloatArray:
    """The edges that `options` asks for; those of equal mass depend on the rows."""
    if options.binning == "width":
        return bins.width_edges(options.bins)
    return bins.mass_edges(scored.prob, options.bins, scored.weight)


def gap_norm(scored: Scored, options: Options, norm: float) -> float:
    """The `norm`-mean of the gaps, each bin counting by its weight; binary only."""
    sums = binned_sums(scored, edges_for(scored, options))
    return float((sums.shares * sums.gaps**norm).sum() ** (1.0 / norm))


def ece(scored: Scored, options: Options) -> Measured:
    """Expected calibration error: the mean over bins of |mean p - mean y|, each bin counting by its weight.

    Two classes: of the positive class. More: of the predicted class, and whether the prediction was right.
    """
    definition = Definition(
        "lower",
        bins=options.bins,
        binning=options.binning,
        edge=EDGE,
        reduction="positive class" if scored.binary else "top label",
        norm=1.0,
    )
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    per_class = None
    if not scored.binary:
        per_class = tuple(gap_norm(scored.one_vs_rest(index), options, 1.0) for index in range(scored.classes))
    return Measured(gap_norm(scored.top, options, 1.0), definition, per_class=per_class)
