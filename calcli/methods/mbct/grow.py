"""Growing one tree: level by level, each node split by the feature that leaves the least loss (Huang et al. 2022, 4.3).

The rows of a node are a range of a buffer. A level takes three steps: sums over the rows of each node by cell, which
tell the loss after each split; the choice of a feature for each node (equation 12); and the rows moved to the ranges of
the new nodes. They cannot move within a buffer, so there are two: rows of level d are in number d % 2, and those of a
leaf stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.kernels import Cells, Children, Codes, Places, Splits, split_search
from calcli.methods.mbct.nodes import Growth, Mask, Nodes, Rows

Search = Callable[[Rows, Nodes, Cells, Growth], Splits]
"""What each split of each node would do to the loss, as `passes.search` finds it."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree, an entry in each array for each node, level by level; number 0 is the root.

    Attributes
    ----------
    feature
        The one that the node is split by; -1 for a leaf.
    first, branches
        Its children are the nodes ``first`` .. ``first + branches - 1``, the first of them the rest.
    code
        The code of its parent's feature that leads to the node; 0 for a rest.
    pattern
        b or k.
    facts
        Of its rows, see `kernels.FACTS`.
    local, split, overall
        The loss of its rows, the same after the split, and that of all rows then; NaN where there is none.
    """

    feature: Places
    first: Places
    branches: Places
    code: Codes
    pattern: FloatArray
    facts: FloatArray
    local: FloatArray
    split: FloatArray
    overall: FloatArray

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def of_level(cls, nodes: Nodes, code: Codes) -> Tree:
        """Nodes that are not split yet."""
        none, unknown = np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), np.nan)
        return cls(none - 1, none, none, code, nodes.pattern, nodes.facts, unknown, unknown, unknown)

    @classmethod
    def of_levels(cls, levels: Sequence[Tree]) -> Tree:
        return cls(*(np.concatenate([getattr(level, name) for level in levels]) for name in cls.__match_args__))


@dataclass(frozen=True, slots=True, eq=False)
class LastSplits:
    """The splits of the last level. Their children are leaves, so their rows are not moved: they lie by parent."""

    buffer: int
    parents: Nodes
    children: Children
    pattern: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree, and where its rows are: `leaves` has those whose rows are in the first and in the second buffer."""

    tree: Tree
    leaves: tuple[Nodes, Nodes]
    last: LastSplits | None


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """The best split of each node of a level, an entry for each node; `feature` is -1 where there is none.

    `base` is where its branches begin in `Splits`, `change` the change of the outcome.
    """

    feature: Places
    branches: Places
    base: Places
    local: FloatArray
    split: FloatArray
    change: FloatArray


@dataclass(slots=True, eq=False)
class _Overall:
    """The outcome for all rows while nodes are split one by one: outcomes are sums over rows, so their changes add."""

    growth: Growth
    root: Nodes
    outcome: FloatArray

    @classmethod
    def of(cls, root: Nodes, growth: Growth) -> _Overall:
        outcome = np.zeros((1, kernels.OUTCOMES))
        split_search.judge_unsplit(root.facts[0], float(root.pattern[0]), growth.link, outcome[0])
        return cls(growth, root, outcome)

    def after(self, choice: _Choice) -> FloatArray:
        """The loss of all rows after each of the splits, in the order of the nodes; NaN where there is none."""
        loss, made = np.full(len(choice.feature), np.nan), choice.feature >= 0
        if self.growth.split_loss in ("mvce", "nll"):
            outcomes = self.outcome + np.cumsum(choice.change[made], axis=0)
            loss[made] = self.growth.losses(outcomes, self.root.count, self.root.mass)
            self.outcome = outcomes[-1:]
        return loss


def grow(
    buffers: tuple[Rows, Rows], cells: Cells, facts: FloatArray, growth: Growth, search: Search = passes.search
) -> Grown:
    """Grow a tree on the rows of the first buffer, which have these facts; what the second holds is lost."""
    nodes, code = passes.root_of(buffers[0], facts, growth), np.zeros(1, dtype=np.uint16)
    overall = _Overall.of(nodes, growth)
    levels: list[Tree] = []
    leaves: tuple[list[Nodes], list[Nodes]] = ([], [])
    last: LastSplits | None = None
    tree_size = 1
    for depth in range(growth.depth):
        here, there = depth % 2, 1 - depth % 2
        level = Tree.of_level(nodes, code)
        heavy = nodes.mass >= growth.min_weight
        if not heavy.any():
            levels.append(level)
            leaves[here].append(nodes)
            break

        # The best split of each node.
        splits = search(buffers[here], nodes.take(heavy), cells, growth)
        choice = _choose(splits, nodes, heavy, growth)
        made = choice.feature >= 0
        firsts = np.concatenate([[0], np.cumsum(choice.branches[made])])

        # The level as it will be kept; its leaves rest where they are.
        first = np.zeros(len(nodes), dtype=np.int64)
        first[made] = tree_size + firsts[:-1]
        tree_size += int(firsts[-1])
        level = replace(level, feature=choice.feature, first=first, branches=choice.branches)
        levels.append(replace(level, local=choice.local, split=choice.split, overall=overall.after(choice)))
        leaves[here].append(nodes.take(~made))
        if not made.any():
            break

        # The next level: its nodes, and their rows moved to the other buffer. Those of the last level stay.
        parents = nodes.take(made)
        code, nodes = _children(parents, choice.base[made], firsts, splits, growth)
        children = Children(choice.feature[made], firsts[:-1], firsts[1:], code)
        if depth + 1 < growth.depth:
            passes.move_to_children(buffers[here], buffers[there], parents, children, nodes.start)
        else:
            levels.append(Tree.of_level(nodes, code))
            last = LastSplits(here, parents, children, nodes.pattern)
    return Grown(Tree.of_levels(levels), (Nodes.joined(leaves[0]), Nodes.joined(leaves[1])), last)


def _choose(splits: Splits, nodes: Nodes, heavy: Mask, growth: Growth) -> _Choice:
    """For each node the split of least loss, if that is less than the loss of the node as it is.

    `splits` is about the `heavy` ones of the nodes; the others have none.
    """
    # The least loss of all features, for each heavy node.
    searched, each = nodes.take(heavy), np.arange(int(heavy.sum()))
    after = growth.losses(splits.outcome, searched.count[:, None], searched.mass[:, None])
    after[splits.outcome[..., kernels.BRANCHES] == 0] = np.inf
    best = after.argmin(axis=1)
    outcome, split = splits.outcome[each, best], after[each, best]
    local = growth.losses(splits.unsplit, searched.count, searched.mass)
    made = split < local

    # The same for all nodes.
    def spread(values: NDArray[Any], other: float) -> NDArray[Any]:
        result = np.full((len(nodes), *values.shape[1:]), other, dtype=values.dtype)
        result[heavy] = values
        return result

    return _Choice(
        feature=spread(np.where(made, best, -1), -1),
        branches=spread(np.where(made, outcome[:, kernels.BRANCHES], 0).astype(np.int64), 0),
        base=spread(splits.base[each, best], 0),
        local=spread(local, np.nan),
        split=spread(np.where(made, split, np.nan), np.nan),
        change=spread(outcome - splits.unsplit, 0.0),
    )


def _children(parents: Nodes, bases: Places, firsts: Places, splits: Splits, growth: Growth) -> tuple[Codes, Nodes]:
    """The children of split nodes: which code leads to each, and the node, with its rows where they will be moved to.

    Parents' branches start at `bases` in `splits`; their children are to be number ``firsts[parent]`` on.
    """
    # Their facts are those of the branches, and tell their patterns.
    branch = np.repeat(bases - firsts[:-1], np.diff(firsts)) + np.arange(firsts[-1])
    code, facts = splits.code[branch], splits.facts[branch]
    pattern = np.empty(len(facts))
    split_search.fit_children(facts, firsts, parents.pattern, growth.rule, pattern)
    # Their rows: one child after the other within the range of the parent.
    count = facts[:, kernels.COUNT].astype(np.int64)
    before = np.cumsum(count) - count
    start = before + np.repeat(parents.start - before[firsts[:-1]], np.diff(firsts))
    return code, Nodes(start, start + count, pattern, facts)
