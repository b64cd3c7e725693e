"""From values to codes, and from codes through all trees to calibrated scores."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.mbct.kernels import ODDS, Codes, Flags, Places, Table
from calcli.methods.trees.compiled import compiled
from calcli.numeric.links import CLIP

STRIDE = 1 << 10
"""The rows that go through all trees at a time, see `apply_trees`."""


@compiled
def encode_categories(values: NDArray[np.int32], table: Codes, start: int, stop: int, out: Codes, place: int) -> None:
    """The code of each category by its place in the batch's levels; a missing one takes the table's last entry."""
    last = np.uint32(len(table) - 1)
    for row in range(start, stop):
        out[row, place] = table[min(np.uint32(values[row]), last)]  # -1 is the greatest of all


class Walk(NamedTuple):
    """Trees as `apply_trees` takes them."""

    roots: Table
    depths: Places
    """`roots`, `depths`: of each tree: its root, and the most conditions on the way to a leaf."""

    nodes: NDArray[np.uint64]
    """From the highest bit on: the feature (15 bits), the greatest code with a branch of its own plus one (17), and
    where the node's part of `children` begins (32).
    """

    children: Table
    """For each node the child of each code up to that, and at last that of all greater codes, the rest. A leaf is its
    own child.
    """

    pattern: FloatArray
    """Of each node."""

    bound: FloatArray
    """Of each node: a factor takes no probability beyond it that did not lie there."""


@compiled
def apply_trees(codes: Codes, score: FloatArray, link: int, walk: Walk, at: Table) -> None:
    """Calibrate rows by one tree after the other; `score` is z for ``odds`` and p for ``linear``, and is changed.

    As a leaf is its own child, all rows take as many steps as the tree is deep, with no branch to predict, and the
    processor works on several rows at once. Few rows at a time go through all trees, so that they stay in the cache.
    `at` is memory for `STRIDE` of them.
    """
    roots, depths, nodes, children, pattern, bound = walk
    low_bits, more_bits = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFF)
    for first in range(0, len(score), STRIDE):
        many = min(STRIDE, len(score) - first)
        for tree in range(len(roots)):
            # From the root to the leaf of each row, a level at a time.
            for place in range(many):
                at[place] = roots[tree]
            for _ in range(depths[tree]):
                for place in range(many):
                    node = nodes[at[place]]
                    code = np.uint64(codes[first + place, node >> np.uint64(49)])
                    known = min(code, (node >> np.uint64(32)) & more_bits)
                    at[place] = children[(node & low_bits) + known]
            # The pattern of the leaf.
            if link == ODDS:
                for place in range(many):
                    score[first + place] += pattern[at[place]]
            else:
                for place in range(many):
                    leaf, p = at[place], score[first + place]
                    low, high = min(p, p * pattern[leaf]), max(p, p * pattern[leaf])
                    score[first + place] = max(low, min(high, bound[leaf]))


@compiled
def leaves_of(codes: Codes, walk: Walk) -> Table:
    """The number of each row's leaf in the first of the trees."""
    nodes, children = walk.nodes, walk.children
    at = np.full(len(codes), walk.roots[0])
    low_bits, more_bits = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFF)
    for _ in range(walk.depths[0]):
        for row in range(len(at)):
            node = nodes[at[row]]
            code = np.uint64(codes[row, node >> np.uint64(49)])
            at[row] = children[(node & low_bits) + min(code, (node >> np.uint64(32)) & more_bits)]
    return at


@compiled
def row_losses(score: FloatArray, label: Flags, link: int, out: FloatArray) -> None:
    """The log-loss of each row; `score` as in `apply_trees`."""
    for row in range(len(score)):
        if link == ODDS:
            z = -score[row] if label[row] else score[row]
            out[row] = max(z, 0.0) + math.log1p(math.exp(-abs(z)))
        else:
            likelihood = score[row] if label[row] else 1.0 - score[row]
            out[row] = -math.log(max(likelihood, CLIP))
