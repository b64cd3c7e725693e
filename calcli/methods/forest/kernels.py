"""The compiled loops of randomised trees: how one is grown, and how rows go through all of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled

Codes = NDArray[np.int32]
Places = NDArray[np.int64]

FEATURE, CUT, FIRST = range(3)
"""The columns of a tree's nodes: rows whose code of the feature is above the cut go to the second child, others to the
first; the second is next to it. A leaf has no code above its cut, and is its own child.
"""

NEVER = 2**31 - 1
"""The cut of a leaf."""

LEAST_GAIN, TIED = 1e-9, 1e-6
"""Less gain than this is rounding; and so is a lead of less than this share, as of cuts that part rows in one way."""

STRIDE = 1 << 8
"""So few rows go through all trees at a time that they and a tree stay in the cache."""


@compiled
def _drawn(state: NDArray[np.uint64]) -> np.uint64:
    """The next number of splitmix64: the same on every platform, and in every thread."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    drawn: np.uint64 = z ^ (z >> np.uint64(31))
    return drawn


@compiled
def _range(line: Codes, rows: Places) -> tuple[int, int]:
    """The least and the greatest code of some rows."""
    low = high = line[rows[0]]
    for row in rows:
        low, high = min(low, line[row]), max(high, line[row])
    return low, high


@compiled
def _add(line: Codes, cut: int, rows: Places, label: Places, weight: FloatArray, out: FloatArray) -> None:
    """Add up the weight of each class, and of all, among the rows whose code is not above the cut."""
    out[:] = 0.0
    for row in rows:
        if line[row] <= cut:
            out[label[row]] += weight[row]
            out[-1] += weight[row]


@compiled
def _gain(left: FloatArray, whole: FloatArray) -> float:
    """The fall of Gini's impurity by a split, from the weights of its first child and of both."""
    gain = 0.0
    for k in range(len(whole) - 1):
        gain += left[k] ** 2 / left[-1] + (whole[k] - left[k]) ** 2 / (whole[-1] - left[-1]) - whole[k] ** 2 / whole[-1]
    return gain


@compiled
def _parted(line: Codes, cut: int, rows: Places) -> int:
    """Bring the rows whose code is not above the cut to the front, and return their number."""
    low, high = 0, len(rows) - 1
    while low <= high:
        if line[rows[low]] <= cut:
            low += 1
        else:
            rows[low], rows[high] = rows[high], rows[low]
            high -= 1
    return low


@compiled
def grow(
    codes: Codes,
    label: Places,
    weight: FloatArray,
    rows: Places,
    seed: int,
    bounds: tuple[int, float, int],
    nodes: Codes,
    rates: FloatArray,
    gains: FloatArray,
) -> int:
    """Grow a tree on some rows, level by level, and return its number of nodes, the first of `nodes` and `rates`.

    `codes` has a line for each feature. A node tries some features that differ among its rows, each with one random
    cut, and takes the one by which impurity falls the most. `bounds` are how many it tries, the least weight of a
    child, and how deep the tree may be. `rates` get the share of each class in each node, `gains` those of splits by
    feature.
    """
    tries, least, deepest = bounds
    classes, most, order = rates.shape[1], len(nodes), np.arange(len(codes))
    state = np.array([np.uint64(seed)])
    begin, end, depth = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    whole, left = np.empty(1 + classes), np.empty(1 + classes)
    end[0], count, node = len(rows), 1, 0
    while node < count:
        own = rows[begin[node] : end[node]]
        nodes[node, FEATURE], nodes[node, CUT], nodes[node, FIRST] = 0, NEVER, node
        _add(codes[0], NEVER, own, label, weight, whole)
        for k in range(classes):  # a division of slices takes two seconds longer to compile, for its errors
            rates[node, k] = whole[k] / whole[-1]
        small = whole[-1] < 2.0 * least or count + 2 > most or depth[node] == deepest
        best, best_feature, best_cut, tried = LEAST_GAIN, -1, 0, 0
        for at in range(0 if small else len(codes)):
            if tried == tries:
                break
            other = at + int(_drawn(state) % np.uint64(len(codes) - at))
            order[at], order[other] = order[other], order[at]
            line = codes[order[at]]
            low, high = _range(line, own)
            if low == high:
                continue
            tried += 1
            cut = low + int(_drawn(state) % np.uint64(high - low))
            _add(line, cut, own, label, weight, left)
            gain = _gain(left, whole) if min(left[-1], whole[-1] - left[-1]) >= least else 0.0
            if gain > best * (1.0 + TIED):
                best, best_feature, best_cut = gain, order[at], cut
        if best_feature >= 0:
            gains[best_feature] += best
            middle = begin[node] + _parted(codes[best_feature], best_cut, own)
            nodes[node, FEATURE], nodes[node, CUT], nodes[node, FIRST] = best_feature, best_cut, count
            begin[count], end[count], begin[count + 1], end[count + 1] = begin[node], middle, middle, end[node]
            depth[count] = depth[count + 1] = depth[node] + 1
            count += 2
        node += 1
    return count


@compiled
def leaves(codes: Codes, nodes: Codes, rows: Places, out: Codes) -> None:
    """The leaf of each of these rows in one tree; `codes` has a line for each feature."""
    for place, row in enumerate(rows):
        node = 0
        while nodes[node, FIRST] != node:
            node = nodes[node, FIRST] + int(codes[nodes[node, FEATURE], row] > nodes[node, CUT])
        out[place] = node


class Steps(NamedTuple):
    """Trees as rows go through them, in types as narrow as they can be."""

    roots: Places
    depths: Places
    feature: NDArray[np.unsignedinteger[Any]]
    cut: NDArray[np.unsignedinteger[Any]]
    """Of a leaf, the greatest of its type, which no code is above."""

    child: NDArray[np.unsignedinteger[Any]]
    """The first child, counted from the root."""


def steps_of(sizes: Places, nodes: Codes, dtype: np.dtype[np.unsignedinteger[Any]]) -> Steps:
    """The steps through trees of so many nodes each, for codes of this type."""
    roots = np.cumsum(sizes) - sizes
    feature, cut, child = nodes[:, FEATURE], nodes[:, CUT], nodes[:, FIRST] - np.repeat(roots, sizes)
    return Steps(
        roots,
        depths_of(roots, nodes),
        feature.astype(np.min_scalar_type(feature.max(initial=0))),
        np.minimum(cut, np.iinfo(dtype).max).astype(dtype),
        # Not narrower than most need, as each type is compiled anew.
        child.astype(np.result_type(np.uint16, np.min_scalar_type(child.max(initial=0)))),
    )


@compiled
def add_values(
    codes: NDArray[np.unsignedinteger[Any]],
    roots: Places,
    depths: Places,
    feature: NDArray[np.unsignedinteger[Any]],
    cut: NDArray[np.unsignedinteger[Any]],
    child: NDArray[np.unsignedinteger[Any]],
    values: NDArray[np.float32],
    total: FloatArray,
) -> None:
    """Add the values of each row's leaves in all trees to `total`; `codes` has a line for each row.

    As a leaf is its own child, all rows take as many steps as the tree is deep, with no branch to predict, and the
    processor works on several rows at once.
    """
    at = np.empty(STRIDE, dtype=np.uint32)
    for start in range(0, len(codes), STRIDE):
        # Places in slices are never negative, and so the compiler need not ask whether one counts from the end.
        block, out = codes[start : start + STRIDE], total[start : start + STRIDE]
        for tree in range(len(roots)):
            root = roots[tree]
            features, cuts, children, leaves = feature[root:], cut[root:], child[root:], values[root:]
            at[:] = 0
            for _ in range(depths[tree]):
                for row in range(len(block)):
                    node = at[row]
                    at[row] = np.uint32(children[node]) + np.uint32(block[row, features[node]] > cuts[node])
            for k in range(out.shape[1]):  # the longer loop inside, whose steps the processor overlaps
                for row in range(len(block)):
                    out[row, k] += leaves[at[row], k]


@compiled
def depths_of(roots: Places, nodes: Codes) -> Places:
    """The most steps from each root to a leaf; children come after their parents."""
    depth, deepest = np.zeros(len(nodes), dtype=np.int64), np.zeros(len(roots), dtype=np.int64)
    tree = 0
    for node in range(len(nodes)):
        while tree + 1 < len(roots) and roots[tree + 1] <= node:
            tree += 1
        first = nodes[node, FIRST]
        if first != node:
            depth[first] = depth[first + 1] = depth[node] + 1
            deepest[tree] = max(deepest[tree], depth[node] + 1)
    return deepest
