"""Growing one tree: level by level, each node split by the feature that leaves the least loss (Huang et al. 2022, 4.3).

Rows lie in memory in the order of the nodes that they are in. A level is three steps: sums over the rows of each node
by branch, the choice of a feature from these sums, and the rows put into the order of the new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct import level_passes as passes
from calcli.methods.mbct.kernels import Codes, Places
from calcli.methods.mbct.kernels import split_search as searching
from calcli.methods.mbct.nodes import Cells, Growth, Mask, Nodes, Rows, Splits

Search = Callable[[Rows, Nodes, Cells, Growth], Splits]
"""Finds out how nodes could be split, as `passes.search` does."""


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
        About its rows, see `kernels.FACTS`.
    local, split, overall
        The loss of its rows, the same once it is split, and that of all rows then; NaN where it is not split.
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
class Ends:
    """Nodes whose children are leaves: their rows need not be put into the order of these.

    `astray` is whether the rows are in the other memory; the rest is what `passes.set_branches` takes.
    """

    astray: bool
    nodes: Nodes
    feature: Places
    firsts: Places
    code: Codes
    pattern: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """A tree, and where its rows have come to rest: in the memory they came in (`home`), or in the other.

    Rows are in order of the leaves that are `home` or `astray`, and of the nodes that are `ends`.
    """

    tree: Tree
    home: Nodes
    astray: Nodes
    ends: Ends | None


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """The best split of each node of a level, an entry for each node; `feature` is -1 where there is none.

    `base` is where its branches stand in the splits, `change` what it changes in what `searching.judge` finds.
    """

    feature: Places
    branches: Places
    base: Places
    local: FloatArray
    split: FloatArray
    change: FloatArray

    @classmethod
    def none(cls, nodes: int) -> _Choice:
        zero, unknown = np.zeros(nodes, dtype=np.int64), np.full(nodes, np.nan)
        return cls(zero - 1, zero.copy(), zero.copy(), unknown, unknown.copy(), np.zeros((nodes, kernels.FOUND)))

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
        searching.judge_as_is(root.facts, root.pattern, growth.link, found)
        return cls(growth, root, found)

    def after(self, choice: _Choice) -> FloatArray:
        """The loss of all rows after each of the splits, in the order of the nodes."""
        loss = np.full(len(choice.feature), np.nan)
        if self.growth.split_loss in ("mvce", "nll"):
            found = self.found + np.cumsum(choice.change[choice.made], axis=0)
            loss[choice.made] = self.growth.losses(found, self.root.count, self.root.mass)
            self.found = found[-1:]
        return loss


def grow(
    rows: Rows, room: Rows, cells: Cells, facts: FloatArray, growth: Growth, search: Search = passes.search
) -> Grown:
    """Grow a tree on `rows`, about which these are the facts; they move to `room` and back from level to level."""
    nodes, code = passes.root_of(rows, facts, growth), np.zeros(1, dtype=np.uint16)
    overall = _Overall.of(nodes, growth)
    levels: list[Tree] = []
    resting: tuple[list[Nodes], list[Nodes]] = ([], [])
    ends: Ends | None = None
    known = 1
    for depth in range(growth.depth):
        here, there = (rows, room) if depth % 2 == 0 else (room, rows)
        level = Tree.of_level(nodes, code)
        wide = nodes.mass >= growth.least
        if not wide.any():
            levels.append(level)
            resting[depth % 2].append(nodes)
            break
        splits = search(here, nodes.where(wide), cells, growth)
        choice = _choose(splits, nodes, wide, growth)
        made = choice.made
        firsts = np.concatenate([[0], np.cumsum(choice.branches[made])])
        first = np.zeros(len(nodes), dtype=np.int64)
        first[made] = known + firsts[:-1]
        known += int(firsts[-1])
        levels.append(
            replace(
                level,
                feature=choice.feature,
                first=first,
                branches=choice.branches,
                local=choice.local,
                split=choice.split,
                overall=overall.after(choice),
            )
        )
        resting[depth % 2].append(nodes.where(~made))
        if not made.any():
            break
        parents, feature = nodes.where(made), choice.feature[made]
        code, nodes = _children(parents, choice.base[made], firsts, splits, growth)
        if depth + 1 < growth.depth:
            passes.split(here, there, parents, feature, firsts, code, nodes.start)
        else:
            levels.append(Tree.of_level(nodes, code))
            ends = Ends(depth % 2 == 1, parents, feature, firsts, code, nodes.pattern)
    return Grown(Tree.of_levels(levels), Nodes.joined(resting[0]), Nodes.joined(resting[1]), ends)


def _choose(splits: Splits, nodes: Nodes, wide: Mask, growth: Growth) -> _Choice:
    """For each node the split of least loss, if that is less than the loss of the node as it is."""
    some, each = nodes.where(wide), np.arange(int(wide.sum()))
    after = growth.losses(splits.found, some.count[:, None], some.mass[:, None])
    after[splits.found[..., kernels.BRANCHES] == 0] = np.inf
    best = after.argmin(axis=1)
    local, split = growth.losses(splits.own, some.count, some.mass), after[each, best]
    made = split < local
    choice = _Choice.none(len(nodes))
    choice.local[wide], choice.split[wide] = local, np.where(made, split, np.nan)
    choice.feature[wide] = np.where(made, best, -1)
    choice.branches[wide] = np.where(made, splits.found[each, best, kernels.BRANCHES], 0)
    choice.base[wide] = splits.bases[each, best]
    choice.change[wide] = splits.found[each, best] - splits.own
    return choice


def _children(parents: Nodes, bases: Places, firsts: Places, splits: Splits, growth: Growth) -> tuple[Codes, Nodes]:
    """The children of split nodes: which code leads to each, and where its rows are once they are in order."""
    of_parent = np.repeat(bases - firsts[:-1], np.diff(firsts)) + np.arange(firsts[-1])
    code, facts = splits.code[of_parent], splits.facts[of_parent]
    pattern = np.empty(len(facts))
    searching.set_children(facts, firsts, parents.pattern, growth.least, growth.link, growth.shrink, pattern)
    count = facts[:, kernels.COUNT].astype(np.int64)
    before = np.cumsum(count) - count
    start = before + np.repeat(parents.start - before[firsts[:-1]], np.diff(firsts))
    return code, Nodes(start, start + count, pattern, facts)
