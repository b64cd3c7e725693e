"""Losses of a split that need its rows: the paper's own sampled MVCE, and the losses of its ablation (Figure 5).

Sums over branches do not tell them, so that every split is tried on the rows themselves. They are for comparisons, on
tables of moderate size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.trees import kernels, passes
from calcli.methods.trees.growing import Search
from calcli.methods.trees.kernels import Places
from calcli.methods.trees.nodes import Growth, Nodes, Rows
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

    def search(rows: Rows, nodes: Nodes, offsets: Places, growth: Growth) -> tuple[FloatArray, FloatArray]:
        tried = [_Tried(rows, nodes, place, offsets, growth, loss) for place in range(len(nodes))]
        own = np.array([one.as_it_is() for one in tried])
        found = np.array([[one.split_by(feature) for feature in range(len(offsets) - 1)] for one in tried])
        return own, found

    return search


def overall_for(growth: Growth, seed: int) -> Callable[[Rows], float]:
    """The loss of all rows as they are."""
    if growth.split_loss == "nll":
        return lambda rows: passes.log_loss(rows) / rows.mass
    if growth.split_loss == "mvce":
        return lambda rows: _closed_form(rows, growth)
    loss = _loss_for(growth, seed)

    def overall(rows: Rows) -> float:
        ordered = _in_order(rows)
        return loss(ordered.prob, ordered.label.astype(np.float64), ordered.weights)

    return overall


def _in_order(rows: Rows) -> Rows:
    """The rows in an order that follows from what they hold: so a shuffle of them is the same before and after."""
    return rows.take(np.lexsort((rows.prob, rows.weights, rows.label, *rows.codes.T)))


def _closed_form(rows: Rows, growth: Growth) -> float:
    count = float(len(rows))
    mean, variance = losses.shuffled_moments(count, rows.mass, *passes.errors(rows))
    bins = losses.shuffled_bins(count, growth.bin_size)
    return float(losses.shuffled_gap(mean, variance, count, bins))


class _Tried:
    """A node whose splits are tried on its rows."""

    def __init__(self, rows: Rows, nodes: Nodes, place: int, offsets: Places, growth: Growth, loss: Loss) -> None:
        self.rows = _in_order(rows.take(slice(nodes.start[place], nodes.stop[place])))
        self.parent = float(nodes.pattern[place])
        self.offsets, self.growth, self.loss = offsets, growth, loss

    def _found(self, branches: int, patterns: FloatArray) -> FloatArray:
        rows = self.rows
        prob = np.empty(len(rows))
        kernels.calibrate(rows.prob, patterns, self.growth.link, prob)
        loss = self.loss(prob, rows.label.astype(np.float64), rows.weights)
        found = np.zeros(kernels.FOUND)
        found[kernels.BRANCHES], found[kernels.LOSS] = branches, loss * rows.mass
        return found

    def as_it_is(self) -> FloatArray:
        return self._found(1, np.full(len(self.rows), self.parent))

    def split_by(self, feature: int) -> FloatArray:
        """What `kernels.judge` would find."""
        growth, codes = self.growth, self.rows.codes[:, feature]
        width = int(self.offsets[feature + 1] - self.offsets[feature])
        mass = np.bincount(codes, self.rows.weights, minlength=width).astype(np.float64)
        branch, names = np.empty(width, dtype=np.int64), np.empty(width + 1, dtype=np.int64)
        many, rest = kernels.number_branches(mass, 0, width, growth.least, 0, branch, names)
        if many == 1 or (many == 2 and rest == 0):
            return np.zeros(kernels.FOUND)
        facts = np.zeros((many, kernels.FACTS))
        rows = self.rows
        kernels.tally(*rows.arrays, 0, len(rows), feature, branch, growth.link, rows.grids(), facts)
        patterns, firsts = np.empty(many), np.array([0, many])
        parents = np.array([self.parent])
        kernels.set_children(facts, firsts, parents, growth.least, growth.link, growth.shrink, patterns)
        return self._found(many, patterns[branch[codes]])


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
