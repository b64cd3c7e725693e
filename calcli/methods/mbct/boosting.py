"""Boosting: each tree starts from the probabilities of those before it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from calcli.methods.mbct.grow import Tree, TreeRows, grow
from calcli.methods.mbct.nodes import Growth


@dataclass(frozen=True, slots=True)
class Boosting:
    """The settings of boosting; `rate` is the fraction of a tree's step that is taken."""

    growth: Growth
    rate: float


@dataclass(eq=False)
class Boosted:
    """An endless iterator over trees; the rows are calibrated by each."""

    rows: TreeRows
    boosting: Boosting

    def __iter__(self) -> Iterator[Tree]:
        return self

    def __next__(self) -> Tree:
        """Grow a tree, and calibrate the rows by it."""
        tree = grow(self.rows, self.boosting.growth)
        self.rows.calibrate(tree, self.boosting.rate)
        return tree


def fit_trees(rows: TreeRows, boosting: Boosting, most: int) -> list[Tree]:
    """Up to `most` trees, as long as each lowers the loss of the rows that it was grown on."""
    trees: list[Tree] = []
    before = rows.loss()
    for tree in islice(Boosted(rows, boosting), most):
        after = rows.loss()
        if not after < before:
            break
        trees.append(tree)
        before = after
        if len(tree) == 1:
            break  # the next would be the same
    return trees
