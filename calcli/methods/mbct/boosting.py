"""Trees one after the other: each starts from what the ones before it have made of the probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from calcli.batch import FloatArray
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct import row_losses as rowlosses
from calcli.methods.mbct.forest import applied
from calcli.methods.mbct.grow import Search, Tree, grow
from calcli.methods.mbct.kernels import Places
from calcli.methods.mbct.nodes import Growth, Nodes, Rows, cells_of


@dataclass(frozen=True, slots=True)
class Boosting:
    """How trees follow one another; `rate` is the fraction of a tree's step that is taken."""

    growth: Growth
    rate: float


@dataclass(eq=False)
class Boosted:
    """Tree after tree, without end. The memory of `rows` is used.

    `facts` are about the rows as they are.
    """

    rows: Rows
    offsets: Places
    how: Boosting
    search: Search

    def __post_init__(self) -> None:
        self._cells = cells_of(self.rows, self.offsets)
        self._room = self.rows.room()
        self.facts = self._totals()

    def __iter__(self) -> Iterator[Tree]:
        return self

    def __next__(self) -> Tree:
        """Grow a tree, and calibrate the rows by it, which puts them into another order."""
        link, cells = self.how.growth.link, self._cells
        grown = grow(self.rows, self._room, cells, self.facts, self.how.growth, self.search)
        home, astray = grown.home, grown.astray
        for memory, leaves in ((self.rows, home), (self._room, astray)):
            passes.set_patterns(memory, leaves, self._step(leaves.pattern), link)
        if (ends := grown.ends) is not None:
            memory = self._room if ends.astray else self.rows
            pattern = self._step(ends.pattern)
            passes.set_branches(memory, ends.nodes, ends.feature, ends.firsts, ends.code, pattern, link)
            home, astray = (
                Nodes.joined([leaves, ends.nodes]) if ends.astray == other else leaves
                for leaves, other in ((home, False), (astray, True))
            )
        if astray.count.sum() > home.count.sum():
            self.rows, self._room, astray = self._room, self.rows, home
        passes.bring_together(self.rows, self._room, astray)
        self.facts = self._totals()
        return grown.tree

    def _totals(self) -> FloatArray:
        """The facts about all rows as they are."""
        growth = self.how.growth
        return passes.totals(self.rows, self._cells, growth.link, growth.wanted)

    def _step(self, pattern: FloatArray) -> FloatArray:
        """What of a pattern is applied."""
        return applied(pattern, self.how.growth.link, self.how.rate)


def fit_trees(rows: Rows, offsets: Places, how: Boosting, most: int, seed: int) -> list[Tree]:
    """Up to `most` trees, as long as each lowers the loss of the rows that it was grown on."""
    if most == 0:
        return []
    loss = rowlosses.overall_for(how.growth, seed)
    boosted = Boosted(rows, offsets, how, rowlosses.search_for(how.growth, seed))
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
