"""What is done to the rows of nodes: they move to where their branch stands, and are calibrated by its pattern."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray
from calcli.methods.mbct.kernels import ODDS, Codes, Flags, Places, Table
from calcli.methods.trees.compiled import compiled
from calcli.numeric.links import CLIP

SMALL = 1e-200
"""Products of probabilities are not let below, see `log_loss`."""


@compiled
def count_branches(codes: Codes, start: int, stop: int, feature: int, branch: Table, counts: Places) -> None:
    """Add the rows to the counts of their branches; codes beyond the table have the last entry's."""
    last = np.uint32(len(branch) - 1)
    for row in range(start, stop):
        counts[branch[min(np.uint32(codes[row, feature]), last)]] += 1


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
    last = np.uint32(len(branch) - 1)
    for row in range(start, stop):
        at = branch[min(np.uint32(codes[row, feature]), last)]
        to = places[at]
        places[at] = to + 1
        for column in range(codes.shape[1]):
            to_codes[to, column] = codes[row, column]
        to_prob[to] = prob[row]
        to_label[to] = label[row]
        if len(weight):
            to_weight[to] = weight[row]


@compiled
def longest_table(firsts: Places, branches: Places, code: Codes) -> int:
    """How long a table of branches by code must be for each of these nodes: codes beyond it are of the rest."""
    greatest = 0
    for node in range(len(branches)):  # codes rise from child to child
        greatest = max(greatest, int(code[firsts[node] + branches[node] - 1]))
    return greatest + 2


@compiled
def fill_table(branch: Table, code: Codes, first: int, many: int) -> None:
    """Let the codes of a node's children lead to them, in a table that is all 0; the first child is the rest."""
    for child in range(1, many):
        branch[code[first + child]] = child


@compiled
def clear_table(branch: Table, code: Codes, first: int, many: int) -> None:
    """Let the table be all 0 again."""
    for child in range(1, many):
        branch[code[first + child]] = 0


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
    branch = np.zeros(longest_table(firsts, branches, code), dtype=np.uint32)
    for node in range(len(starts)):
        first, many = firsts[node], branches[node]
        fill_table(branch, code, first, many)
        scatter(
            codes,
            prob,
            label,
            weight,
            starts[node],
            stops[node],
            chosen[node],
            branch,
            places[first : first + many],
            to_codes,
            to_prob,
            to_label,
            to_weight,
        )
        clear_table(branch, code, first, many)


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
def steps_of(patterns: FloatArray, link: int) -> FloatArray:
    """What odds or probabilities are multiplied by under each pattern: e^b, or k."""
    steps = patterns.copy()
    if link == ODDS:
        for at in range(len(patterns)):
            steps[at] = math.exp(patterns[at])
    return steps


@compiled
def multiplied(link: int, p: float, step: float) -> float:
    """The probability under the pattern of this step: sigmoid(z + b) = p e^b / (1 - p + p e^b), or k p, at most 1."""
    if link == ODDS:
        odds = p * step
        return odds / (1.0 - p + odds)
    return min(step * p, 1.0)


@compiled
def set_patterns(prob: FloatArray, starts: Places, stops: Places, patterns: FloatArray, link: int) -> None:
    """Calibrate the rows of each leaf."""
    steps = steps_of(patterns, link)
    for leaf in range(len(starts)):
        for row in range(starts[leaf], stops[leaf]):
            prob[row] = multiplied(link, prob[row], steps[leaf])


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
    steps, last = steps_of(patterns, link), np.uint32(len(branch) - 1)
    for row in range(start, stop):
        at = branch[min(np.uint32(codes[row, feature]), last)]
        prob[row] = multiplied(link, prob[row], steps[at])


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
    branch = np.zeros(longest_table(firsts, branches, code), dtype=np.uint32)
    for node in range(len(starts)):
        first, many = firsts[node], branches[node]
        fill_table(branch, code, first, many)
        set_by_branch(
            codes, prob, starts[node], stops[node], chosen[node], branch, patterns[first : first + many], link
        )
        clear_table(branch, code, first, many)


@compiled
def calibrate(prob: FloatArray, patterns: FloatArray, link: int, out: FloatArray) -> None:
    """Calibrate each row by a pattern of its own."""
    steps = steps_of(patterns, link)
    for row in range(len(prob)):
        out[row] = multiplied(link, prob[row], steps[row])


@compiled
def log_loss(prob: FloatArray, label: Flags, weight: FloatArray, start: int, stop: int) -> float:
    """The sum of w times the log-loss; without weights the logarithms of products, of which there are fewer."""
    total, product = 0.0, 1.0
    for row in range(start, stop):
        happened = max(prob[row] if label[row] else 1.0 - prob[row], CLIP)
        if len(weight):
            total -= weight[row] * math.log(happened)
        else:
            product *= happened
            if product < SMALL:
                total -= math.log(product)
                product = 1.0
    return total - math.log(product)
