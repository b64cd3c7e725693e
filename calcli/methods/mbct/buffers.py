"""Rows in memory, as trees grow on them.

The rows of a node are a range of a buffer. They cannot move within it, so there are two: rows of level d are in number
d % 2, and those of a leaf stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from calcli.batch import FloatArray
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct import row_losses
from calcli.methods.mbct.forest import applied
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import Children, Places, Splits
from calcli.methods.mbct.nodes import Growth, Mask, Nodes, Rows, cells_of


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
        self._search = row_losses.search_for(self.growth, self.seed)
        self._loss = row_losses.overall_for(self.growth, self.seed)
        self._spare = self.rows.room()
        self._begin()

    def search(self, levels: Sequence[Tree], nodes: Nodes, heavy: Mask) -> Splits:
        return self._search(self._buffers[self._here], nodes.take(heavy), self._cells, self.growth)

    def split(self, nodes: Nodes, made: Mask, children: Children, into: Nodes, *, last: bool) -> None:
        here, there, parents = self._here, 1 - self._here, nodes.take(made)
        self._leaves[here].append(nodes.take(~made))
        if last:
            self._last, self._level = _LastSplits(here, parents, children, into.pattern), Nodes.joined([])
        else:
            passes.move_to_children(self._buffers[here], self._buffers[there], parents, children, into.start)
            self._here, self._level = there, into

    def calibrate(self, tree: Tree, rate: float) -> None:
        # The rows are where the tree has left them, in either buffer.
        link, buffers = self.growth.link, self._buffers
        self._leaves[self._here].append(self._level)
        nodes = [Nodes.joined(leaves) for leaves in self._leaves]
        for buffer, leaves in zip(buffers, nodes, strict=True):
            passes.calibrate_leaves(buffer, leaves, applied(leaves.pattern, link, rate), link)
        if (last := self._last) is not None:
            step = applied(last.pattern, link, rate)
            passes.calibrate_children(buffers[last.buffer], last.parents, last.children, step, link)
            nodes[last.buffer] = Nodes.joined([nodes[last.buffer], last.parents])

        # Bring them together in the one that holds more of them.
        main = int(nodes[1].count.sum() > nodes[0].count.sum())
        self.rows, self._spare = buffers[main], buffers[1 - main]
        passes.copy_nodes(self._spare, self.rows, nodes[1 - main])
        self._begin()

    def loss(self) -> float:
        return self._loss(self.rows, self.facts)

    def _begin(self) -> None:
        """All rows at the root of the next tree."""
        rule = self.growth.rule
        self.facts = passes.totals(self.rows, self._cells, rule.link, squares=rule.squares)
        self._buffers, self._here = (self.rows, self._spare), 0
        self._level = passes.root_of(self.facts, self.growth)
        self._leaves, self._last = ([], []), None
