"""A tree that cuts the feature space into cells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.methods.heterogeneous.coding import Codes, Coding, Mask

SMOOTHING = 10.0
"""For their order, the mean of each level is smoothed by so many rows with the mean of the node."""

DEEPEST = 12
"""The greatest depth of a leaf."""

Draw = Callable[[int, int], Mask]
"""From the numbers of nodes and of features: which features each node may split on."""


@dataclass(frozen=True)
class Tree:
    """Nodes, level by level from the root."""

    feature: IntArray
    """The feature that a node splits on, by its place in the coding; 0 for a leaf."""

    left: IntArray
    """The child of rows whose code is in `mask`; that of the others is the node after it. A leaf is its own child."""

    mask: Mask
    """For each node the codes that go left."""

    depth: IntArray
    """The depth of each node; 0 for the root."""

    def check(self, coding: Coding) -> None:
        """Raise a `ValueError` where this is no tree for such codes."""
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
            raise ValueError("a tree asks for features that do not exist")

    @property
    def is_leaf(self) -> Mask:
        leaves: Mask = self.left == np.arange(len(self.left))
        return leaves

    def path(self, codes: Codes) -> IntArray:
        """The node of each row, an array for each depth; rows stay in a leaf that they have reached."""
        rows = np.arange(codes.shape[1])
        nodes = [np.zeros(len(rows), dtype=np.int64)]
        for _ in range(int(self.depth.max())):
            goes_left = self.mask[nodes[-1], codes[self.feature[nodes[-1]], rows]]
            left = self.left[nodes[-1]]
            nodes.append(np.where(goes_left, left, left + 1))
        return np.stack(nodes)

    @property
    def leaf_index(self) -> IntArray:
        """The place among the leaves, for each node that is one."""
        return np.cumsum(self.is_leaf) - 1

    def leaf_of(self, codes: Codes) -> IntArray:
        """The leaf of each row, as its place among the leaves."""
        leaf: IntArray = self.leaf_index[self.path(codes)[-1]]
        return leaf

    @property
    def used(self) -> IntArray:
        """The features that the tree splits on."""
        return np.unique(self.feature[~self.is_leaf])

    def renumbered(self, feature: IntArray, width: int) -> Tree:
        """The tree for another coding of at most `width` codes; `feature` is the new place of each node's feature."""
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
    """A tree that is split as long as the squared error of `target` falls.

    The target is labels or residuals, a column for each class; one column of labels gives the splits of the Gini index.
    `depth` is the most splits above a leaf, `least` the least weight of a cell; without `draw` a node may split on all
    features.
    """
    sums = np.stack([weight, *(weight * column for column in target.T)])
    least_gain = 1e-9 * float(weight @ (target**2).sum(axis=1))
    levels = [_leaves(0, 1, 0, coding.width)]
    # The rows in nodes that may still be split, and the place of their node within the last level. Rows without weight,
    # a third of a bootstrap sample, add nothing.
    rows = np.flatnonzero(weight)
    place = np.zeros(len(rows), dtype=np.int64)
    for level in range(depth):
        # The best split of each node of the last level.
        last, first = levels[-1], sum(len(above.left) for above in levels[:-1])
        count = len(last.left)
        allowed = None if draw is None else draw(count, len(coding.features))
        split = _best_splits(coding, codes[:, rows], sums[:, rows], place, count, least, allowed)
        is_split = split.gain > least_gain
        if not is_split.any():
            break
        # The children of the nodes that are split become the next level.
        pair, below = np.cumsum(is_split) - 1, first + count
        feature = np.where(is_split, split.feature, 0)
        left = np.where(is_split, below + 2 * pair, last.left)
        levels[-1] = Tree(feature, left, split.mask | ~is_split[:, None], last.depth)
        levels.append(_leaves(below, 2 * int(is_split.sum()), level + 1, coding.width))
        # Their rows go left or right.
        rows, place = rows[is_split[place]], place[is_split[place]]
        goes_right = ~split.mask[place, codes[split.feature[place], rows]]
        place = 2 * pair[place] + goes_right
    return Tree(*(np.concatenate([getattr(level, name) for level in levels]) for name in Tree.__dataclass_fields__))


def _leaves(first: int, count: int, depth: int, width: int) -> Tree:
    nodes = np.arange(first, first + count)
    return Tree(np.zeros_like(nodes), nodes, np.ones((count, width), dtype=np.bool_), np.full(count, depth))


@dataclass(frozen=True)
class _Splits:
    """The best split of each node of a level; `gain` is the fall of the squared error."""

    gain: FloatArray
    feature: IntArray
    mask: Mask


def _best_splits(
    coding: Coding, codes: Codes, sums: FloatArray, place: IntArray, count: int, least: float, allowed: Mask | None
) -> _Splits:
    """The best split of each node; `place` is the node of each row, `sums` its weight and weighted targets."""
    # Sums for each node, and for each feature, node and code.
    total = _sums(place, sums, count)
    first_code = place * coding.width
    by_code = np.stack([_sums(first_code + of_feature, sums, count * coding.width) for of_feature in codes])
    by_code = by_code.reshape(len(codes), count, coding.width, -1)
    # The best cut of each feature in each order of its codes.
    orders = _orders(coding, by_code, total)
    cuts = [_best_cuts(by_code[features], total, order, least) for features, order in orders]
    gain, mask = (np.concatenate(parts) for parts in zip(*cuts, strict=True))
    feature = np.concatenate([features for features, _ in orders])
    if allowed is not None:
        gain = np.where(allowed.T[feature], gain, -np.inf)
    # The best feature of each node; of those that differ only by rounding the first.
    most = gain.max(axis=0)
    first = (gain >= most - 1e-9 * np.abs(most)).argmax(axis=0)
    nodes = np.arange(count)
    feature, mask = feature[first], mask[first, nodes]
    # Missing values and levels that the node has not seen go to the heavier side.
    seen = by_code[feature, nodes, :, 0] > 0
    seen[:, 1:] |= ~coding.categories[feature, None]
    heavier_left = 2 * np.where(mask, by_code[feature, nodes, :, 0], 0.0).sum(axis=1) >= total[:, 0]
    return _Splits(most, feature, np.where(seen, mask, heavier_left[:, None]))


def _sums(place: IntArray, values: FloatArray, count: int) -> FloatArray:
    return np.stack([np.bincount(place, weights=column, minlength=count) for column in values], axis=-1)


def _orders(coding: Coding, by_code: FloatArray, total: FloatArray) -> list[tuple[IntArray, IntArray | None]]:
    """Features, and for each feature and node an order of its codes to be cut in two; None is the order of the codes.

    Numbers keep their order, with missing values at either end. Levels are ordered by their mean target, for one of the
    cuts in this order is the best of all partitions in two (Breiman et al. 1984); with several targets, by each.
    """
    numbers, categories = np.flatnonzero(~coding.categories), np.flatnonzero(coding.categories)
    with_missing = numbers[by_code[numbers, :, 0, 0].any(axis=1)]
    overall = (total[:, 1:] / total[:, :1])[:, None]
    mean = (by_code[categories, ..., 1:] + SMOOTHING * overall) / (by_code[categories, ..., :1] + SMOOTHING)
    return [
        (numbers, None),
        (with_missing, np.broadcast_to(np.roll(np.arange(coding.width), -1), by_code[with_missing, ..., 0].shape)),
        *((categories, np.argsort(mean[..., target], axis=-1, kind="stable")) for target in range(mean.shape[-1])),
    ]


def _best_cuts(by_code: FloatArray, total: FloatArray, order: IntArray | None, least: float) -> tuple[FloatArray, Mask]:
    """The gain of the best cut for each feature and node, and the codes to its left."""
    in_order = by_code if order is None else np.take_along_axis(by_code, order[..., None], axis=2)
    left = np.cumsum(in_order, axis=2)[:, :, :-1]
    right = total[:, None] - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = _explained(left) + _explained(right) - _explained(total)[:, None]
    gain = np.where((left[..., 0] >= least) & (right[..., 0] >= least), gain, -np.inf)
    at = gain.argmax(axis=2)[..., None]
    mask = np.arange(by_code.shape[2]) <= at
    if order is not None:
        before, mask = mask, np.empty_like(mask)
        np.put_along_axis(mask, order, before, axis=2)
    return np.take_along_axis(gain, at, axis=2)[..., 0], mask


def _explained(sums: FloatArray) -> FloatArray:
    """The sum of squares that the mean explains, from sums of the weights, and of weight times each target."""
    result: FloatArray = (sums[..., 1:] ** 2).sum(axis=-1) / sums[..., 0]
    return result
