"""A tree that cuts the feature space into cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.methods.heterogeneous.coding import Codes, Coding

SMOOTHING = 10.0
"""How many rows like those of the whole node a level is given before levels are put in order."""

DEEPEST = 12
"""The most conditions on the way to a cell."""

Mask = NDArray[np.bool_]

Draw = Callable[[int, int], Mask]
"""Which of so many features each of so many nodes may split on."""


@dataclass(frozen=True)
class Tree:
    """Nodes, level by level from the root.

    Attributes
    ----------
    feature
        The feature that a node splits on, by its place in the coding; 0 for a leaf.
    left
        Where the rows go whose code is in `mask`; the others go to the node after it. A leaf sends all to itself.
    mask
        Codes that go left, a row for each node.
    depth
        Of each node; 0 for the root.
    """

    feature: IntArray
    left: IntArray
    mask: Mask
    depth: IntArray

    def check(self, coding: Coding) -> None:
        """A `ValueError` where this is no tree for such codes: rows would go in circles, or nowhere."""
        nodes = len(self.left)
        place, inner = np.arange(nodes), ~self.is_leaf
        whole = all(
            array.dtype.kind == "i" and array.shape == (nodes,) for array in (self.feature, self.left, self.depth)
        )
        if not nodes or not whole or self.mask.dtype != np.bool_ or self.mask.shape != (nodes, coding.width):
            raise ValueError("a tree's arrays are not those of a tree")
        below = self.left[inner]
        if (self.left < place).any() or (below + 1 >= nodes).any() or not 0 <= self.depth.max() <= DEEPEST:
            raise ValueError("a tree's nodes lead nowhere")
        if (self.feature < 0).any() or (self.feature[inner] >= len(coding.features)).any():
            raise ValueError("a tree asks for features that are not there")

    @property
    def is_leaf(self) -> Mask:
        found: Mask = self.left == np.arange(len(self.left))
        return found

    def path(self, codes: Codes) -> IntArray:
        """The node of each row at each depth; what is a leaf before stays. A row for each depth."""
        rows = np.arange(codes.shape[1])
        node = np.zeros(len(rows), dtype=np.int64)
        found = [node]
        for _ in range(int(self.depth.max())):
            goes_left = self.mask[node, codes[self.feature[node], rows]]
            here = self.left[node]
            node = np.where(goes_left, here, here + 1)
            found.append(node)
        return np.stack(found)

    def pruned(self, depth: int) -> Tree:
        """The same, cut off at a depth."""
        kept = self.depth <= depth
        cut = self.depth[kept] == depth
        nodes = np.arange(len(cut))
        return Tree(
            np.where(cut, 0, self.feature[kept]),
            np.where(cut, nodes, self.left[kept]),
            self.mask[kept] | cut[:, None],
            self.depth[kept],
        )

    @property
    def leaf_index(self) -> IntArray:
        """The place of each leaf among the leaves, by node."""
        return np.cumsum(self.is_leaf) - 1

    @property
    def asked(self) -> IntArray:
        """The features that it splits on."""
        return np.unique(self.feature[~self.is_leaf])

    def renumbered(self, feature: IntArray, width: int) -> Tree:
        """The same for another coding, of at most `width` codes."""
        return replace(self, feature=np.where(self.is_leaf, 0, feature), mask=self.mask[:, :width])


def grow(
    coding: Coding,
    codes: Codes,
    target: FloatArray,
    weight: FloatArray,
    *,
    depth: int,
    least: float,
    draw: Draw | None = None,
) -> Tree:
    """Split as long as the squared error of `target` falls, each cell keeping a weight of `least` or more.

    Parameters
    ----------
    coding, codes
        The features, and the rows in their codes.
    target
        A column for each number that is to differ between cells: labels, or what is left of them. One column of labels
        gives the splits of the Gini index.
    weight
        Of the rows.
    least
        The weight that a cell keeps at least.
    depth
        The most splits above a leaf.
    draw
        Which features a node may split on; all where it is not given.
    """
    sums = np.column_stack([weight, weight[:, None] * target])
    worthwhile = 1e-9 * float(weight @ (target**2).sum(axis=1))
    nodes = [_leaves(0, 1, 0, coding.width)]
    rows, place = np.arange(len(weight)), np.zeros(len(weight), dtype=np.int64)  # of the rows that may still be split
    for level in range(depth):
        count, first = len(nodes[-1].left), sum(len(each.left) for each in nodes[:-1])
        allowed = None if draw is None else draw(count, len(coding.features))
        split = _best_splits(coding, codes[:, rows], sums[rows], place, count, least, allowed)
        divided = split.gain > worthwhile
        if not divided.any():
            break
        child = np.cumsum(divided) - 1
        below = first + count
        nodes[-1] = Tree(
            np.where(divided, split.feature, 0),
            np.where(divided, below + 2 * child, nodes[-1].left),
            split.mask | ~divided[:, None],
            nodes[-1].depth,
        )
        nodes.append(_leaves(below, 2 * int(divided.sum()), level + 1, coding.width))
        rows, place = rows[divided[place]], place[divided[place]]
        goes_right = ~split.mask[place, codes[split.feature[place], rows]]
        place = 2 * child[place] + goes_right
    return Tree(*(np.concatenate([getattr(each, name) for each in nodes]) for name in Tree.__dataclass_fields__))


def _leaves(first: int, count: int, depth: int, width: int) -> Tree:
    nodes = np.arange(first, first + count)
    return Tree(np.zeros_like(nodes), nodes, np.ones((count, width), dtype=np.bool_), np.full(count, depth))


@dataclass(frozen=True)
class _Splits:
    """The best split of each node of a level, and by how much it lowers the squared error."""

    gain: FloatArray
    feature: IntArray
    mask: Mask


def _best_splits(
    coding: Coding, codes: Codes, sums: FloatArray, place: IntArray, count: int, least: float, allowed: Mask | None
) -> _Splits:
    """`place` is the node of each row, `sums` its weight and its targets times that."""
    total = _added(place, sums, count)
    by_code = np.stack([_added(place * coding.width + own, sums, count * coding.width) for own in codes])
    by_code = by_code.reshape(len(codes), count, coding.width, -1)
    orders = _orders(coding, by_code, total)
    found = [_best_cuts(by_code[features], total, order, least) for features, order in orders]
    gain, mask = (np.concatenate(parts) for parts in zip(*found, strict=True))
    feature = np.concatenate([features for features, _ in orders])
    if allowed is not None:
        gain = np.where(allowed.T[feature], gain, -np.inf)
    most = gain.max(axis=0)
    first = (gain >= most - 1e-9 * np.abs(most)).argmax(axis=0)  # what is as good but for rounding goes by order
    nodes = np.arange(count)
    feature, mask = feature[first], mask[first, nodes]
    known = by_code[feature, nodes, :, 0] > 0
    known[:, 1:] |= ~coding.categories[feature, None]
    heavier_left = 2 * np.where(mask, by_code[feature, nodes, :, 0], 0.0).sum(axis=1) >= total[:, 0]
    return _Splits(most, feature, np.where(known, mask, heavier_left[:, None]))


def _added(place: IntArray, sums: FloatArray, count: int) -> FloatArray:
    return np.stack([np.bincount(place, weights=column, minlength=count) for column in sums.T], axis=-1)


def _orders(coding: Coding, by_code: FloatArray, total: FloatArray) -> list[tuple[IntArray, IntArray]]:
    """Features, and an order of their codes in which a cut is looked for: for each feature and node.

    Numbers keep theirs, with the missing ones at either end. Levels are put in the order of their means, which holds
    the best of all divisions in two (Breiman et al. 1984); with several targets, of each of them.
    """
    natural = np.arange(coding.width)
    numbers, categories = np.flatnonzero(~coding.categories), np.flatnonzero(coding.categories)
    gaps = numbers[by_code[numbers, :, 0, 0].any(axis=1)]
    overall = (total[:, 1:] / total[:, :1])[:, None]
    mean = (by_code[categories, ..., 1:] + SMOOTHING * overall) / (by_code[categories, ..., :1] + SMOOTHING)
    return [
        (numbers, np.broadcast_to(natural, (len(numbers), *by_code.shape[1:3]))),
        (gaps, np.broadcast_to(np.roll(natural, -1), (len(gaps), *by_code.shape[1:3]))),
        *((categories, np.argsort(mean[..., target], axis=-1, kind="stable")) for target in range(mean.shape[-1])),
    ]


def _best_cuts(by_code: FloatArray, total: FloatArray, order: IntArray, least: float) -> tuple[FloatArray, Mask]:
    """For each feature and node the cut that lowers the squared error most, and the codes to its left."""
    left = np.cumsum(np.take_along_axis(by_code, order[..., None], axis=2), axis=2)[:, :, :-1]
    right = total[:, None] - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = _explained(left) + _explained(right) - _explained(total)[:, None]
    gain = np.where((left[..., 0] >= least) & (right[..., 0] >= least), gain, -np.inf)
    at = gain.argmax(axis=2)[..., None]
    mask = np.empty(order.shape, dtype=np.bool_)
    np.put_along_axis(mask, order, np.arange(order.shape[2]) <= at, axis=2)
    return np.take_along_axis(gain, at, axis=2)[..., 0], mask


def _explained(sums: FloatArray) -> FloatArray:
    result: FloatArray = (sums[..., 1:] ** 2).sum(axis=-1) / sums[..., 0]
    return result
