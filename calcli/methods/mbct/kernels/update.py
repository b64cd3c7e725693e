"""Updates of the rows of nodes: sorted by branch, calibrated by the pattern of their branch or leaf.

The rows of a node are a range of the buffer that they are in. A split moves them to the other buffer, where each child
has a range of its own; within that they stay in order.
"""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct.kernels import ODDS, Children, Codes, Places, RowArrays, Table
from calcli.methods.trees.compiled import compiled
from calcli.numeric.links import CLIP

SMALL = 1e-200
"""Below this a product of probabilities is replaced by its logarithm, before it underflows; see `log_loss`."""


@compiled
def fill_table(branch: Table, code: Codes) -> None:
    """Let the codes of a node's children lead to them, in a table that is all 0; the first child is the rest."""
    for child in range(1, len(code)):
        branch[code[child]] = child


@compiled
def clear_table(branch: Table, code: Codes) -> None:
    """Let the table be all 0 again: much less work than a new one for each node where a feature has many codes."""
    for child in range(1, len(code)):
        branch[code[child]] = 0


@compiled
def count_branches(rows: RowArrays, start: int, stop: int, children: Children, branch: Table, counts: Places) -> None:
    """Add the rows of a single node to the counts of its children; `branch` is `Children.table`."""
    fill_table(branch, children.code)
    codes, last, place = rows.codes, np.uint32(len(branch) - 1), np.uint64(children.feature[0])
    for row in range(start, stop):
        counts[branch[min(np.uint32(codes[row, place]), last)]] += 1


@compiled
def scatter_nodes(
    rows: RowArrays,
    starts: Places,
    stops: Places,
    children: Children,
    branch: Table,
    places: Places,
    target: RowArrays,
) -> None:
    """Copy the rows of each node to its children in `target`.

    `places` has an entry for each child, where its next row goes, and moves on; `branch` is `Children.table`.
    """
    words, to_words, codes, last = rows.words, target.words, rows.codes, np.uint32(len(branch) - 1)
    for node in range(len(starts)):
        first, stop = children.first[node], children.stop[node]
        place, own = np.uint64(children.feature[node]), places[first:stop]
        fill_table(branch, children.code[first:stop])
        for row in range(starts[node], stops[node]):
            at = branch[min(np.uint32(codes[row, place]), last)]
            to = own[at]
            own[at] = to + 1
            for column in range(words.shape[1]):
                to_words[to, column] = words[row, column]
        clear_table(branch, children.code[first:stop])


@compiled
def steps_of(patterns: FloatArray, link: int) -> FloatArray:
    """The factor of odds or probabilities under each pattern: e^b, or k."""
    steps = patterns.copy()
    if link == ODDS:
        for at in range(len(patterns)):
            steps[at] = math.exp(patterns[at])
    return steps


@compiled
def apply_step(link: int, p: float, step: float) -> float:
    """The probability under the pattern of this step: sigmoid(z + b) = p e^b / (1 - p + p e^b), or k p, at most 1."""
    if link == ODDS:
        odds = p * step
        return odds / (1.0 - p + odds)
    return min(step * p, 1.0)


@compiled
def set_branches_of_nodes(
    rows: RowArrays,
    starts: Places,
    stops: Places,
    children: Children,
    branch: Table,
    patterns: FloatArray,
    link: int,
) -> None:
    """Calibrate the rows of each node by the patterns of their branches; no row moves.

    `patterns` has an entry for each child, and `branch` is `Children.table`.
    """
    steps, last = steps_of(patterns, link), np.uint32(len(branch) - 1)
    numbers, codes = rows.words.view(np.float64), rows.codes
    for node in range(len(starts)):
        first, stop = children.first[node], children.stop[node]
        place, own = np.uint64(children.feature[node]), steps[first:stop]
        fill_table(branch, children.code[first:stop])
        for row in range(starts[node], stops[node]):
            at = branch[min(np.uint32(codes[row, place]), last)]
            p = numbers[row, 0]
            numbers[row, 0] = math.copysign(apply_step(link, abs(p), own[at]), p)
        clear_table(branch, children.code[first:stop])


@compiled
def calibrate(prob: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """Calibrate each row by a pattern of its own."""
    steps = steps_of(patterns, link)
    for row in range(len(prob)):
        out[row] = apply_step(link, prob[row], steps[row])


@compiled
def log_loss(rows: RowArrays) -> float:
    """The sum of w times the log-loss; without weights the logarithms of products of many rows, to take fewer."""
    words, numbers = rows.words, rows.words.view(np.float64)
    total, product = 0.0, 1.0
    for row in range(len(numbers)):
        prob, label = abs(numbers[row, 0]), words[row, 0] >> np.uint64(63)
        likelihood = max(prob if label else 1.0 - prob, CLIP)
        if rows.weighted:
            total -= numbers[row, 1] * math.log(likelihood)
        else:
            product *= likelihood
            if product < SMALL:
                total -= math.log(product)
                product = 1.0
    return total - math.log(product)
