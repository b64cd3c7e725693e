"""Losses of a split that need its rows: the paper's own sampled MVCE, and the losses of its ablation (Figure 5).

Sums over branches do not tell them, so that every split is tried on the rows themselves. They are for comparisons, on
tables of moderate size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.grow import Search
from calcli.methods.mbct.kernels import Places
from calcli.methods.mbct.kernels import split_search as searching
from calcli.methods.mbct.kernels import update as moving
from calcli.methods.mbct.nodes import Cells, Growth, Nodes, Rows, Splits
from calcli.numeric import losses
from calcli.numeric.rng import stream

VIEWS = 100
"""r: how often rows are shuffled for the sampled MVCE."""

MOST_BINS = 5000
"""Where the sweep over numbers of bins ends."""

Loss = Callable[[FloatArray, FloatArray, FloatArray], float]
"""Of probabilities, labels and weights."""


def search_for(growth: Growth, seed: int) -> Search:
    """How splits are looked for under the split loss."""
    if growth.split_loss in ("mvce", "nll"):
        return passes.search
    loss = _loss_for(growth, seed)

    def search(rows: Rows, nodes: Nodes, cells: Cells, growth: Growth) -> Splits:
        splits = passes.search(rows, nodes, cells, growth)
        for place in range(len(nodes)):
            tried = _Tried(rows, nodes, place, growth, loss)
            splits.own[place, kernels.LOSS] = tried.as_it_is()
            for feature in np.flatnonzero(splits.found[place, :, kernels.BRANCHES]):
                splits.found[place, feature, kernels.LOSS] = tried.split_by(int(feature), splits, place)
        return splits

    return search


def overall_for(growth: Growth, seed: int) -> Callable[[Rows, FloatArray], float]:
    """The loss of all rows as they are, from the rows and the facts about them."""
    if growth.split_loss == "nll":
        return lambda rows, facts: passes.log_loss(rows) / rows.mass
    if growth.split_loss == "mvce":
        return lambda rows, facts: _closed_form(facts, growth)
    loss = _loss_for(growth, seed)

    def overall(rows: Rows, facts: FloatArray) -> float:
        ordered = _in_order(rows)
        return loss(ordered.prob, ordered.label.astype(np.float64), ordered.weights)

    return overall


def _closed_form(facts: FloatArray, growth: Growth) -> float:
    found, nothing = np.zeros((1, kernels.FOUND)), 0.0 if growth.link == kernels.ODDS else 1.0
    searching.judge_as_is(facts[None], np.array([nothing]), growth.link, found)
    return float(growth.losses(found, facts[None, kernels.COUNT], facts[None, kernels.MASS])[0])


def _in_order(rows: Rows) -> Rows:
    """The rows in an order that follows from what they hold: so a shuffle of them is the same before and after."""
    return rows.take(np.lexsort((rows.prob, rows.weights, rows.label, *rows.codes.T)))


class _Tried:
    """A node whose splits are tried on its rows."""

    def __init__(self, rows: Rows, nodes: Nodes, place: int, growth: Growth, loss: Loss) -> None:
        self.rows = _in_order(rows.take(slice(nodes.start[place], nodes.stop[place])))
        self.parent = float(nodes.pattern[place])
        self.growth, self.loss = growth, loss

    def _loss(self, patterns: FloatArray) -> float:
        """The loss times the weight, as `Growth.losses` wants it."""
        rows, prob = self.rows, np.empty(len(self.rows))
        moving.calibrate(rows.prob, patterns, self.growth.link, prob)
        return self.loss(prob, rows.label.astype(np.float64), rows.weights) * rows.mass

    def as_it_is(self) -> float:
        return self._loss(np.full(len(self.rows), self.parent))

    def split_by(self, feature: int, splits: Splits, place: int) -> float:
        growth, base = self.growth, splits.bases[place, feature]
        many = int(splits.found[place, feature, kernels.BRANCHES])
        facts, patterns = splits.facts[base : base + many], np.empty(many)
        searching.set_children(
            facts, np.array([0, many]), np.array([self.parent]), growth.least, growth.link, growth.shrink, patterns
        )
        branch = np.zeros(1 << 16, dtype=np.int64)
        branch[splits.code[base + 1 : base + many]] = np.arange(1, many)
        return self._loss(patterns[branch[self.rows.codes[:, feature]]])


def _loss_for(growth: Growth, seed: int) -> Loss:
    if growth.split_loss == "mvce-sampled":
        return lambda prob, label, weight: _sampled(prob - label, weight, growth.bin_size, seed)
    if growth.split_loss == "ece":
        return lambda prob, label, weight: _ece(prob, label, weight, growth.bin_size)
    return _ece_sweep


def _sampled(error: FloatArray, weight: FloatArray, bin_size: float, seed: int) -> float:
    """MVCE as the paper computes it (equation 10, p = 2), in bins of equal row count that count by their weight."""
    bins = losses.shuffled_bins(len(error), bin_size)
    starts = np.arange(bins) * len(error) // bins
    share = weight * error / weight.sum()
    chance = stream(seed, "mbct", "views")
    views = [np.abs(np.add.reduceat(chance.permutation(share), starts)).sum() for _ in range(VIEWS)]
    return float(np.sqrt(np.mean(np.square(views))))


def _ece(prob: FloatArray, label: FloatArray, weight: FloatArray, bin_size: float) -> float:
    """The root mean squared gap over bins of equal row count in the order of the predictions (equation 14, p = 2)."""
    bins = losses.shuffled_bins(len(prob), bin_size)
    order = np.argsort(prob, kind="stable")
    return _root_mean_square(weight[order], (weight * (prob - label))[order], bins)


def _ece_sweep(prob: FloatArray, label: FloatArray, weight: FloatArray) -> float:
    """The same in as many bins as keep the label means of the bins from falling (Roelofs et al. 2020)."""
    order = np.argsort(prob, kind="stable")
    weight, error, positive = weight[order], (weight * (prob - label))[order], (weight * label)[order]
    bins = 1
    for more in range(2, min(len(prob), MOST_BINS) + 1):
        starts = _starts(len(prob), more)
        means = np.add.reduceat(positive, starts) / np.add.reduceat(weight, starts)
        if (np.diff(means) < -1e-12).any():
            break
        bins = more
    return _root_mean_square(weight, error, bins)


def _root_mean_square(weight: FloatArray, error: FloatArray, bins: int) -> float:
    """Of the mean errors of so many bins of rows in order, each counting by its weight."""
    starts = _starts(len(weight), bins)
    mass, gap = np.add.reduceat(weight, starts), np.add.reduceat(error, starts)
    return float(np.sqrt((gap**2 / mass).sum() / mass.sum()))


def _starts(rows: int, bins: int) -> Places:
    """Where the bins start if the i-th row is in bin floor(i bins / rows)."""
    return -(-np.arange(bins) * rows // bins)
