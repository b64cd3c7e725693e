"""Growing one tree: level by level, each node split by the feature that leaves the least loss (Huang et al. 2022, 4.3).

Rows lie in memory in the order of the nodes that they are in. A level is three steps: sums over the rows of each node
by branch, the choice of a feature from these sums, and the rows put into the order of the new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.trees import kernels, passes
from calcli.methods.trees.kernels import Places
from calcli.methods.trees.nodes import Growth, Mask, Nodes, Rows

Search = Callable[[Rows, Nodes, Places, Growth], tuple[FloatArray, FloatArray]]
"""Finds out what becomes of the losses, as `passes.search` does."""


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree, an entry in each array for each node, level by level; number 0 is the root.

    Attributes
    ----------
    feature
        By which the node is split; -1 for a leaf.
    first, branches
        Its children are the nodes ``first`` .. ``first + branches - 1``, the first of them the rest.
    code
        Which code of its parent's feature leads to the node; 0 for a rest.
    pattern
        b or k.
    facts
        About its rows, see `kernels.tally`.
    local, split, overall
        The loss of its rows, the same once it is split, and that of all rows then; NaN where it is not split.
    """

    feature: Places
    first: Places
    branches: Places
    code: Places
    pattern: FloatArray
    facts: FloatArray
    local: FloatArray
    split: FloatArray
    overall: FloatArray

    def __len__(self) -> int:
        return len(self.feature)

    @classmethod
    def of_level(cls, nodes: Nodes, code: Places) -> Tree:
        """Nodes that are not split yet."""
        none, unknown = np.zeros(len(nodes), dtype=np.int64), np.full(len(nodes), np.nan)
        return cls(none - 1, none, none, code, nodes.pattern, nodes.facts, unknown, unknown, unknown)

    @classmethod
    def of_levels(cls, levels: Sequence[Tree]) -> Tree:
        return cls(*(np.concatenate([getattr(level, name) for level in levels]) for name in cls.__match_args__))


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree, and where its leaves' rows have come to rest: in the memory they came in, or in the other."""

    tree: Tree
    home: Nodes
    astray: Nodes


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """The best split of each node of a level, an entry for each node; `feature` is -1 where there is none."""

    feature: Places
    branches: Places
    local: FloatArray
    split: FloatArray
    change: FloatArray

    @property
    def made(self) -> Mask:
        return self.feature >= 0


@dataclass(slots=True, eq=False)
class _Overall:
    """What is known of all rows while nodes are split one by one; only sums tell what becomes of the whole."""

    growth: Growth
    root: Nodes
    found: FloatArray

    @classmethod
    def of(cls, root: Nodes, growth: Growth) -> _Overall:
        found = np.zeros((1, kernels.FOUND))
        kernels.judge_as_is(root.facts, root.pattern, growth.link, found)
        return cls(growth, root, found)

    def after(self, choice: _Choice) -> FloatArray:
        """The loss of all rows after each of the splits, in the order of the nodes."""
        loss = np.full(len(choice.feature), np.nan)
        if self.growth.split_loss in ("mvce", "nll"):
            found = self.found + np.cumsum(choice.change[choice.made], axis=0)
            loss[choice.made] = self.growth.losses(found, self.root.count, self.root.mass)
            self.found = found[-1:]
        return loss


def grow(rows: Rows, room: Rows, offsets: Places, growth: Growth, search: Search = passes.search) -> Grown:
    """Grow a tree on `rows`, which move to `room` and back from level to level."""
    nodes, code = passes.root_of(rows, growth), np.zeros(1, dtype=np.int64)
    overall = _Overall.of(nodes, growth)
    levels: list[Tree] = []
    resting: tuple[list[Nodes], list[Nodes]] = ([], [])
    known = 1
    for depth in range(growth.depth + 1):
        here, there = (rows, room) if depth % 2 == 0 else (room, rows)
        level = Tree.of_level(nodes, code)
        choice = _choose(here, nodes, offsets, growth, search) if depth < growth.depth else None
        if choice is None or not choice.made.any():
            levels.append(level)
            resting[depth % 2].append(nodes)
            break
        made = choice.made
        firsts = np.concatenate([[0], np.cumsum(choice.branches[made])])
        first = np.zeros(len(nodes), dtype=np.int64)
        first[made] = known + firsts[:-1]
        levels.append(
            replace(
                level,
                feature=choice.feature,
                first=first,
                branches=np.where(made, choice.branches, 0),
                local=choice.local,
                split=np.where(made, choice.split, np.nan),
                overall=overall.after(choice),
            )
        )
        known += int(firsts[-1])
        resting[depth % 2].append(nodes.where(~made))
        parents = nodes.where(made)
        code, facts = passes.split(here, there, parents, choice.feature[made], firsts, offsets, growth)
        nodes = _children(parents, firsts, facts, growth)
    return Grown(Tree.of_levels(levels), Nodes.joined(resting[0]), Nodes.joined(resting[1]))


def _choose(rows: Rows, nodes: Nodes, offsets: Places, growth: Growth, search: Search) -> _Choice:
    """For each node the split of least loss, if that is less than the loss of the node as it is."""
    feature, branches = np.full(len(nodes), -1), np.zeros(len(nodes), dtype=np.int64)
    local, split = np.full(len(nodes), np.nan), np.full(len(nodes), np.nan)
    change = np.zeros((len(nodes), kernels.FOUND))
    wide = nodes.mass >= growth.least
    if wide.any():
        some = nodes.where(wide)
        own, found = search(rows, some, offsets, growth)
        after = growth.losses(found, some.count[:, None], some.mass[:, None])
        after[found[..., kernels.BRANCHES] == 0] = np.inf
        best, each = after.argmin(axis=1), np.arange(len(some))
        local[wide], split[wide] = growth.losses(own, some.count, some.mass), after[each, best]
        feature[wide] = np.where(split[wide] < local[wide], best, -1)
        branches[wide] = found[each, best, kernels.BRANCHES]
        change[wide] = found[each, best] - own
    return _Choice(feature, branches, local, split, change)


def _children(parents: Nodes, firsts: Places, facts: FloatArray, growth: Growth) -> Nodes:
    """The nodes that splits have made; the rows of a parent are in their order."""
    pattern = np.empty(len(facts))
    kernels.set_children(facts, firsts, parents.pattern, growth.least, growth.link, growth.shrink, pattern)
    rows = facts[:, kernels.ROWS].astype(np.int64)
    before = np.cumsum(rows) - rows
    start = before + np.repeat(parents.start - before[firsts[:-1]], np.diff(firsts))
    return Nodes(start, start + rows, pattern, facts)
