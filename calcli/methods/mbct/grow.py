"""Growing one tree: level by level, each node split by the feature that leaves the least loss (Huang et al. 2022, 4.3).

A level takes three steps: sums over the rows of each node by cell, which tell the loss after each split; the choice of
a feature for each node (equation 12); and the rows handed on to the new nodes. The first and the last are those of
`TreeRows`: in the memory of this machine, or on a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.base import ranges
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.kernels import Children, Codes, Places, Splits, split_search
from calcli.methods.mbct.level_passes import Growth, Mask, Nodes


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree, an entry in each array for each node, level by level; number 0 is the root."""

    feature: Places
    """The one that the node is split by; -1 for a leaf."""

    first: Places
    branches: Places
    """`first`, `branches`: its children are the nodes ``first`` .. ``first + branches - 1``, the first of them the
    rest.
    """

    code: Codes
    """The code of its parent's feature that leads to the node; 0 for a rest."""

    pattern: FloatArray
    """b or k."""

    facts: FloatArray
    """Of its rows, see `kernels.FACTS`."""

    local: FloatArray
    split: FloatArray
    overall: FloatArray
    """`local`, `split`, `overall`: the loss of its rows before and after the split, and the loss of all rows then; NaN
    where there is none.
    """

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def of_level(cls, nodes: Nodes, code: Codes) -> Tree:
        none, unknown = np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), np.nan)
        return cls(none - 1, none, none, code, nodes.pattern, nodes.facts, unknown, unknown, unknown)

    @classmethod
    def of_levels(cls, levels: Sequence[Tree]) -> Tree:
        return cls(*map(np.concatenate, zip(*map(_ARRAYS, levels), strict=True)))


_ARRAYS: Callable[[Tree], tuple[NDArray[Any], ...]] = attrgetter(*Tree.__match_args__)


class _Choice(NamedTuple):
    """The splits of a level, an entry for each node."""

    feature: Places
    branches: Places
    local: FloatArray
    split: FloatArray
    """`feature`, `branches`, `local`, `split`: as in `Tree`."""

    base: Places
    change: FloatArray
    """`base`, `change`: where its branches begin in `Splits`, and the change of the outcome."""


class TreeRows(Protocol):
    """The rows that trees grow on, wherever they are; each is at a node of the growing level, at first at the root."""

    facts: FloatArray
    """Of all rows, see `kernels.FACTS`."""

    def search(self, levels: Sequence[Tree], nodes: Nodes, heavy: Mask) -> Splits:
        """The branches that each heavy node of the last of the levels would have by each feature, and the outcome."""
        ...

    def split(self, nodes: Nodes, made: Mask, children: Children, into: Nodes, *, last: bool) -> None:
        """Hand rows on to the nodes `into`, the children of those of the nodes that are `made`, that is, split.

        The others are leaves, and so are all children of the last level.
        """
        ...

    def calibrate(self, tree: Tree) -> None:
        """Calibrate the rows by a fraction of the step of the tree that has grown, and bring them back to the root."""
        ...

    def loss(self) -> float:
        """The loss of all rows as calibrated so far."""
        ...


def grow(rows: TreeRows, growth: Growth) -> Tree:
    root = nodes = passes.root_of(rows.facts, growth)
    code = np.zeros(1, dtype=np.uint16)
    # The outcome for all rows while nodes are split one by one: an outcome is a sum over rows, so its changes add.
    outcome = passes.unsplit_outcome(root.facts[0], float(root.pattern[0]), growth.link)
    levels: list[Tree] = []
    tree_size = 1
    for depth in range(growth.depth):
        level, last = Tree.of_level(nodes, code), depth + 1 == growth.depth
        heavy = nodes.mass >= growth.min_weight
        if not heavy.any():
            levels.append(level)
            break

        # The best split of each node.
        splits = rows.search([*levels, level], nodes, heavy)
        chosen = _choose(splits, nodes, heavy, growth)
        made = chosen.feature >= 0
        firsts = np.concatenate([[0], np.cumsum(chosen.branches[made])])

        # The level as it will be kept, with the loss of all rows after each of the splits.
        overall = np.full(len(nodes), np.nan)
        if growth.sums_tell:
            outcomes = outcome + np.cumsum(chosen.change[made], axis=0)
            overall[made], outcome = growth.losses(outcomes, root.count, root.mass), outcomes[-1:]
        first = np.zeros(len(nodes), dtype=np.int64)
        first[made] = tree_size + firsts[:-1]
        tree_size += int(firsts[-1])
        feature, branches, local, split, base, _ = chosen
        levels.append(Tree(feature, first, branches, code, nodes.pattern, nodes.facts, local, split, overall))
        if len(firsts) == 1:
            break

        # The next level: its nodes, and the rows handed on to them.
        parents = nodes.take(made)
        code, into = _children(parents, base[made], firsts, splits, growth)
        children = Children(feature[made], firsts[:-1], firsts[1:], code)
        rows.split(nodes, made, children, into, last=last)
        nodes = into
        if last:
            levels.append(Tree.of_level(nodes, code))
    return Tree.of_levels(levels)


def _choose(splits: Splits, nodes: Nodes, heavy: Mask, growth: Growth) -> _Choice:
    """The split of least loss for each node, if that is less than the loss of the node as it is.

    `splits` is about the `heavy` nodes; the others have none.
    """
    # The least loss of all features, for each heavy node.
    searched, each = nodes.take(heavy), np.arange(int(heavy.sum()))
    after = growth.losses(splits.outcome, searched.count[:, None], searched.mass[:, None])
    np.copyto(after, np.inf, where=splits.outcome[..., kernels.BRANCHES] == 0)
    best = after.argmin(axis=1)
    outcome, split = splits.outcome[each, best], after[each, best]
    local = growth.losses(splits.unsplit, searched.count, searched.mass)
    made = split < local

    # For all nodes.
    def spread(values: NDArray[Any], other: float) -> NDArray[Any]:
        if len(values) == len(nodes):
            return values
        result = np.full((len(nodes), *values.shape[1:]), other, dtype=values.dtype)
        result[heavy] = values
        return result

    return _Choice(
        spread(np.where(made, best, -1), -1),
        spread(np.where(made, outcome[:, kernels.BRANCHES], 0).astype(np.int64), 0),
        spread(local, np.nan),
        spread(np.where(made, split, np.nan), np.nan),
        spread(splits.base[each, best], 0),
        spread(outcome - splits.unsplit, 0.0),
    )


def _children(parents: Nodes, bases: Places, firsts: Places, splits: Splits, growth: Growth) -> tuple[Codes, Nodes]:
    """The code that leads to each child of split nodes, and the children, with the range that their rows will move to.

    Parents' branches start at `bases` in `splits`; their children are to be number ``firsts[parent]`` on.
    """
    # Their facts are those of the branches, and tell their patterns.
    branches = np.diff(firsts)
    branch = ranges(bases, branches)
    code, facts = splits.code[branch], splits.facts[branch]
    pattern = np.empty(len(facts))
    split_search.fit_children(facts, firsts, parents.pattern, growth.rule, pattern)
    # Their rows: one child after the other within the range of the parent.
    count = facts[:, kernels.COUNT].astype(np.int64)
    before = np.cumsum(count) - count
    start = before + np.repeat(parents.start - before[firsts[:-1]], branches)
    return code, Nodes(start, start + count, pattern, facts)
