"""Rows in memory, as trees grow on them.

The rows of a node are a range of a buffer. They cannot move within it, so there are two: rows of level d are in number
d % 2, and those of a leaf stay where they are.

Some split losses need the rows: the paper's own sampled MVCE, and the losses of its ablation (Figure 5). They do not
follow from sums over branches, so every split is tried on the rows themselves. They are for comparisons, on tables of
moderate size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.forest import applied
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import Children, Places, Splits, split_search, update
from calcli.methods.mbct.level_passes import Growth, Mask, Nodes, Rows, cells_of
from calcli.numeric import losses
from calcli.numeric.seeded import stream


@dataclass(frozen=True, slots=True, eq=False)
class _LastSplits:
    """The splits of the last level. Their children are leaves, so their rows are not moved: they lie by parent."""

    buffer: int
    parents: Nodes
    children: Children
    pattern: FloatArray


@dataclass(eq=False)
class Buffers:
    """`grow.TreeRows` in memory: the `rows` are calibrated by each tree, and change their order.

    The nodes of the level that grows are in buffer number `_here`, leaves above it in either.
    """

    rows: Rows
    offsets: Places
    growth: Growth
    seed: int
    facts: FloatArray = field(init=False)
    _here: int = field(init=False)
    _level: Nodes = field(init=False)
    _leaves: tuple[list[Nodes], list[Nodes]] = field(init=False)
    _last: _LastSplits | None = field(init=False)

    def __post_init__(self) -> None:
        self._cells = cells_of(self.rows, self.offsets)
        self._loss = loss_of_rows(self.growth, self.seed)
        self._spare = self.rows.room()
        self._begin()

    def search(self, levels: Sequence[Tree], nodes: Nodes, heavy: Mask) -> Splits:
        rows, nodes = self._buffers[self._here], nodes.take(heavy)
        splits = passes.search(rows, nodes, self._cells, self.growth)
        if self._loss is not None:
            for place, parent in enumerate(nodes.pattern.tolist()):
                own = rows.take(slice(nodes.start[place], nodes.stop[place]))
                _judge_by_rows(splits, place, own, parent, self.growth, self._loss)
        return splits

    def split(self, nodes: Nodes, made: Mask, children: Children, into: Nodes, *, last: bool) -> None:
        here, there, parents = self._here, 1 - self._here, nodes.take(made)
        self._leaves[here].append(nodes.take(~made))
        if last:
            self._last, self._level = _LastSplits(here, parents, children, into.pattern), Nodes.joined([])
        else:
            passes.move_to_children(self._buffers[here], self._buffers[there], parents, children, into.start)
            self._here, self._level = there, into

    def calibrate(self, tree: Tree) -> None:
        # The rows are where the tree has left them, in either buffer.
        link, rate, buffers = self.growth.link, self.growth.rate, self._buffers
        self._leaves[self._here].append(self._level)
        nodes = [Nodes.joined(leaves) for leaves in self._leaves]
        for buffer, leaves in zip(buffers, nodes, strict=True):
            if len(leaves):
                step = applied(leaves.pattern, link, rate)
                passes.calibrate_children(buffer, leaves, Children.same(len(leaves)), step, link)
        if (last := self._last) is not None:
            step = applied(last.pattern, link, rate)
            passes.calibrate_children(buffers[last.buffer], last.parents, last.children, step, link)
            nodes[last.buffer] = Nodes.joined([nodes[last.buffer], last.parents])

        # Bring them together in the one that holds more of them.
        main = int(nodes[1].count.sum() > nodes[0].count.sum())
        self.rows, self._spare = buffers[main], buffers[1 - main]
        if len(others := nodes[1 - main]):
            passes.move_to_children(self._spare, self.rows, others, Children.same(len(others)), others.start)
        self._begin()

    def loss(self) -> float:
        if self._loss is not None:
            rows = _in_order(self.rows)
            return self._loss(rows.prob, rows.label.astype(np.float64), rows.weights)
        if self.growth.split_loss == "nll":
            return passes.log_loss(self.rows) / self.rows.mass
        return passes.loss_of_facts(self.facts, self.growth)

    def _begin(self) -> None:
        """Put all rows at the root of the next tree."""
        rule = self.growth.rule
        self.facts = passes.totals(self.rows, self._cells, rule.link, squares=rule.squares)
        self._buffers, self._here = (self.rows, self._spare), 0
        self._level = passes.root_of(self.facts, self.growth)
        self._leaves, self._last = ([], []), None


VIEWS = 100
"""r of equation 10: how often rows are shuffled for the sampled MVCE."""

MOST_BINS = 5000
"""The sweep over numbers of bins ends here."""

Loss = Callable[[FloatArray, FloatArray, FloatArray], float]
"""A loss of rows, from probabilities, labels and weights."""


def loss_of_rows(growth: Growth, seed: int) -> Loss | None:
    """The split loss, if it does not follow from sums over rows."""
    if growth.sums_tell:
        return None
    if growth.split_loss == "mvce-sampled":
        return lambda prob, label, weight: _sampled(prob - label, weight, growth.bin_size, seed)
    if growth.split_loss == "ece":
        return lambda prob, label, weight: _ece(prob, label, weight, growth.bin_size)
    return _ece_sweep


def _in_order(rows: Rows) -> Rows:
    """The rows in an order that depends on their content alone, so that permuted rows are shuffled alike."""
    return rows.take(np.lexsort((rows.prob, rows.weights, rows.label, *rows.codes.T)))


def _judge_by_rows(splits: Splits, place: int, rows: Rows, parent: float, growth: Growth, loss: Loss) -> None:
    """Put this loss of the rows of a node in place of the log-loss, for the node as it is and for each of its splits.

    It is multiplied by the weight of the rows, by which `Growth.losses` divides.
    """
    rows = _in_order(rows)
    label, weight = rows.label.astype(np.float64), rows.weights

    def loss_under(patterns: FloatArray) -> float:
        prob = np.empty(len(rows))
        update.calibrate(rows.prob, patterns, growth.link, prob)
        return loss(prob, label, weight) * rows.mass

    splits.unsplit[place, kernels.LOSS] = loss_under(np.full(len(rows), parent))
    for feature in np.flatnonzero(splits.outcome[place, :, kernels.BRANCHES]):
        branches, base = int(splits.outcome[place, feature, kernels.BRANCHES]), splits.base[place, feature]
        facts, patterns = splits.facts[base : base + branches], np.empty(branches)
        split_search.fit_children(facts, np.array([0, branches]), np.array([parent]), growth.rule, patterns)
        branch = np.zeros(1 << 16, dtype=np.int64)
        branch[splits.code[base + 1 : base + branches]] = np.arange(1, branches)
        splits.outcome[place, feature, kernels.LOSS] = loss_under(patterns[branch[rows.codes[:, feature]]])


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
    """`_ece` with the most bins that leave their label means rising (Roelofs et al. 2020)."""
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
    """The root mean square of the mean errors of so many bins of successive rows, weighted by the bins' weight."""
    starts = _starts(len(weight), bins)
    mass, gap = np.add.reduceat(weight, starts), np.add.reduceat(error, starts)
    return float(np.sqrt((gap**2 / mass).sum() / mass.sum()))


def _starts(rows: int, bins: int) -> Places:
    """The first row of each bin, if the i-th row is in bin floor(i bins / rows)."""
    return -(-np.arange(bins) * rows // bins)
