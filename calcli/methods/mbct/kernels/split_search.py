"""What a split would leave of the errors: sums over rows by cell, the branches they make, and what becomes of these.

A branch has a pattern, which says how its rows are calibrated: b with z' = z + b (``odds``), or k with p' = k p
(``linear``). It follows from sums over the rows of the branch, the first five of its facts:

======  =====  =====  =========  ===========  =========
link    0      1      2          3            4
======  =====  =====  =========  ===========  =========
odds    w e    w h    w^2 e^2    w^2 e h      w^2 h^2
linear  w p    w y    w^2 p^2    w^2 p y      w^2 y^2
======  =====  =====  =========  ===========  =========

with e = p - y and h = p (1 - p). Terms are rounded by `grids` (see `calcli.numeric.sums`: one for the weights and the
first two sums, one for the others), so that all sums are exact: blocks of rows may be summed in any order.
"""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct.kernels import (
    BRANCHES,
    COUNT,
    ERROR,
    LINEAR,
    LOSS,
    MASS,
    ODDS,
    POSITIVE,
    SQUARE,
    SUMS,
    Codes,
    Flags,
    Places,
    Table,
)
from calcli.methods.trees.compiled import compiled

FEW = 1
"""Rows times features below so many times the cells are few: then cells are visited row by row, not all of them."""


@compiled
def rounded(x: float, grid: float) -> float:
    """A multiple of the grid's step."""
    return (x + grid) - grid


@compiled
def terms(link: int, p: float, y: float, w: float) -> tuple[float, float]:
    """What a row adds to the first two sums; their products make up the others."""
    if link == ODDS:
        return w * (p - y), w * p * (1.0 - p)
    return w * p, w * y


@compiled
def pattern_of(link: int, first: float, second: float, parent: float, shrink: float) -> float:
    """The pattern of a branch with these first two sums, shrunk to its parent's.

    ``odds``: the damped Newton step b = sign(s) ln(1 + |s|), s = (lambda b_parent - sum e) / (sum h + lambda).
    ``linear``: k = (sum y + tau k_parent) / (sum p + tau).
    """
    if link == ODDS:
        bend = second + shrink
        if bend <= 0.0:
            return parent
        s = (shrink * parent - first) / bend
        return math.copysign(math.log1p(abs(s)), s)
    mass = first + shrink
    return (second + shrink * parent) / mass if mass > 0.0 else parent


@compiled
def error_after(link: int, sums: FloatArray, pattern: float) -> float:
    """The sum of w e once the rows have this pattern; for odds to first order in the pattern."""
    if link == ODDS:
        return float(sums[0] + pattern * sums[1])
    return float(pattern * sums[0] - sums[1])


@compiled
def square_after(link: int, sums: FloatArray, pattern: float) -> float:
    """The same for w^2 e^2."""
    cross = 2.0 * pattern * sums[3]
    if link == ODDS:
        return float(sums[2] + cross + pattern * pattern * sums[4])
    return float(pattern * pattern * sums[2] - cross + sums[4])


@compiled
def gain_of(link: int, sums: FloatArray, parent: float, shrink: float) -> float:
    """By how much the log-loss of a branch must fall if it gets its own pattern, less the penalty.

    ``odds``: since h changes by no more than a factor e^|b|, the penalised log-loss falls by at least
    H ((1 + a) ln(1 + a) - a), a = |lambda b_parent - sum e| / H, H = sum h + lambda; what the penalty would be without
    a step, lambda b_parent^2 / 2, is taken off. ``linear``: the log-likelihood of counts, sum y ln k - (k - 1) sum p.
    """
    if link == ODDS:
        bend = sums[1] + shrink
        if bend <= 0.0:
            return 0.0
        a = abs(shrink * parent - sums[0]) / bend
        return float(bend * ((1.0 + a) * math.log1p(a) - a) - shrink * parent * parent / 2.0)
    return gain_with(link, sums, pattern_of(link, sums[0], sums[1], parent, shrink))


@compiled
def gain_with(link: int, sums: FloatArray, pattern: float) -> float:
    """By how much the log-loss of rows must fall if they get this pattern."""
    if link == ODDS:
        size = abs(pattern)
        return float(-pattern * sums[0] - (math.exp(size) - size - 1.0) * sums[1])
    grown = sums[1] * math.log(pattern) if sums[1] > 0.0 else 0.0
    return float(grown - (pattern - 1.0) * sums[0])


@compiled
def add_totals(
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    link: int,
    wanted: int,
    grids: FloatArray,
    facts: FloatArray,
) -> None:
    """Add the rows to these facts; of the sums to the first `wanted`, 2 or all."""
    zero = one = two = three = four = mass = positive = 0.0
    for row in range(start, stop):
        y = float(label[row])
        w = weight[row] if len(weight) else 1.0
        first, second = terms(link, prob[row], y, w)
        zero += rounded(first, grids[0])
        one += rounded(second, grids[0])
        if wanted > 2:
            two += rounded(first * first, grids[1])
            three += rounded(first * second, grids[1])
            four += rounded(second * second, grids[1])
        if len(weight):
            mass += rounded(w, grids[0])
            positive += rounded(w, grids[0]) * y
        else:
            positive += y
    if len(weight) == 0:
        mass = float(stop - start)
    for place, total in enumerate((zero, one, two, three, four, mass, positive, float(stop - start))):
        facts[place] += total


@compiled
def sums_by_label(link: int, wanted: int, weighted: bool) -> bool:
    """Whether a cell has sums of p and p^2 of either label in place of the sums of all its rows, see `add_cells`."""
    return link == LINEAR and wanted > 2 and not weighted


@compiled
def add_cells(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    offsets: Table,
    link: int,
    wanted: int,
    grids: FloatArray,
    cells: FloatArray,
) -> None:
    """Add the rows to the sums of their cells, to as few as `open_branch` needs to know them all.

    Columns 0 and 1 hold the weight of the rows with label 0 and with label 1. Then come the sums, the first `wanted`, 2
    or all, and where there are weights at last the number of rows, in column 7. For ``linear`` without weights, where
    all are wanted, there are p and p^2 of either label instead, which is less work.
    """
    features, by_label = len(offsets) - 1, sums_by_label(link, wanted, len(weight) > 0)
    for row in range(start, stop):
        p, y = prob[row], np.uint32(label[row])
        if len(weight):
            w = weight[row]
            first, second = terms(link, p, float(y), w)
            mass, one, two = rounded(w, grids[0]), rounded(first, grids[0]), rounded(second, grids[0])
            for feature in range(features):
                cell = offsets[feature] + codes[row, feature]
                cells[cell, y] += mass
                cells[cell, 2] += one
                cells[cell, 3] += two
                cells[cell, 7] += 1.0
        elif by_label:
            one, two = rounded(p, grids[0]), rounded(p * p, grids[1])
            for feature in range(features):
                cell = offsets[feature] + codes[row, feature]
                cells[cell, y] += 1.0
                cells[cell, np.uint32(2) + y] += one
                cells[cell, np.uint32(4) + y] += two
            continue
        else:
            first, second = terms(link, p, float(y), 1.0)
            one, two = rounded(first, grids[0]), rounded(second, grids[0])
            for feature in range(features):
                cell = offsets[feature] + codes[row, feature]
                cells[cell, y] += 1.0
                cells[cell, 2] += one
                cells[cell, 3] += two
        if wanted > 2:
            three, four = rounded(first * first, grids[1]), rounded(first * second, grids[1])
            five = rounded(second * second, grids[1])
            for feature in range(features):
                cell = offsets[feature] + codes[row, feature]
                cells[cell, 4] += three
                cells[cell, 5] += four
                cells[cell, 6] += five


@compiled
def touched_cells(codes: Codes, start: int, stop: int, offsets: Table, seen: Flags, touched: Table) -> int:
    """The cells that have any of these rows, each once; returns how many. `seen` is all 0, before and after."""
    count = 0
    for row in range(start, stop):
        for feature in range(len(offsets) - 1):
            cell = offsets[feature] + codes[row, feature]
            if seen[cell] == 0:
                seen[cell] = 1
                touched[count] = cell
                count += 1
    for place in range(count):
        seen[touched[place]] = 0
    return count


@compiled
def wide_cells(cells: FloatArray, least: float, wide: Table) -> int:
    """The cells with so much weight, in order; returns how many there are."""
    count = 0
    for cell in range(len(cells)):
        if cells[cell, 0] + cells[cell, 1] >= least:
            wide[count] = cell
            count += 1
    return count


@compiled
def wide_among(cells: FloatArray, touched: Table, least: float, wide: Table) -> int:
    """The same where none but some cells have rows."""
    count = 0
    for cell in touched:
        if cells[cell, 0] + cells[cell, 1] >= least:
            wide[count] = cell
            count += 1
    wide[:count].sort()
    return count


@compiled
def open_branch(
    cells: FloatArray, cell: int, at: int, here: int, by_label: bool, weighted: bool, code: Codes, facts: FloatArray
) -> None:
    """Let a cell be branch number `at`, which code number `here` leads to."""
    code[at] = here
    negative, positive = cells[cell, 0], cells[cell, 1]
    if by_label:
        facts[at, 0], facts[at, 1] = cells[cell, 2] + cells[cell, 3], positive
        facts[at, 2], facts[at, 3], facts[at, 4] = cells[cell, 4] + cells[cell, 5], cells[cell, 3], positive
    else:
        for place in range(SUMS):
            facts[at, place] = cells[cell, 2 + place] if 2 + place < cells.shape[1] else 0.0
    facts[at, MASS], facts[at, POSITIVE] = negative + positive, positive
    facts[at, COUNT] = cells[cell, 7] if weighted else negative + positive


@compiled
def number_branches(
    cells: FloatArray,
    wide: Table,
    offsets: Table,
    by_label: bool,
    weighted: bool,
    base: int,
    code: Codes,
    node: FloatArray,
    facts: FloatArray,
    bases: Places,
    found: FloatArray,
) -> int:
    """The branches of every feature, one after the other, the first of each the rest; returns where the last ends.

    `wide` are the cells with rows enough for a branch. Where a feature does not make two branches with rows,
    ``found[feature, BRANCHES]`` is 0 and its branches are none. `node` is what is known of all the rows; the rest is
    what the other branches leave of it. Sums are exact, so that is too.
    """
    place = 0
    for feature in range(len(bases)):
        bases[feature] = base
        at = base + 1
        while place < len(wide) and wide[place] < offsets[feature + 1]:
            cell = wide[place]
            if cell > offsets[feature]:
                open_branch(cells, cell, at, cell - offsets[feature], by_label, weighted, code, facts)
                at += 1
            place += 1
        many = at - base
        found[feature, BRANCHES] = 0
        if many > 2 or (many == 2 and facts[base + 1, COUNT] < node[COUNT]):
            found[feature, BRANCHES] = many
            code[base] = 0
            facts[base] = node
            for other in range(base + 1, at):
                facts[base] -= facts[other]
            base = at
    return base


@compiled
def judge(
    facts: FloatArray, base: int, many: int, least: float, link: int, parent: float, shrink: float, out: FloatArray
) -> None:
    """What a split into the branches base .. base + many - 1 leaves, in `out`.

    That is the sums of w e and of w^2 e^2, and by how much the log-loss changes at most. A rest of less than `least`
    keeps its parent's pattern.
    """
    error = square = gain = 0.0
    for at in range(base, base + many):
        if at > base or facts[base, MASS] >= least:
            pattern = pattern_of(link, facts[at, 0], facts[at, 1], parent, shrink)
            gain += gain_of(link, facts[at], parent, shrink)
        else:
            pattern = parent
            gain += gain_with(link, facts[at], parent)
        error += error_after(link, facts[at], pattern)
        square += square_after(link, facts[at], pattern)
    out[ERROR], out[SQUARE], out[LOSS] = error, square, -gain


@compiled
def judge_as_is(facts: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """The same for nodes that stay as they are."""
    for node in range(len(facts)):
        out[node, ERROR] = error_after(link, facts[node], patterns[node])
        out[node, SQUARE] = square_after(link, facts[node], patterns[node])
        out[node, LOSS] = -gain_with(link, facts[node], patterns[node])


@compiled
def judge_all(
    facts: FloatArray, bases: Places, least: float, link: int, parent: float, shrink: float, found: FloatArray
) -> None:
    """`judge` the splits of one node by each feature."""
    for feature in range(len(bases)):
        many = int(found[feature, BRANCHES])
        if many > 0:
            judge(facts, bases[feature], many, least, link, parent, shrink, found[feature])


@compiled
def search_nodes(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    starts: Places,
    stops: Places,
    patterns: FloatArray,
    nodes: FloatArray,
    offsets: Table,
    least: float,
    link: int,
    shrink: float,
    wanted: int,
    grids: FloatArray,
    cells: FloatArray,
    found: FloatArray,
    bases: Places,
    code: Codes,
    facts: FloatArray,
) -> int:
    """The branches that each of these nodes has by each feature, and what `judge` says of the split.

    `code` and `facts` tell about the branches, which stand from ``bases[node, feature]`` on; returns where the last one
    ends. `nodes` are the facts about the nodes, `cells` is room for `add_cells`, all 0.
    """
    seen = np.zeros(len(cells), dtype=np.uint8)
    touched, wide = np.empty(len(cells), dtype=np.uint32), np.empty(len(cells), dtype=np.uint32)
    weighted = len(weight) > 0
    by_label = sums_by_label(link, wanted, weighted)
    end = 0
    for node in range(len(starts)):
        start, stop = starts[node], stops[node]
        add_cells(codes, prob, label, weight, start, stop, offsets, link, wanted, grids, cells)
        few = (stop - start) * bases.shape[1] < FEW * len(cells)
        if few:
            some = touched[: touched_cells(codes, start, stop, offsets, seen, touched)]
            branches = wide[: wide_among(cells, some, least, wide)]
        else:
            some = touched[:0]
            branches = wide[: wide_cells(cells, least, wide)]
        own, facing = found[node], bases[node]
        end = number_branches(cells, branches, offsets, by_label, weighted, end, code, nodes[node], facts, facing, own)
        if few:
            for cell in some:
                cells[cell] = 0.0
        else:
            cells[:] = 0.0
        judge_all(facts, facing, least, link, patterns[node], shrink, own)
    return end


@compiled
def set_children(
    facts: FloatArray, firsts: Places, parents: FloatArray, least: float, link: int, shrink: float, patterns: FloatArray
) -> None:
    """The patterns of the children of each node, which stand from ``firsts[node]`` on."""
    for node in range(len(parents)):
        for child in range(firsts[node], firsts[node + 1]):
            patterns[child] = parents[node]
            if child > firsts[node] or facts[child, MASS] >= least:
                patterns[child] = pattern_of(link, facts[child, 0], facts[child, 1], parents[node], shrink)
