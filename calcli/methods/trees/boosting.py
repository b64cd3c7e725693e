"""Trees one after the other: each starts from what the ones before it have made of the probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from calcli.methods.trees import passes, rowlosses
from calcli.methods.trees.forest import applied
from calcli.methods.trees.growing import Search, Tree, grow
from calcli.methods.trees.kernels import Places
from calcli.methods.trees.nodes import Growth, Nodes, Rows


@dataclass(frozen=True, slots=True)
class Boosting:
    """How trees follow one another; `rate` is the fraction of a tree's step that is taken."""

    growth: Growth
    rate: float


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """A tree, and the rows as it has left them: calibrated, and in another order."""

    tree: Tree
    rows: Rows


def boosted(rows: Rows, offsets: Places, how: Boosting, search: Search) -> Iterator[Step]:
    """Tree after tree, without end; the memory of `rows` is used."""
    room, link = rows.room(), how.growth.link
    while True:
        grown = grow(rows, room, offsets, how.growth, search)
        home, astray = grown.home, grown.astray
        if astray.count.sum() > home.count.sum():
            rows, room, home, astray = room, rows, astray, home
        passes.bring_together(rows, room, astray)
        leaves = Nodes.joined([home, astray])
        passes.set_patterns(rows, leaves, applied(leaves.pattern, link, how.rate), link)
        yield Step(grown.tree, rows)


def fit_trees(rows: Rows, offsets: Places, how: Boosting, most: int, seed: int) -> list[Tree]:
    """Up to `most` trees, as long as each lowers the loss of the rows that it was grown on."""
    search, loss = rowlosses.search_for(how.growth, seed), rowlosses.overall_for(how.growth, seed)
    trees: list[Tree] = []
    before = loss(rows)
    for step in islice(boosted(rows, offsets, how, search), most):
        after = loss(step.rows)
        if not after < before:
            break
        trees.append(step.tree)
        before = after
        if len(step.tree) == 1:
            break  # the next would be the same
    return trees
