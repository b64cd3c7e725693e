"""Search of splits: the branches of a node by each feature, and the loss of each of these splits.

A branch has a pattern, which says how its rows are calibrated: b with z' = z + b (``odds``), or k with p' = k p
(``linear``, Huang et al. 2022, 4.2). It follows from sums over the rows of the branch, the first five of its facts:

======  =====  =====  =========  ===========  =========
link    0      1      2          3            4
======  =====  =====  =========  ===========  =========
odds    w e    w h    w^2 e^2    w^2 e h      w^2 h^2
linear  w p    w y    w^2 p^2    w^2 p y      w^2 y^2
======  =====  =====  =========  ===========  =========

with e = p - y and h = p (1 - p), the gradient and the curvature of the log-loss in z. The last three are needed for the
multi-view calibration error alone. One pass over the rows of a node sums them by cell into a histogram, from which the
branches of all features follow (`search_nodes`).

Terms are rounded by `Cells.grids` (see `calcli.numeric.bins`: one for the weights and the first two sums, one for the
others), so that all sums are exact: threads sum blocks of rows in any order, and the rest of a split is the node less
its other branches.
"""

from __future__ import annotations

import math
from typing import Any

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
    Cells,
    Flags,
    Places,
    RowArrays,
    Rule,
    Scratch,
    Splits,
    Table,
)
from calcli.methods.trees.compiled import compiled, intrinsic, ir, types


@compiled
def rounded(x: float, grid: float) -> float:
    """A multiple of the grid's step."""
    return (x + grid) - grid


@compiled
def terms(link: int, p: float, y: float, w: float) -> tuple[float, float]:
    """The terms of the first two sums for a row; those of the other three are their squares and their product."""
    if link == ODDS:
        return w * (p - y), w * p * (1.0 - p)
    return w * p, w * y


@compiled
def pattern_of(link: int, first: float, second: float, parent: float, shrink: float) -> float:
    """The pattern of a branch with these first two sums, shrunk to its parent's.

    ``odds``: the damped Newton step b = sign(s) ln(1 + |s|), s = (lambda b_parent - sum e) / (sum h + lambda).
    ``linear``: k = (sum y + tau k_parent) / (sum p + tau), without shrinkage the inverse of the PUD (equation 6).
    """
    if link == ODDS:
        curvature = second + shrink
        if curvature <= 0.0:
            return parent
        s = (shrink * parent - first) / curvature
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
    """The sum of w^2 e^2 once the rows have this pattern."""
    cross = 2.0 * pattern * sums[3]
    if link == ODDS:
        return float(sums[2] + cross + pattern * pattern * sums[4])
    return float(pattern * pattern * sums[2] - cross + sums[4])


@compiled
def gain_of(link: int, sums: FloatArray, parent: float, shrink: float) -> float:
    """A lower bound of how far the log-loss of a branch falls if it gets a pattern of its own, less the penalty.

    ``odds``: since h changes by no more than a factor e^|b|, the penalised log-loss falls by at least
    H ((1 + a) ln(1 + a) - a), a = |lambda b_parent - sum e| / H, H = sum h + lambda; what the penalty would be without
    a step, lambda b_parent^2 / 2, is taken off. ``linear``: the log-likelihood of counts, sum y ln k - (k - 1) sum p.
    """
    if link == ODDS:
        curvature = sums[1] + shrink
        if curvature <= 0.0:
            return 0.0
        a = abs(shrink * parent - sums[0]) / curvature
        return float(curvature * ((1.0 + a) * math.log1p(a) - a) - shrink * parent * parent / 2.0)
    return gain_with(link, sums, pattern_of(link, sums[0], sums[1], parent, shrink))


@compiled
def gain_with(link: int, sums: FloatArray, pattern: float) -> float:
    """A lower bound of how far the log-loss of rows falls under this pattern."""
    if link == ODDS:
        size = abs(pattern)
        return float(-pattern * sums[0] - (math.exp(size) - size - 1.0) * sums[1])
    log_term = sums[1] * math.log(pattern) if sums[1] > 0.0 else 0.0
    return float(log_term - (pattern - 1.0) * sums[0])


@compiled
def add_totals(rows: RowArrays, link: int, squares: bool, grids: FloatArray, facts: FloatArray) -> None:
    """Add all rows to these facts; without `squares` only to the first two sums."""
    words, numbers = rows.words, rows.words.view(np.float64)
    zero = one = two = three = four = mass = positive = 0.0
    for row in range(len(numbers)):
        y = float(words[row, 0] >> np.uint64(63))
        w = numbers[row, 1] if rows.weighted else 1.0
        first, second = terms(link, abs(numbers[row, 0]), y, w)
        zero += rounded(first, grids[0])
        one += rounded(second, grids[0])
        if squares:
            two += rounded(first * first, grids[1])
            three += rounded(first * second, grids[1])
            four += rounded(second * second, grids[1])
        if rows.weighted:
            mass += rounded(w, grids[0])
            positive += rounded(w, grids[0]) * y
        else:
            positive += y
    if not rows.weighted:
        mass = float(len(numbers))
    for column, total in enumerate((zero, one, two, three, four, mass, positive, float(len(numbers)))):
        facts[column] += total


@compiled
def sums_by_label(link: int, squares: bool, weighted: bool) -> bool:
    """Which layout the histogram has, see `add_to_histogram`."""
    return link == LINEAR and squares and not weighted


@intrinsic
def add_line(context: Any, histogram: Any, line: Any, terms: Any) -> tuple[Any, Any]:
    """Add four terms to four successive numbers of the histogram at once, as a vector; numba's compiler makes none."""

    def generate(target: Any, builder: Any, signature: Any, given: Any) -> Any:
        vector = ir.VectorType(ir.DoubleType(), 4)
        numbers = target.make_array(signature.args[0])(target, builder, given[0]).data
        place = builder.gep(builder.bitcast(numbers, vector.as_pointer()), [given[1]])
        added = ir.Constant(vector, ir.Undefined)
        for at in range(4):
            term = builder.extract_value(given[2], at)
            added = builder.insert_element(added, term, ir.Constant(ir.IntType(32), at))
        builder.store(builder.fadd(builder.load(place, align=8), added), place, align=8)
        return target.get_dummy_value()

    return types.void(histogram, types.uint64, types.UniTuple(types.float64, 4)), generate


@compiled
def add_to_histogram(rows: RowArrays, start: int, stop: int, cells: Cells, rule: Rule, histogram: FloatArray) -> None:
    """Add rows start .. stop - 1 to the cells of their codes, one for each feature.

    A cell of the histogram holds as few sums as `cell_facts` needs. Its two halves begin with the weight of the rows
    with label 0 and with label 1. The first two sums follow, one in each; with `squares` or weights all five, three in
    the first half, and last the number of rows. ``linear`` with squares and without weights has in each half p and p^2
    of the rows with that label, which tell the same since y and y^2 are 0 or 1, and are half the work.
    """
    words, numbers, codes = rows.words, rows.words.view(np.float64), rows.codes
    offsets, grids, features = cells.offsets, cells.grids, np.uint64(len(cells.offsets) - 1)
    weighted, by_label = rows.weighted, sums_by_label(rule.link, rule.squares, rows.weighted)
    wide = histogram.shape[1] > 4
    for row in range(np.uint64(start), np.uint64(stop)):
        p, y = abs(numbers[row, 0]), words[row, 0] >> np.uint64(63)
        at, positive, three, four, five = np.uint64(0), 0.0, 0.0, 0.0, 0.0
        if by_label:
            at = y
            half = 1.0, rounded(p, grids[0]), rounded(p * p, grids[1]), 0.0
        else:
            w = numbers[row, 1] if weighted else 1.0
            first, second = terms(rule.link, p, float(y), w)
            mass = rounded(w, grids[0])
            positive, one, two = mass * float(y), rounded(first, grids[0]), rounded(second, grids[0])
            if rule.squares:
                three, four = rounded(first * first, grids[1]), rounded(first * second, grids[1])
                five = rounded(second * second, grids[1])
            half = (mass - positive, one, two, three) if wide else (mass - positive, one, positive, two)
        for feature in range(features):
            cell = np.uint64(offsets[feature]) + np.uint64(codes[row, feature])
            line = (cell << np.uint64(wide)) + at
            add_line(histogram, line, half)
            if wide and not by_label:
                add_line(histogram, line + np.uint64(1), (positive, four, five, 1.0))


@compiled
def cell_facts(sums: FloatArray, by_label: bool, facts: FloatArray) -> None:
    """The facts of the rows of a cell, from its sums in a histogram."""
    negative, positive = sums[0], sums[len(sums) // 2]
    facts[MASS], facts[POSITIVE], facts[COUNT] = negative + positive, positive, negative + positive
    if by_label:
        facts[0], facts[1], facts[2] = sums[1] + sums[5], positive, sums[2] + sums[6]
        facts[3], facts[4] = sums[5], positive
    elif len(sums) > 4:
        facts[0], facts[1], facts[2] = sums[1], sums[2], sums[3]
        facts[3], facts[4], facts[COUNT] = sums[5], sums[6], sums[7]
    else:
        facts[0], facts[1], facts[2], facts[3], facts[4] = sums[1], sums[3], 0.0, 0.0, 0.0


@compiled
def cells_of_rows(rows: RowArrays, start: int, stop: int, offsets: Table, seen: Flags, out: Table) -> int:
    """List the cells that have any of these rows, each once; returns how many. `seen` is all 0, before and after."""
    codes, count = rows.codes, 0
    for row in range(start, stop):
        for feature in range(len(offsets) - 1):
            cell = offsets[feature] + codes[row, feature]
            if seen[cell] == 0:
                seen[cell] = 1
                out[count] = cell
                count += 1
    for place in range(count):
        seen[out[place]] = 0
    return count


@compiled
def sort_cells(cells: Table, count: int) -> None:
    """Sort the first cells (Shell 1959); numba's own sort takes a second to compile."""
    gap = count // 2
    while gap > 0:
        for place in range(gap, count):
            cell, to = cells[place], place
            while to >= gap and cells[to - gap] > cell:
                cells[to] = cells[to - gap]
                to -= gap
            cells[to] = cell
        gap //= 2


@compiled
def judge(facts: FloatArray, parent: float, rule: Rule, outcome: FloatArray) -> None:
    """The loss of a split into these branches, the rest first.

    That is the sums of w e and of w^2 e^2, from which the calibration error of equation 12 follows, and an upper bound
    of the change of the log-loss. A rest of less than the minimal weight keeps its parent's pattern.
    """
    error = square = gain = 0.0
    for branch in range(len(facts)):
        if branch > 0 or facts[branch, MASS] >= rule.min_weight:
            pattern = pattern_of(rule.link, facts[branch, 0], facts[branch, 1], parent, rule.shrink)
            gain += gain_of(rule.link, facts[branch], parent, rule.shrink)
        else:
            pattern = parent
            gain += gain_with(rule.link, facts[branch], parent)
        error += error_after(rule.link, facts[branch], pattern)
        square += square_after(rule.link, facts[branch], pattern)
    outcome[BRANCHES], outcome[ERROR], outcome[SQUARE], outcome[LOSS] = len(facts), error, square, -gain


@compiled
def judge_unsplit(facts: FloatArray, pattern: float, link: int, outcome: FloatArray) -> None:
    """The outcome of a node that is not split."""
    outcome[ERROR] = error_after(link, facts, pattern)
    outcome[SQUARE] = square_after(link, facts, pattern)
    outcome[LOSS] = -gain_with(link, facts, pattern)


@compiled
def search_node(
    histogram: FloatArray,
    heavy: Table,
    pattern: float,
    facts: FloatArray,
    cells: Cells,
    rule: Rule,
    splits: Splits,
    node: int,
    base: int,
) -> int:
    """Fill the entries of a node in `splits`; its branches start at `base`. Returns where they end.

    `histogram` is that of the rows of the node, `heavy` are the cells with weight enough for a branch, in order, and
    `pattern` and `facts` belong to the node itself. Outcomes are 0 before.
    """
    judge_unsplit(facts, pattern, rule.link, splits.unsplit[node])
    by_label = sums_by_label(rule.link, rule.squares, cells.weighted)
    place = 0
    for feature in range(len(cells.offsets) - 1):
        # A branch for each heavy code but 0, from base + 1 on.
        end = base + 1
        while place < len(heavy) and heavy[place] < cells.offsets[feature + 1]:
            cell = heavy[place]
            if cell > cells.offsets[feature]:
                splits.code[end] = cell - cells.offsets[feature]
                cell_facts(histogram[cell], by_label, splits.facts[end])
                end += 1
            place += 1
        # The rest is what these leave of the node. It is a split if two branches have rows; else they are overwritten.
        splits.base[node, feature] = base
        if end > base + 2 or (end == base + 2 and splits.facts[base + 1, COUNT] < facts[COUNT]):
            splits.code[base] = 0
            for fact in range(len(facts)):
                rest = facts[fact]
                for branch in range(base + 1, end):
                    rest -= splits.facts[branch, fact]
                splits.facts[base, fact] = rest
            judge(splits.facts[base:end], pattern, rule, splits.outcome[node, feature])
            base = end
    return base


@compiled
def search_nodes(
    rows: RowArrays,
    starts: Places,
    stops: Places,
    patterns: FloatArray,
    facts: FloatArray,
    cells: Cells,
    rule: Rule,
    histogram: FloatArray,
    scratch: Scratch,
    splits: Splits,
) -> int:
    """`search_node` for each of these nodes, whose rows are starts .. stops - 1. Returns where the branches end.

    `histogram` is all 0, before and after. A node with fewer codes than there are cells visits only the cells that it
    has rows in: the time for a node is that of its rows, whatever the number of cells.
    """
    seen, every, touched, heavy = scratch
    nothing = int(np.int64(0))  # a literal 0 would compile `search_node` and `sort_cells` once more
    end, half = nothing, histogram.shape[1] // 2
    for node in range(len(starts)):
        start, stop = starts[node], stops[node]
        # The histogram of the node, and the cells that have rows.
        add_to_histogram(rows, start, stop, cells, rule, histogram)
        few = (stop - start) * (len(cells.offsets) - 1) < len(histogram)
        visited = every
        if few:
            visited = touched[: cells_of_rows(rows, start, stop, cells.offsets, seen, touched)]
        # Those with weight enough for a branch, in order.
        count = nothing
        for cell in visited:
            if histogram[cell, 0] + histogram[cell, half] >= rule.min_weight:
                heavy[count] = cell
                count += 1
        if few:
            sort_cells(heavy, count)
        end = search_node(histogram, heavy[:count], patterns[node], facts[node], cells, rule, splits, node, end)
        for cell in visited:
            for place in range(histogram.shape[1]):
                histogram[cell, place] = 0.0
    return end


@compiled
def fit_children(facts: FloatArray, firsts: Places, parents: FloatArray, rule: Rule, patterns: FloatArray) -> None:
    """The patterns of the children of each node, number ``firsts[node]`` .. ``firsts[node + 1] - 1``, as in `judge`."""
    for node in range(len(parents)):
        for child in range(firsts[node], firsts[node + 1]):
            patterns[child] = parents[node]
            if child > firsts[node] or facts[child, MASS] >= rule.min_weight:
                patterns[child] = pattern_of(rule.link, facts[child, 0], facts[child, 1], parents[node], rule.shrink)
