"""What is done to all rows of a level, on all threads.

Groups of nodes, or blocks of a node with many rows, are handed to kernels. Sums are exact, so that blocks add up to the
same whatever they are: rows that lie in several files or on several machines could be summed in the same way.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct import kernels
from calcli.methods.mbct.kernels import Codes, Places, Table
from calcli.methods.mbct.kernels import split_search as searching
from calcli.methods.mbct.kernels import update as moving
from calcli.methods.mbct.nodes import Cells, Growth, Nodes, Rows, Splits
from calcli.methods.trees.compiled import on_threads
from calcli.numeric.threads import threads

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
    ends = np.cumsum(nodes.stop - nodes.start)
    if ends[-1] < BLOCK:
        return [slice(0, len(nodes))]
    group = ends // BLOCK
    edges = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(nodes)]
    return [slice(low, high) for low, high in pairwise(edges)]


def _shares_of(start: int, stop: int) -> list[Block]:
    """The same for sums that take much memory: no more of them than keep all threads at work."""
    size = max(BLOCK, -(-(stop - start) // (2 * threads())))
    return [(low, min(low + size, stop)) for low in range(start, stop, size)]


def totals(rows: Rows, cells: Cells, link: int, wanted: int = kernels.SUMS) -> FloatArray:
    """The facts about all rows, the first `wanted` sums among them."""

    def add(block: Block) -> FloatArray:
        facts = np.zeros(kernels.FACTS)
        searching.add_totals(rows.prob, rows.label, rows.weight, *block, link, wanted, cells.grids, facts)
        return facts

    return np.asarray(np.sum(on_threads(add, blocks_of(0, len(rows))), axis=0))


def root_of(rows: Rows, facts: FloatArray, growth: Growth) -> Nodes:
    """All rows, about which these are the facts, as one node."""
    above = 0.0 if growth.link == kernels.ODDS else 1.0
    pattern = searching.pattern_of(growth.link, facts[0], facts[1], above, growth.shrink)
    return Nodes(np.array([0]), np.array([len(rows)]), np.array([pattern]), facts[None])


def search(rows: Rows, nodes: Nodes, cells: Cells, growth: Growth) -> Splits:
    """How each node could be split, from sums over its rows."""
    own = np.zeros((len(nodes), kernels.FOUND))
    searching.judge_as_is(nodes.facts, nodes.pattern, growth.link, own)
    large = nodes.stop - nodes.start > BLOCK
    small = nodes.where(~large)

    def work(group: slice) -> Splits:
        return _search_small(rows, nodes_at(small, group), cells, growth)

    parts = [_search_large(rows, nodes_at(nodes, int(place)), cells, growth) for place in np.flatnonzero(large)]
    parts += on_threads(work, _groups_of(small))
    if len(parts) == 1:
        return replace(parts[0], own=own)
    ends = np.cumsum([len(part.code) for part in parts])
    bases = np.concatenate([part.bases + end - len(part.code) for part, end in zip(parts, ends, strict=True)])
    found = np.concatenate([part.found for part in parts])
    back = np.argsort(np.concatenate([np.flatnonzero(large), np.flatnonzero(~large)]))  # large ones came first
    code, facts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("code", "facts"))
    return Splits(own, found[back], bases[back], code, facts)


def nodes_at(nodes: Nodes, place: slice | int) -> Nodes:
    part = place if isinstance(place, slice) else slice(place, place + 1)
    return Nodes(nodes.start[part], nodes.stop[part], nodes.pattern[part], nodes.facts[part])


def _room_for(nodes: Nodes, cells: Cells, growth: Growth) -> Splits:
    """Room for what is found out about the splits of these nodes."""
    features = len(cells.offsets) - 1
    codes = cells.offsets[1:] - cells.offsets[:-1]
    explicit = np.minimum(np.floor(nodes.mass / growth.least)[:, None], codes[None])
    branches = int(explicit.sum()) + explicit.size + int(codes.max())  # what is not kept needs room for a while
    return Splits(
        np.zeros((0, kernels.FOUND)),
        np.zeros((len(nodes), features, kernels.FOUND)),
        np.zeros((len(nodes), features), dtype=np.int64),
        np.zeros(branches, dtype=np.uint16),
        np.zeros((branches, kernels.FACTS)),
    )


def _until(splits: Splits, end: int) -> Splits:
    return Splits(splits.own, splits.found, splits.bases, splits.code[:end], splits.facts[:end])


def _search_small(rows: Rows, nodes: Nodes, cells: Cells, growth: Growth) -> Splits:
    """The splits of nodes that are the work of one thread."""
    splits = _room_for(nodes, cells, growth)
    end = searching.search_nodes(
        *rows.arrays,
        nodes.start,
        nodes.stop,
        nodes.pattern,
        nodes.facts,
        cells.offsets,
        growth.least,
        growth.link,
        growth.shrink,
        growth.wanted,
        cells.grids,
        cells.room(wanted=growth.wanted, weighted=len(rows.weight) > 0),
        splits.found,
        splits.bases,
        splits.code,
        splits.facts,
    )
    return _until(splits, end)


def _search_large(rows: Rows, node: Nodes, cells: Cells, growth: Growth) -> Splits:
    """The splits of one node, with all threads on it."""
    weighted = len(rows.weight) > 0

    def add(block: Block) -> FloatArray:
        sums = cells.room(wanted=growth.wanted, weighted=weighted)
        searching.add_cells(*rows.arrays, *block, cells.offsets, growth.link, growth.wanted, cells.grids, sums)
        return sums

    sums = np.asarray(sum(on_threads(add, _shares_of(int(node.start[0]), int(node.stop[0])))))
    splits, wide = _room_for(node, cells, growth), np.empty(len(sums), dtype=np.uint32)
    end = searching.number_branches(
        sums,
        wide[: searching.wide_cells(sums, growth.least, wide)],
        cells.offsets,
        searching.sums_by_label(growth.link, growth.wanted, weighted),
        weighted,
        0,
        splits.code,
        node.facts[0],
        splits.facts,
        splits.bases[0],
        splits.found[0],
    )
    searching.judge_all(
        splits.facts, splits.bases[0], growth.least, growth.link, node.pattern[0], growth.shrink, splits.found[0]
    )
    return _until(splits, end)


def split(rows: Rows, room: Rows, nodes: Nodes, chosen: Places, firsts: Places, code: Codes, starts: Places) -> None:
    """Move the rows of each node to `room`, in the order of its children by the chosen feature.

    The children stand from ``firsts[node]`` on: ``code`` leads to each, ``starts`` is where its rows begin.
    """
    large = nodes.stop - nodes.start > BLOCK
    for place in np.flatnonzero(large):
        part = slice(firsts[place], firsts[place + 1])
        _split_large(rows, room, nodes_at(nodes, int(place)), int(chosen[place]), code[part], starts[part])
    small, places = nodes.where(~large), starts.copy()
    feature, first, branches = (values[~large] for values in (chosen, firsts[:-1], np.diff(firsts)))

    def work(group: slice) -> None:
        moving.scatter_nodes(
            *rows.arrays,
            *room.arrays,
            small.start[group],
            small.stop[group],
            feature[group],
            first[group],
            branches[group],
            code,
            places,
        )

    on_threads(work, _groups_of(small))


def _split_large(rows: Rows, room: Rows, node: Nodes, feature: int, code: Codes, starts: Places) -> None:
    """The same for one node, with all threads on it."""
    blocks, branch = blocks_of(int(node.start[0]), int(node.stop[0])), _branches_by_code(code)

    def add(block: Block) -> Places:
        counts = np.zeros(len(code), dtype=np.int64)
        moving.count_branches(rows.codes, *block, feature, branch, counts)
        return counts

    counts = np.array(on_threads(add, blocks))
    places = starts + np.cumsum(counts, axis=0) - counts  # within a branch block after block

    def move(task: tuple[Block, Places]) -> None:
        (start, stop), to = task
        moving.scatter(*rows.arrays, start, stop, feature, branch, to.copy(), *room.arrays)

    on_threads(move, zip(blocks, places, strict=True))


def bring_together(rows: Rows, room: Rows, astray: Nodes) -> None:
    """Copy the rows of these nodes from `room` to `rows`."""

    def move(group: slice) -> None:
        moving.move_rows(*room.arrays, *rows.arrays, astray.start[group], astray.stop[group])

    on_threads(move, _groups_of(astray))


def set_patterns(rows: Rows, leaves: Nodes, patterns: FloatArray, link: int) -> None:
    """Calibrate the rows of each leaf by its pattern."""

    def work(group: slice) -> None:
        moving.set_patterns(rows.prob, leaves.start[group], leaves.stop[group], patterns[group], link)

    on_threads(work, _groups_of(leaves))


def set_branches(
    rows: Rows, nodes: Nodes, chosen: Places, firsts: Places, code: Codes, patterns: FloatArray, link: int
) -> None:
    """Calibrate the rows of each node by the patterns of its children, which are as in `split`; no row moves."""
    large = nodes.stop - nodes.start > BLOCK
    for place in np.flatnonzero(large):
        part = slice(firsts[place], firsts[place + 1])
        feature, branch, own = int(chosen[place]), _branches_by_code(code[part]), patterns[part]

        def block_work(block: Block) -> None:
            moving.set_by_branch(rows.codes, rows.prob, *block, feature, branch, own, link)  # noqa: B023

        on_threads(block_work, blocks_of(int(nodes.start[place]), int(nodes.stop[place])))
    small = nodes.where(~large)
    features, first, branches = (values[~large] for values in (chosen, firsts[:-1], np.diff(firsts)))

    def work(group: slice) -> None:
        moving.set_by_branches(
            rows.codes,
            rows.prob,
            small.start[group],
            small.stop[group],
            features[group],
            first[group],
            branches[group],
            code,
            patterns,
            link,
        )

    on_threads(work, _groups_of(small))


def _branches_by_code(code: Codes) -> Table:
    """Which of the branches that these codes lead to each code has; all others have the first, the rest.

    The last entry is that of all greater codes.
    """
    branch = np.zeros(int(code[-1]) + 2, dtype=np.uint32)
    branch[code[1:]] = np.arange(1, len(code))
    return branch


def log_loss(rows: Rows) -> float:
    """The sum of w times the log-loss over all rows."""

    def add(block: Block) -> float:
        return moving.log_loss(rows.prob, rows.label, rows.weight, *block)

    return sum(on_threads(add, blocks_of(0, len(rows))))
