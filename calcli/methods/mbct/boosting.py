"""Boosting: each tree starts from the probabilities of those before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from calcli.batch import FloatArray
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct import row_losses
from calcli.methods.mbct.forest import applied
from calcli.methods.mbct.grow import Search, Tree, grow
from calcli.methods.mbct.kernels import Places
from calcli.methods.mbct.nodes import Growth, Nodes, Rows, cells_of


@dataclass(frozen=True, slots=True)
class Boosting:
    """The settings of boosting; `rate` is the fraction of a tree's step that is taken."""

    growth: Growth
    rate: float


@dataclass(eq=False)
class Boosted:
    """An endless iterator over trees. `rows` are calibrated by each tree and change their order; `facts` are theirs."""

    rows: Rows
    offsets: Places
    boosting: Boosting
    search: Search

    def __post_init__(self) -> None:
        self._cells = cells_of(self.rows, self.offsets)
        self._spare = self.rows.room()
        self.facts = self._totals()

    def __iter__(self) -> Iterator[Tree]:
        return self

    def __next__(self) -> Tree:
        """Grow a tree, and calibrate the rows by it."""
        growth, buffers = self.boosting.growth, (self.rows, self._spare)
        grown = grow(buffers, self._cells, self.facts, growth, self.search)

        # Calibrate the rows where the tree has left them, in either buffer.
        for buffer, leaves in zip(buffers, grown.leaves, strict=True):
            passes.calibrate_leaves(buffer, leaves, self._step(leaves.pattern), growth.link)
        nodes = list(grown.leaves)
        if (last := grown.last) is not None:
            step = self._step(last.pattern)
            passes.calibrate_children(buffers[last.buffer], last.parents, last.children, step, growth.link)
            nodes[last.buffer] = Nodes.joined([nodes[last.buffer], last.parents])

        # Bring them together in the one that holds more of them.
        main = int(nodes[1].count.sum() > nodes[0].count.sum())
        self.rows, self._spare = buffers[main], buffers[1 - main]
        passes.copy_nodes(self._spare, self.rows, nodes[1 - main])
        self.facts = self._totals()
        return grown.tree

    def _totals(self) -> FloatArray:
        """The facts of all rows."""
        rule = self.boosting.growth.rule
        return passes.totals(self.rows, self._cells, rule.link, squares=rule.squares)

    def _step(self, pattern: FloatArray) -> FloatArray:
        """The part of patterns that is applied."""
        return applied(pattern, self.boosting.growth.link, self.boosting.rate)


def fit_trees(rows: Rows, offsets: Places, boosting: Boosting, most: int, seed: int) -> list[Tree]:
    """Up to `most` trees, as long as each lowers the loss of the rows that it was grown on."""
    if most == 0:
        return []
    loss = row_losses.overall_for(boosting.growth, seed)
    boosted = Boosted(rows, offsets, boosting, row_losses.search_for(boosting.growth, seed))
    trees: list[Tree] = []
    before = loss(boosted.rows, boosted.facts)
    for tree in islice(boosted, most):
        after = loss(boosted.rows, boosted.facts)
        if not after < before:
            break
        trees.append(tree)
        before = after
        if len(tree) == 1:
            break  # the next would be the same
    return trees
