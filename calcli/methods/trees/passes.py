"""What is done to all rows of a level, on all threads.

Groups of nodes, or blocks of a node with many rows, are handed to kernels. Sums are exact, so that blocks add up to the
same whatever they are: rows that lie in several files or on several machines could be summed in the same way.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.trees import kernels
from calcli.methods.trees.compiled import on_threads
from calcli.methods.trees.kernels import Places
from calcli.methods.trees.nodes import Growth, Nodes, Rows

BLOCK = 1 << 18
"""So many rows, or nodes of so many rows together, are the work of one thread at a time."""

Block = tuple[int, int]


def blocks_of(start: int, stop: int) -> list[Block]:
    """Rows start .. stop - 1 in blocks."""
    return [(low, min(low + BLOCK, stop)) for low in range(start, stop, BLOCK)]


def _groups_of(nodes: Nodes) -> list[slice]:
    """Successive nodes in groups of about `BLOCK` rows."""
    if len(nodes) == 0:
        return []
    group = np.cumsum(nodes.stop - nodes.start) // BLOCK
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(nodes)]
    return [slice(low, high) for low, high in pairwise(edges)]


def root_of(rows: Rows, growth: Growth) -> Nodes:
    """All rows as one node."""
    grids = rows.grids()
    branch = np.zeros(1 << 16, dtype=np.int64)  # every code leads to the same

    def add(block: Block) -> FloatArray:
        facts = np.zeros((1, kernels.FACTS))
        kernels.tally(*rows.arrays, *block, 0, branch, growth.link, grids, facts)
        return facts

    facts = np.sum(on_threads(add, blocks_of(0, len(rows))), axis=0)
    above = 0.0 if growth.link == kernels.ODDS else 1.0
    pattern = kernels.pattern_of(growth.link, facts[0, 0], facts[0, 1], above, growth.shrink)
    return Nodes(np.array([0]), np.array([len(rows)]), np.array([pattern]), facts)


def search(rows: Rows, nodes: Nodes, offsets: Places, growth: Growth) -> tuple[FloatArray, FloatArray]:
    """What `kernels.judge` finds of each node as it is, and of its split by each feature.

    Shapes (nodes, `kernels.FOUND`) and (nodes, features, `kernels.FOUND`).
    """
    own = np.zeros((len(nodes), kernels.FOUND))
    kernels.judge_as_is(nodes.facts, nodes.pattern, growth.link, own)
    found = np.zeros((len(nodes), len(offsets) - 1, kernels.FOUND))
    large = nodes.stop - nodes.start > BLOCK
    for place in np.flatnonzero(large):
        found[place] = _search_large(rows, nodes, int(place), offsets, growth)
    small, results, grids = nodes.where(~large), found[~large], rows.grids()

    def work(group: slice) -> None:
        kernels.search_nodes(
            *rows.arrays,
            small.start[group],
            small.stop[group],
            small.pattern[group],
            offsets,
            growth.least,
            growth.link,
            growth.shrink,
            growth.sums,
            grids,
            results[group],
        )

    on_threads(work, _groups_of(small))
    found[~large] = results
    return own, found


def _search_large(rows: Rows, nodes: Nodes, place: int, offsets: Places, growth: Growth) -> FloatArray:
    """The same for one node, with all threads on it."""
    blocks, grids = blocks_of(nodes.start[place], nodes.stop[place]), rows.grids()
    features = np.arange(len(offsets) - 1)
    counts = _counts(rows, blocks, offsets, features, grids)
    branch = np.empty(offsets[-1], dtype=np.int64)
    found = np.zeros((len(features), kernels.FOUND))
    bases, rests = np.zeros(len(features), dtype=np.int64), np.zeros(len(features))
    names = np.empty(offsets[-1] + 1, dtype=np.int64)
    end = kernels.number_all(counts, offsets, growth.least, branch, names, bases, rests, found)
    usable = np.flatnonzero(found[:, kernels.BRANCHES])

    def add(block: Block) -> FloatArray:
        sums = np.zeros((end, kernels.SUMS))
        kernels.sum_branches(*rows.arrays, *block, offsets, usable, branch, growth.link, growth.sums, grids, sums)
        return sums

    sums = np.sum(on_threads(add, blocks), axis=0)
    kernels.judge_all(sums, usable, bases, rests, growth.least, growth.link, nodes.pattern[place], growth.shrink, found)
    return found


def _counts(rows: Rows, blocks: list[Block], offsets: Places, features: Places, grids: FloatArray) -> FloatArray:
    """The weight in each cell of these features."""

    def count(block: Block) -> FloatArray:
        counts = np.zeros(offsets[-1])
        kernels.count_cells(rows.codes, rows.weight, *block, offsets, features, grids, counts)
        return counts

    return np.asarray(np.sum(on_threads(count, blocks), axis=0))


def split(
    rows: Rows, room: Rows, nodes: Nodes, chosen: Places, firsts: Places, offsets: Places, growth: Growth
) -> tuple[Places, FloatArray]:
    """Move the rows of each node to `room`, in the order of its branches by the chosen feature.

    Branches stand in the result from ``firsts[node]`` on: the code that leads to each, and the facts about its rows.
    """
    code = np.zeros(firsts[-1], dtype=np.int64)
    facts = np.zeros((firsts[-1], kernels.FACTS))
    large = nodes.stop - nodes.start > BLOCK
    for place in np.flatnonzero(large):
        part = slice(firsts[place], firsts[place + 1])
        _split_large(rows, room, nodes, int(place), int(chosen[place]), offsets, growth, code[part], facts[part])
    small, features, first, grids = nodes.where(~large), chosen[~large], firsts[:-1][~large], rows.grids()

    def work(group: slice) -> None:
        kernels.split_nodes(
            *rows.arrays,
            *room.arrays,
            small.start[group],
            small.stop[group],
            features[group],
            first[group],
            offsets,
            growth.least,
            growth.link,
            grids,
            code,
            facts,
        )

    on_threads(work, _groups_of(small))
    return code, facts


def _split_large(
    rows: Rows,
    room: Rows,
    nodes: Nodes,
    place: int,
    feature: int,
    offsets: Places,
    growth: Growth,
    code: Places,
    facts: FloatArray,
) -> None:
    """The same for one node, with all threads on it."""
    blocks, grids = blocks_of(nodes.start[place], nodes.stop[place]), rows.grids()
    cells = slice(offsets[feature], offsets[feature + 1])
    counts = _counts(rows, blocks, offsets, np.array([feature]), grids)[cells]
    branch = np.empty(len(counts), dtype=np.int64)
    kernels.number_branches(counts, 0, len(counts), growth.least, 0, branch, code)

    def add(block: Block) -> FloatArray:
        sums = np.zeros_like(facts)
        kernels.tally(*rows.arrays, *block, feature, branch, growth.link, grids, sums)
        return sums

    of_block = np.array(on_threads(add, blocks))
    facts[:] = of_block.sum(axis=0)
    held = of_block[:, :, kernels.ROWS].astype(np.int64).T  # branch after branch, and within each block after block
    places = (nodes.start[place] + np.cumsum(held).reshape(held.shape) - held).T

    def move(task: tuple[Block, Places]) -> None:
        block, to = task
        start, stop = block
        kernels.scatter(*rows.arrays, start, stop, feature, branch, to.copy(), *room.arrays)

    on_threads(move, zip(blocks, places, strict=True))


def bring_together(rows: Rows, room: Rows, astray: Nodes) -> None:
    """Copy the rows of these nodes from `room` to `rows`."""

    def move(group: slice) -> None:
        kernels.move_rows(*room.arrays, *rows.arrays, astray.start[group], astray.stop[group])

    on_threads(move, _groups_of(astray))


def set_patterns(rows: Rows, leaves: Nodes, patterns: FloatArray, link: int) -> None:
    """Calibrate the rows of each leaf by its pattern."""

    def work(group: slice) -> None:
        kernels.set_patterns(rows.prob, leaves.start[group], leaves.stop[group], patterns[group], link)

    on_threads(work, _groups_of(leaves))


def errors(rows: Rows) -> tuple[float, float]:
    """The sums of w e and of w^2 e^2 over all rows."""
    grids = rows.grids()

    def add(block: Block) -> FloatArray:
        sums = np.zeros(2)
        kernels.errors(rows.prob, rows.label, rows.weight, *block, grids, sums)
        return sums

    error, square = np.sum(on_threads(add, blocks_of(0, len(rows))), axis=0)
    return float(error), float(square)


def log_loss(rows: Rows) -> float:
    """The sum of w times the log-loss over all rows."""

    def add(block: Block) -> float:
        return kernels.log_loss(rows.prob, rows.label, rows.weight, *block)

    return sum(on_threads(add, blocks_of(0, len(rows))))
