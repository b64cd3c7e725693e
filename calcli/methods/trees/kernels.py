"""The inner loops of MBCT: sums over rows by branch, and what a split would leave of the errors.

A row is a line of codes (one for each feature), a probability p, a label y and perhaps a weight w. The codes of a
feature are 0 for whatever is rare or was never seen, then 1, 2, ..; a cell is one code of one feature. A split of a
node has a branch for each code with enough rows there, and branch 0, the rest, for all others.

A branch has a pattern, which says how its rows are calibrated: b with z' = z + b (``odds``), or k with p' = k p
(``linear``). It follows from sums over the rows of the branch, the first five of its facts:

======  =====  =====  =========  ===========  =========
link    0      1      2          3            4
======  =====  =====  =========  ===========  =========
odds    w e    w h    w^2 e^2    w^2 e h      w^2 h^2
linear  w p    w y    w^2 p^2    w^2 p y      w^2 y^2
======  =====  =====  =========  ===========  =========

with e = p - y and h = p (1 - p). Terms are rounded by `grids` (see `calcli.numeric.exact`: one for the weights and the
first two sums, one for the others), so that all sums are exact: blocks of rows may be summed in any order.

Indices are unsigned where they are looked up in tables: for signed ones numba asks each time whether they are negative.
The cache of compiled code watches this file alone, so whatever a kernel calls is in it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled
from calcli.numeric.links import CLIP

Codes = NDArray[np.uint16]
Flags = NDArray[np.uint8]
Places = NDArray[np.int64]
Table = NDArray[np.uint32]

ODDS, LINEAR = 0, 1

SUMS = 5
MASS, POSITIVE, COUNT, FACTS = 5, 6, 7, 8
"""The facts of some rows: the sums, then their weight, that of the positive ones, and how many they are."""

STRIDE = 1 << 10
"""So many rows at a time go through all trees, see `apply_trees`."""

FEW = 1
"""Rows times features below so many times the cells are few: then cells are visited row by row, not all of them."""

BRANCHES, ERROR, SQUARE, LOSS, FOUND = 0, 1, 2, 3, 4
"""What is found out about a split: how many branches it has, and what `judge` says."""


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
    grids: FloatArray,
    facts: FloatArray,
) -> None:
    """Add the rows to these facts."""
    zero = one = two = three = four = mass = positive = 0.0
    for row in range(start, stop):
        y = float(label[row])
        w = weight[row] if len(weight) else 1.0
        first, second = terms(link, prob[row], y, w)
        zero += rounded(first, grids[0])
        one += rounded(second, grids[0])
        two += rounded(first * first, grids[1])
        three += rounded(first * second, grids[1])
        four += rounded(second * second, grids[1])
        mass += rounded(w, grids[0])
        positive += rounded(w, grids[0]) * y
    for place, total in enumerate((zero, one, two, three, four, mass, positive, float(stop - start))):
        facts[place] += total


@compiled
def count_cells(
    codes: Codes,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    offsets: Table,
    grids: FloatArray,
    counts: FloatArray,
) -> None:
    """Add the rows to ``counts[cell]``: the weight of those with label 0 and with label 1, and their number.

    The number is counted where there are weights; elsewhere `counts` has two columns only.
    """
    for row in range(start, stop):
        y = label[row]
        if len(weight):
            w = rounded(weight[row], grids[0])
            for feature in range(len(offsets) - 1):
                cell = offsets[feature] + codes[row, feature]
                counts[cell, y] += w
                counts[cell, 2] += 1.0
        else:
            for feature in range(len(offsets) - 1):
                counts[offsets[feature] + codes[row, feature], y] += 1.0


@compiled
def clear_cells(codes: Codes, start: int, stop: int, offsets: Table, counts: FloatArray) -> None:
    """Set the counts of these rows' cells to 0."""
    for row in range(start, stop):
        for feature in range(len(offsets) - 1):
            counts[offsets[feature] + codes[row, feature]] = 0.0


@compiled
def open_branch(
    branch: Table, cell: int, at: int, counts: FloatArray, code: Codes, here: int, facts: FloatArray
) -> None:
    """Let a cell be branch number `at`."""
    branch[cell] = at
    code[at] = here
    facts[at] = 0.0
    mass = counts[cell, 0] + counts[cell, 1]
    facts[at, MASS] = mass
    facts[at, POSITIVE] = counts[cell, 1]
    facts[at, COUNT] = counts[cell, 2] if counts.shape[1] > 2 else mass


@compiled
def number_branches(
    counts: FloatArray,
    first: int,
    last: int,
    least: float,
    base: int,
    branch: Table,
    code: Codes,
    facts: FloatArray,
) -> int:
    """Number the branches that the cells first .. last - 1 of one feature make: the rest is `base`, the others follow.

    Returns how many there are, the rest among them even if it has no rows. The rest's cells are left as they are, 0.
    """
    found = 1
    for cell in range(first + 1, last):
        if counts[cell, 0] + counts[cell, 1] >= least:
            open_branch(branch, cell, base + found, counts, code, cell - first, facts)
            found += 1
    return found


@compiled
def number_touched(
    codes: Codes,
    start: int,
    stop: int,
    feature: int,
    first: int,
    counts: FloatArray,
    least: float,
    base: int,
    branch: Table,
    code: Codes,
    facts: FloatArray,
) -> int:
    """`number_branches` for few rows and many cells: only those that the rows touch are looked at."""
    found = 1
    for row in range(start, stop):
        here = codes[row, feature]
        cell = first + here
        if counts[cell, 0] + counts[cell, 1] >= least and branch[cell] == 0 and here > 0:
            branch[cell] = base + found
            code[base + found] = here
            found += 1
    code[base + 1 : base + found].sort()
    for at in range(base + 1, base + found):
        open_branch(branch, first + code[at], at, counts, code, code[at], facts)
    return found


@compiled
def close_branches(branch: Table, first: int, base: int, many: int, code: Codes) -> None:
    """Set the cells of these branches back to 0."""
    for at in range(base + 1, base + many):
        branch[first + code[at]] = 0


@compiled
def number_all(
    codes: Codes,
    start: int,
    stop: int,
    counts: FloatArray,
    touched: bool,
    offsets: Table,
    least: float,
    base: int,
    branch: Table,
    code: Codes,
    node: FloatArray,
    facts: FloatArray,
    bases: Places,
    found: FloatArray,
) -> int:
    """The branches of every feature, one after the other; returns where those of the last end.

    Where a feature does not make two branches with rows, ``found[feature, BRANCHES]`` is 0 and its branches are none.
    `node` is what is known of all the rows.
    """
    for feature in range(len(bases)):
        first, last = int(offsets[feature]), int(offsets[feature + 1])
        if touched:
            many = number_touched(codes, start, stop, feature, first, counts, least, base, branch, code, facts)
        else:
            many = number_branches(counts, first, last, least, base, branch, code, facts)
        bases[feature] = base
        if many > 2 or (many == 2 and facts[base + 1, COUNT] < node[COUNT]):
            found[feature, BRANCHES] = many
            code[base] = 0
            facts[base] = 0.0
            base += many
        else:
            found[feature, BRANCHES] = 0
            close_branches(branch, first, base, many, code)
    return base


@compiled
def sum_branches(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    offsets: Table,
    features: Table,
    branch: Table,
    link: int,
    wanted: int,
    grids: FloatArray,
    facts: FloatArray,
) -> None:
    """Add the rows to the sums of their branch of each of `features`: to the first `wanted`, 2 or all.

    Rows of the rest, whose branch is 0, are left out: its sums are what the others leave of the node's.
    """
    if link == LINEAR and wanted > 2 and len(weight) == 0:
        sum_by_label(codes, prob, label, start, stop, offsets, features, branch, grids, facts)
        return
    for row in range(start, stop):
        first, second = terms(link, prob[row], float(label[row]), weight[row] if len(weight) else 1.0)
        one, two = rounded(first, grids[0]), rounded(second, grids[0])
        if wanted == 2:
            for feature in features:
                at = branch[offsets[feature] + codes[row, feature]]
                if at > 0:
                    facts[at, 0] += one
                    facts[at, 1] += two
            continue
        three, four = rounded(first * first, grids[1]), rounded(first * second, grids[1])
        five = rounded(second * second, grids[1])
        for feature in features:
            at = branch[offsets[feature] + codes[row, feature]]
            if at > 0:
                facts[at, 0] += one
                facts[at, 1] += two
                facts[at, 2] += three
                facts[at, 3] += four
                facts[at, 4] += five


@compiled
def sum_by_label(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    start: int,
    stop: int,
    offsets: Table,
    features: Table,
    branch: Table,
    grids: FloatArray,
    facts: FloatArray,
) -> None:
    """The same for ``linear`` without weights, from p and p^2 of either label: less than half of the work.

    `spread` makes the sums of them.
    """
    for row in range(start, stop):
        p = prob[row]
        one, two = rounded(p, grids[0]), rounded(p * p, grids[1])
        column = np.uint32(2) * np.uint32(label[row])
        for feature in features:
            at = branch[offsets[feature] + codes[row, feature]]
            if at > 0:
                facts[at, column] += one
                facts[at, column + np.uint32(1)] += two


@compiled
def spread(facts: FloatArray, first: int, last: int) -> None:
    """Make the sums of what `sum_by_label` has added up."""
    for at in range(first, last):
        p, square, p_positive, square_positive = facts[at, 0], facts[at, 1], facts[at, 2], facts[at, 3]
        facts[at, 0], facts[at, 1] = p + p_positive, facts[at, POSITIVE]
        facts[at, 2], facts[at, 3], facts[at, 4] = square + square_positive, p_positive, facts[at, POSITIVE]


@compiled
def leave_rest(facts: FloatArray, base: int, many: int, node: FloatArray) -> None:
    """The facts about the rest: what the other branches leave of the node's. Sums are exact, so this is too."""
    facts[base] = node
    for at in range(base + 1, base + many):
        facts[base] -= facts[at]


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
def splitting(found: FloatArray) -> Table:
    """The features that make two branches or more."""
    kept = np.empty(len(found), dtype=np.uint32)
    count = 0
    for feature in range(len(found)):
        if found[feature, BRANCHES] > 0:
            kept[count] = feature
            count += 1
    return kept[:count]


@compiled
def finish_node(
    facts: FloatArray,
    end: int,
    bases: Places,
    least: float,
    link: int,
    parent: float,
    shrink: float,
    wanted: int,
    weighted: bool,
    node: FloatArray,
    found: FloatArray,
) -> None:
    """From what `sum_branches` has added up for one node to what is found out about its splits."""
    if link == LINEAR and wanted > 2 and not weighted:
        spread(facts, bases[0], end)
    for feature in range(len(bases)):
        many = int(found[feature, BRANCHES])
        if many > 0:
            leave_rest(facts, bases[feature], many, node)
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
    whole: FloatArray,
    least: float,
    link: int,
    shrink: float,
    wanted: int,
    grids: FloatArray,
    found: FloatArray,
    bases: Places,
    code: Codes,
    facts: FloatArray,
) -> int:
    """The branches that each of these nodes has by each feature, and what `judge` says of the split.

    `code` and `facts` tell about the branches, which stand from ``bases[node, feature]`` on; returns where the last one
    ends. `nodes` are the facts about the nodes, `whole` is `count_cells` of all rows.
    """
    counts = np.zeros_like(whole)
    branch = np.zeros(len(whole), dtype=np.uint32)
    end = 1  # branch 0 is that of cells that have none
    for node in range(len(starts)):
        start, stop, first = starts[node], stops[node], end
        everything = stop - start == len(prob)
        few = (stop - start) * bases.shape[1] < FEW * len(whole)
        if not everything:
            count_cells(codes, label, weight, start, stop, offsets, grids, counts)
        end = number_all(
            codes,
            start,
            stop,
            whole if everything else counts,
            few and not everything,
            offsets,
            least,
            first,
            branch,
            code,
            nodes[node],
            facts,
            bases[node],
            found[node],
        )
        if few:
            clear_cells(codes, start, stop, offsets, counts)
        else:
            counts[:] = 0.0
        if end == first:
            continue
        kept = splitting(found[node])
        sum_branches(codes, prob, label, weight, start, stop, offsets, kept, branch, link, wanted, grids, facts)
        weighted = len(weight) > 0
        finish_node(
            facts, end, bases[node], least, link, patterns[node], shrink, wanted, weighted, nodes[node], found[node]
        )
        for feature in kept:
            close_branches(branch, offsets[feature], bases[node, feature], int(found[node, feature, BRANCHES]), code)
    return end


@compiled
def count_branches(codes: Codes, start: int, stop: int, feature: int, branch: Table, counts: Places) -> None:
    """Add the rows to the counts of their branches."""
    for row in range(start, stop):
        counts[branch[codes[row, feature]]] += 1


@compiled
def scatter(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    feature: int,
    branch: Table,
    places: Places,
    to_codes: Codes,
    to_prob: FloatArray,
    to_label: Flags,
    to_weight: FloatArray,
) -> None:
    """Copy rows to where their branch stands; `places` is where the next row of each goes, and moves on."""
    for row in range(start, stop):
        at = branch[codes[row, feature]]
        to = places[at]
        places[at] = to + 1
        for column in range(codes.shape[1]):
            to_codes[to, column] = codes[row, column]
        to_prob[to] = prob[row]
        to_label[to] = label[row]
        if len(weight):
            to_weight[to] = weight[row]


@compiled
def scatter_nodes(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    to_codes: Codes,
    to_prob: FloatArray,
    to_label: Flags,
    to_weight: FloatArray,
    starts: Places,
    stops: Places,
    chosen: Places,
    firsts: Places,
    branches: Places,
    code: Codes,
    places: Places,
) -> None:
    """`scatter` the rows of each node by its chosen feature.

    Its children stand from ``firsts[node]`` on: ``code`` leads to each, and ``places`` is where their rows go.
    """
    branch = np.zeros(1 << 16, dtype=np.uint32)
    for node in range(len(starts)):
        first = firsts[node]
        for child in range(1, branches[node]):
            branch[code[first + child]] = child
        scatter(
            codes,
            prob,
            label,
            weight,
            starts[node],
            stops[node],
            chosen[node],
            branch,
            places[first : first + branches[node]],
            to_codes,
            to_prob,
            to_label,
            to_weight,
        )
        for child in range(1, branches[node]):
            branch[code[first + child]] = 0


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


@compiled
def move_rows(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    to_codes: Codes,
    to_prob: FloatArray,
    to_label: Flags,
    to_weight: FloatArray,
    starts: Places,
    stops: Places,
) -> None:
    """Copy these ranges of rows."""
    for node in range(len(starts)):
        start, stop = starts[node], stops[node]
        to_codes[start:stop] = codes[start:stop]
        to_prob[start:stop] = prob[start:stop]
        to_label[start:stop] = label[start:stop]
        if len(weight):
            to_weight[start:stop] = weight[start:stop]


@compiled
def calibrated(link: int, p: float, pattern: float) -> float:
    """The probability under a pattern: sigmoid(z + b) = p e^b / (1 - p + p e^b), or k p, at most 1."""
    if link == ODDS:
        odds = p * math.exp(pattern)
        return odds / (1.0 - p + odds)
    return min(pattern * p, 1.0)


@compiled
def set_patterns(prob: FloatArray, starts: Places, stops: Places, patterns: FloatArray, link: int) -> None:
    """Calibrate the rows of each leaf."""
    for leaf in range(len(starts)):
        for row in range(starts[leaf], stops[leaf]):
            prob[row] = calibrated(link, prob[row], patterns[leaf])


@compiled
def set_by_branch(
    codes: Codes,
    prob: FloatArray,
    start: int,
    stop: int,
    feature: int,
    branch: Table,
    patterns: FloatArray,
    link: int,
) -> None:
    """Calibrate rows by the pattern of their branch."""
    for row in range(start, stop):
        prob[row] = calibrated(link, prob[row], patterns[branch[codes[row, feature]]])


@compiled
def set_by_branches(
    codes: Codes,
    prob: FloatArray,
    starts: Places,
    stops: Places,
    chosen: Places,
    firsts: Places,
    branches: Places,
    code: Codes,
    patterns: FloatArray,
    link: int,
) -> None:
    """`set_by_branch` for the rows of each node; its children are as in `scatter_nodes`."""
    branch = np.zeros(1 << 16, dtype=np.uint32)
    for node in range(len(starts)):
        first, many = firsts[node], branches[node]
        for child in range(1, many):
            branch[code[first + child]] = child
        set_by_branch(
            codes, prob, starts[node], stops[node], chosen[node], branch, patterns[first : first + many], link
        )
        for child in range(1, many):
            branch[code[first + child]] = 0


@compiled
def calibrate(prob: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """Calibrate each row by a pattern of its own."""
    for row in range(len(prob)):
        out[row] = calibrated(link, prob[row], patterns[row])


@compiled
def log_loss(prob: FloatArray, label: Flags, weight: FloatArray, start: int, stop: int) -> float:
    """The sum of w times the log-loss."""
    total = 0.0
    for row in range(start, stop):
        happened = prob[row] if label[row] else 1.0 - prob[row]
        total -= (weight[row] if len(weight) else 1.0) * math.log(max(happened, CLIP))
    return total


@compiled
def apply_trees(
    codes: Codes,
    score: FloatArray,
    start: int,
    stop: int,
    link: int,
    roots: Table,
    depths: Places,
    nodes: NDArray[np.uint64],
    children: Table,
    pattern: FloatArray,
) -> None:
    """Calibrate rows by one tree after the other; `score` is z for ``odds`` and p for ``linear``, and is changed.

    A number of `nodes` is, from its highest bit on, the feature (15 bits), the greatest code with a branch of its own
    plus one (17), and where the node's part of `children` begins (32): that has the child of each code, and at last
    that of all greater codes, the rest. A leaf is its own child. So a step has nothing to decide, and the processor
    works on several rows at once; few rows at a time go through all trees, so that they stay in the cache.
    """
    at = np.empty(STRIDE, dtype=np.uint32)
    low_bits, more_bits = np.uint64(0xFFFFFFFF), np.uint64(0x1FFFF)
    for first in range(start, stop, STRIDE):
        many = min(STRIDE, stop - first)
        for tree in range(len(roots)):
            at[:many] = roots[tree]
            for _ in range(depths[tree]):
                for place in range(many):
                    node = nodes[at[place]]
                    code = np.uint64(codes[first + place, node >> np.uint64(49)])
                    known = min(code, (node >> np.uint64(32)) & more_bits)
                    at[place] = children[(node & low_bits) + known]
            if link == ODDS:
                for place in range(many):
                    score[first + place] += pattern[at[place]]
            else:
                for place in range(many):
                    score[first + place] = min(score[first + place] * pattern[at[place]], 1.0)


@compiled
def row_losses(score: FloatArray, label: Flags, link: int, out: FloatArray) -> None:
    """The log-loss of each row; `score` as in `apply_trees`."""
    for row in range(len(score)):
        if link == ODDS:
            z = -score[row] if label[row] else score[row]
            out[row] = max(z, 0.0) + math.log1p(math.exp(-abs(z)))
        else:
            happened = score[row] if label[row] else 1.0 - score[row]
            out[row] = -math.log(max(happened, CLIP))


@compiled
def encode_numbers(
    values: FloatArray, cuts: FloatArray, missing: int, start: int, stop: int, out: Codes, place: int
) -> None:
    """The code of each number: how many cuts lie below it, after 0 and that of a missing one, if it has one."""
    for row in range(start, stop):
        value = values[row]
        low, left = 0, len(cuts)
        while left > 1:  # nothing to decide: either way half of them are left
            half = left // 2
            low += half * int(cuts[low + half - 1] < value)
            left -= half
        if left > 0:
            low += int(cuts[low] < value)
        out[row, place] = missing if math.isnan(value) else 1 + missing + low


@compiled
def encode_categories(values: NDArray[np.int32], table: Codes, start: int, stop: int, out: Codes, place: int) -> None:
    """The code of each category by its place in the batch's levels; a missing one takes the table's last entry."""
    last = np.uint32(len(table) - 1)
    for row in range(start, stop):
        out[row, place] = table[min(np.uint32(values[row]), last)]  # -1 is the greatest of all
