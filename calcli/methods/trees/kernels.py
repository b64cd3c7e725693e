"""The inner loops of MBCT: sums over rows by branch, and what a split would leave of the errors.

A row is a line of codes (one for each feature), a probability p, a label y and perhaps a weight w. The codes of a
feature are 0 for whatever is rare or was never seen, then 1, 2, ..; a cell is one code of one feature. A split of a
node has a branch for each code with enough rows there, and branch 0, the rest, for all others.

A branch has a pattern, which says how its rows are calibrated: b with z' = z + b (``odds``), or k with p' = k p
(``linear``). It follows from sums over the rows of the branch:

======  =====  =====  =========  ===========  =========
link    0      1      2          3            4
======  =====  =====  =========  ===========  =========
odds    w e    w h    w^2 e^2    w^2 e h      w^2 h^2
linear  w p    w y    w^2 p^2    w^2 p y      w^2 y^2
======  =====  =====  =========  ===========  =========

with e = p - y and h = p (1 - p). Terms are rounded by `grids` (see `calcli.numeric.exact`: one for the weights and the
first two sums, one for the others), so that all sums are exact: blocks of rows may be summed in any order.

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

ODDS, LINEAR = 0, 1
SUMS = 5
BRANCHES, ERROR, SQUARE, LOSS, FOUND = 0, 1, 2, 3, 4
"""What is found out about a split: how many branches it has, and what `judge` says."""

WEIGHT, POSITIVE, ROWS, FACTS = 5, 6, 7, 8
"""What is known of the rows of a branch beside the sums: see `tally`."""


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
def count_cells(
    codes: Codes,
    weight: FloatArray,
    start: int,
    stop: int,
    offsets: Places,
    features: Places,
    grids: FloatArray,
    counts: FloatArray,
) -> None:
    """Add the weight of each row to its cells of these features."""
    for row in range(start, stop):
        w = rounded(weight[row], grids[0]) if len(weight) else 1.0
        for place in range(len(features)):
            feature = features[place]
            counts[offsets[feature] + codes[row, feature]] += w


@compiled
def number_branches(
    counts: FloatArray, start: int, stop: int, least: float, base: int, branch: Places, names: Places
) -> tuple[int, float]:
    """Number the branches that the cells start .. stop - 1 of one feature make, from `base` on, the rest first.

    Returns how many there are, the rest among them even if it has no rows, and the weight of the rest. `names` gets the
    code of each, 0 for the rest.
    """
    found, rest = 1, 0.0
    names[base] = 0
    for cell in range(start, stop):
        if cell > start and counts[cell] >= least:
            branch[cell] = base + found
            names[base + found] = cell - start
            found += 1
        else:
            branch[cell] = base
            rest += counts[cell]
    return found, rest


@compiled
def number_touched(
    codes: Codes,
    start: int,
    stop: int,
    feature: int,
    first: int,
    least: float,
    base: int,
    counts: FloatArray,
    branch: Places,
    names: Places,
) -> tuple[int, float]:
    """`number_branches` for few rows and many cells: only those that the rows touch are looked at.

    Their `counts` are turned negative.
    """
    found, rest = 1, 0.0
    names[base] = 0
    for row in range(start, stop):
        code = codes[row, feature]
        cell = first + code
        if counts[cell] > 0.0:
            branch[cell] = base
            if code > 0 and counts[cell] >= least:
                names[base + found] = code
                found += 1
            else:
                rest += counts[cell]
            counts[cell] = -counts[cell]
    names[base + 1 : base + found].sort()
    for place in range(base + 1, base + found):
        branch[first + names[place]] = place
    return found, rest


@compiled
def forget(codes: Codes, start: int, stop: int, offsets: Places, features: Places, counts: FloatArray) -> None:
    """Set the counts of these rows' cells to 0."""
    for row in range(start, stop):
        for place in range(len(features)):
            counts[offsets[features[place]] + codes[row, features[place]]] = 0.0


@compiled
def sum_branches(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    offsets: Places,
    features: Places,
    branch: Places,
    link: int,
    wanted: int,
    grids: FloatArray,
    sums: FloatArray,
) -> None:
    """Add the terms of each row to the sums of its branch of each of `features`; `wanted` sums, 2 or all."""
    for row in range(start, stop):
        first, second = terms(link, prob[row], float(label[row]), weight[row] if len(weight) else 1.0)
        one, two = rounded(first, grids[0]), rounded(second, grids[0])
        if wanted == 2:
            for place in range(len(features)):
                feature = features[place]
                at = branch[offsets[feature] + codes[row, feature]]
                sums[at, 0] += one
                sums[at, 1] += two
            continue
        three, four = rounded(first * first, grids[1]), rounded(first * second, grids[1])
        five = rounded(second * second, grids[1])
        for place in range(len(features)):
            feature = features[place]
            at = branch[offsets[feature] + codes[row, feature]]
            sums[at, 0] += one
            sums[at, 1] += two
            sums[at, 2] += three
            sums[at, 3] += four
            sums[at, 4] += five


@compiled
def judge(
    sums: FloatArray,
    base: int,
    found: int,
    rest: float,
    least: float,
    link: int,
    parent: float,
    shrink: float,
    out: FloatArray,
) -> None:
    """What a split into the branches base .. base + found - 1 leaves, in `out`.

    That is the sums of w e and of w^2 e^2, and by how much the log-loss changes at most. A rest of less than `least`
    keeps its parent's pattern.
    """
    error = square = gain = 0.0
    for at in range(base, base + found):
        own = at > base or rest >= least
        if own:
            pattern = pattern_of(link, sums[at, 0], sums[at, 1], parent, shrink)
            gain += gain_of(link, sums[at], parent, shrink)
        else:
            pattern = parent
            gain += gain_with(link, sums[at], parent)
        error += error_after(link, sums[at], pattern)
        square += square_after(link, sums[at], pattern)
    out[ERROR], out[SQUARE], out[LOSS] = error, square, -gain


@compiled
def judge_as_is(facts: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """The same for nodes that stay as they are."""
    for node in range(len(facts)):
        out[node, ERROR] = error_after(link, facts[node], patterns[node])
        out[node, SQUARE] = square_after(link, facts[node], patterns[node])
        out[node, LOSS] = -gain_with(link, facts[node], patterns[node])


@compiled
def tally(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    feature: int,
    branch: Places,
    link: int,
    grids: FloatArray,
    facts: FloatArray,
) -> None:
    """Add the rows to the facts of their branches: all sums, then weight, weight of positives, and rows."""
    for row in range(start, stop):
        y = float(label[row])
        w = weight[row] if len(weight) else 1.0
        first, second = terms(link, prob[row], y, w)
        at = branch[codes[row, feature]]
        facts[at, 0] += rounded(first, grids[0])
        facts[at, 1] += rounded(second, grids[0])
        facts[at, 2] += rounded(first * first, grids[1])
        facts[at, 3] += rounded(first * second, grids[1])
        facts[at, 4] += rounded(second * second, grids[1])
        mass = rounded(w, grids[0])
        facts[at, WEIGHT] += mass
        facts[at, POSITIVE] += mass * y
        facts[at, ROWS] += 1.0


@compiled
def scatter(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    start: int,
    stop: int,
    feature: int,
    branch: Places,
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
def number_all(
    counts: FloatArray,
    offsets: Places,
    least: float,
    branch: Places,
    names: Places,
    bases: Places,
    rests: FloatArray,
    found: FloatArray,
) -> int:
    """`number_branches` of every feature that makes two or more, one after the other; returns where they end.

    ``found[feature, BRANCHES]`` is 0 for the others.
    """
    end = 0
    for feature in range(len(offsets) - 1):
        first, last = offsets[feature], offsets[feature + 1]
        many, rests[feature] = number_branches(counts, first, last, least, end, branch, names)
        end = take_branches(feature, many, end, bases, rests, found)
    return end


@compiled
def take_branches(feature: int, many: int, end: int, bases: Places, rests: FloatArray, found: FloatArray) -> int:
    """Keep these branches, if they are two or more with rows; returns where they end."""
    bases[feature] = end
    splits = many > 2 or (many == 2 and rests[feature] > 0.0)
    found[feature, BRANCHES] = many if splits else 0
    return end + many if splits else end


@compiled
def judge_all(
    sums: FloatArray,
    features: Places,
    bases: Places,
    rests: FloatArray,
    least: float,
    link: int,
    parent: float,
    shrink: float,
    found: FloatArray,
) -> None:
    """`judge` the splits by these features."""
    for feature in features:
        many = int(found[feature, BRANCHES])
        judge(sums, bases[feature], many, rests[feature], least, link, parent, shrink, found[feature])


@compiled
def search_nodes(
    codes: Codes,
    prob: FloatArray,
    label: Flags,
    weight: FloatArray,
    starts: Places,
    stops: Places,
    patterns: FloatArray,
    offsets: Places,
    least: float,
    link: int,
    shrink: float,
    wanted: int,
    grids: FloatArray,
    found: FloatArray,
) -> None:
    """`judge` the split of each of these nodes by each feature."""
    features = np.arange(len(offsets) - 1)
    counts = np.zeros(offsets[-1])
    branch = np.empty(offsets[-1], dtype=np.int64)
    names = np.empty(offsets[-1] + 1, dtype=np.int64)
    sums = np.empty((offsets[-1], SUMS))
    bases, rests = np.empty(len(features), dtype=np.int64), np.empty(len(features))
    usable = np.empty(len(features), dtype=np.int64)
    for node in range(len(starts)):
        start, stop = starts[node], stops[node]
        count_cells(codes, weight, start, stop, offsets, features, grids, counts)
        if (stop - start) * len(features) > offsets[-1]:
            end = number_all(counts, offsets, least, branch, names, bases, rests, found[node])
            counts[:] = 0.0
        else:
            end = 0
            for feature in range(len(features)):
                many, rests[feature] = number_touched(
                    codes, start, stop, feature, offsets[feature], least, end, counts, branch, names
                )
                end = take_branches(feature, many, end, bases, rests, found[node])
            forget(codes, start, stop, offsets, features, counts)
        kept = 0
        for feature in range(len(features)):
            if found[node, feature, BRANCHES] > 0:
                usable[kept] = feature
                kept += 1
        sums[:end] = 0.0
        splits = usable[:kept]
        sum_branches(codes, prob, label, weight, start, stop, offsets, splits, branch, link, wanted, grids, sums)
        judge_all(sums, splits, bases, rests, least, link, patterns[node], shrink, found[node])


@compiled
def split_nodes(
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
    offsets: Places,
    least: float,
    link: int,
    grids: FloatArray,
    child_code: Places,
    child_facts: FloatArray,
) -> None:
    """Split each of these nodes by its chosen feature: put its rows in order of the branches, and tell about those.

    The children of a node stand at ``firsts[node]`` and after it.
    """
    counts = np.zeros(offsets[-1])
    branch = np.empty(offsets[-1], dtype=np.int64)
    names = np.empty(offsets[-1] + 1, dtype=np.int64)
    places = np.empty(offsets[-1] + 1, dtype=np.int64)
    one = np.empty(1, dtype=np.int64)
    for node in range(len(starts)):
        start, stop, feature, first = starts[node], stops[node], chosen[node], firsts[node]
        low, high = offsets[feature], offsets[feature + 1]
        one[0] = feature
        count_cells(codes, weight, start, stop, offsets, one, grids, counts)
        if stop - start > high - low:
            found, _ = number_branches(counts, low, high, least, 0, branch, names)
            counts[low:high] = 0.0
        else:
            found, _ = number_touched(codes, start, stop, feature, low, least, 0, counts, branch, names)
            forget(codes, start, stop, offsets, one, counts)
        child_code[first : first + found] = names[:found]
        facts = child_facts[first : first + found]
        tally(codes, prob, label, weight, start, stop, feature, branch[low:high], link, grids, facts)
        place = start
        for at in range(found):
            places[at] = place
            place += int(facts[at, ROWS])
        scatter(
            codes,
            prob,
            label,
            weight,
            start,
            stop,
            feature,
            branch[low:high],
            places,
            to_codes,
            to_prob,
            to_label,
            to_weight,
        )


@compiled
def set_children(
    facts: FloatArray, firsts: Places, parents: FloatArray, least: float, link: int, shrink: float, patterns: FloatArray
) -> None:
    """The patterns of the children of each node, which stand from ``firsts[node]`` on."""
    for node in range(len(parents)):
        for child in range(firsts[node], firsts[node + 1]):
            patterns[child] = parents[node]
            if child > firsts[node] or facts[child, WEIGHT] >= least:
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
def calibrate(prob: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """Calibrate each row by a pattern of its own."""
    for row in range(len(prob)):
        out[row] = calibrated(link, prob[row], patterns[row])


@compiled
def errors(
    prob: FloatArray, label: Flags, weight: FloatArray, start: int, stop: int, grids: FloatArray, out: FloatArray
) -> None:
    """Add the rows to the sums of w e and of w^2 e^2."""
    for row in range(start, stop):
        w = weight[row] if len(weight) else 1.0
        e = w * (prob[row] - label[row])
        out[0] += rounded(e, grids[0])
        out[1] += rounded(e * e, grids[1])


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
    roots: Places,
    feature: Places,
    first: Places,
    base: Places,
    span: Places,
    table: Codes,
    pattern: FloatArray,
) -> None:
    """Calibrate rows by one tree after the other; `score` is z for ``odds`` and p for ``linear``, and is changed.

    A node that is split finds the branch of a code below ``span`` in `table`, from ``base`` on; other codes go to
    branch 0, the rest.
    """
    for row in range(start, stop):
        value = score[row]
        for tree in range(len(roots)):
            node = roots[tree]
            while feature[node] >= 0:
                code = codes[row, feature[node]]
                branch = table[base[node] + code] if code < span[node] else 0
                node = first[node] + branch
            value = value + pattern[node] if link == ODDS else min(value * pattern[node], 1.0)
        score[row] = value


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
        low, high = 0, len(cuts)
        while low < high:
            middle = (low + high) // 2
            if cuts[middle] < value:
                low = middle + 1
            else:
                high = middle
        out[row, place] = missing if math.isnan(value) else 1 + missing + low


@compiled
def encode_categories(values: NDArray[np.int32], table: Codes, start: int, stop: int, out: Codes, place: int) -> None:
    """The code of each category by its place in the batch's levels; a missing one takes the table's last entry."""
    last = len(table) - 1
    for row in range(start, stop):
        value = values[row]
        out[row, place] = table[value] if value >= 0 else table[last]
