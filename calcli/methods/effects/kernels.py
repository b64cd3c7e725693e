"""The compiled loops of a sweep: residuals of rows, their sums over the codes of a block of effects, and its step.

Within a sweep the probabilities stay what they were when it began, and a residual y - p follows each step by its first
order: a block then costs no exponential, and a sweep is a Newton step of all effects, block by block.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled

Labels = NDArray[np.integer[Any]]
Codes = NDArray[np.unsignedinteger[Any]]

LOW, HIGH = 1e-3, 1.0
"""T of a pair is between these at first."""

PRIOR = 2.0
"""The weight, in values, of the mean of all blocks of a kind in the T of each: where most say nothing, few are believed
that say little.
"""

FASTEST = 4.0
"""EM is slow where rows say little of T: its steps are doubled while they go the same way, up to so many times."""

DAMPED = 0.8
"""The share of a step that is made with more than two classes, whose steps are found each without the others."""

ENOUGH = 0.5
"""Cells of a pair with more information than this are looked at."""


@compiled
def begin(total: FloatArray, label: Labels, weight: FloatArray, error: FloatArray, spread: FloatArray) -> None:
    """Set w (y - p) and w p (1 - p), of two classes."""
    for row in range(len(total)):
        prob = 1.0 / (1.0 + math.exp(-total[row]))
        error[row], spread[row] = weight[row] * (label[row] - prob), weight[row] * prob * (1.0 - prob)


@compiled
def gather(
    error: FloatArray, spread: FloatArray, one: Codes, other: Codes, width: int, along: FloatArray, sums: FloatArray
) -> None:
    """Add up v times the error and v^2 times the spread for each code; `along` is v, empty for ones.

    `other`, empty for single features, has the codes of the second feature of a pair, of which there are `width`.
    """
    if len(other) > 0:
        for row in range(len(error)):
            code = one[row] * width + other[row]
            sums[code, 0, 0] += error[row]
            sums[code, 0, 1] += spread[row]
    elif len(along) > 0:
        for row in range(len(error)):
            sums[one[row], 0, 0] += error[row] * along[row]
            sums[one[row], 0, 1] += spread[row] * along[row] * along[row]
    else:
        for row in range(len(error)):
            sums[one[row], 0, 0] += error[row]
            sums[one[row], 0, 1] += spread[row]


@compiled
def update(
    sums: FloatArray,
    values: FloatArray,
    information: FloatArray,
    variance: FloatArray,
    way: FloatArray,
    pace: FloatArray,
    mean: float,
    share: float,
) -> float:
    """Take a share of the step of each class; returns the sum of h times the squares of the steps, left in `sums`.

    It is twice what the likelihood moves by. `sums` are G without its prior, and h, of shape (codes, K, 2).
    """
    moved = 0.0
    for k in range(values.shape[1]):
        if math.isnan(variance[k]):  # the method of moments where all effects are 0: g has the variance h + h^2 T
            excess, squares = 0.0, 1e-300
            for code in range(len(values)):
                excess += sums[code, k, 0] ** 2 - sums[code, k, 1]
                squares += sums[code, k, 1] ** 2
            variance[k] = min(max(excess / squares, LOW), HIGH)
        held, expected, seen = max(variance[k], 1e-12), 0.0, 0
        for code in range(len(values)):
            known = sums[code, k, 1]
            precision = known + 1.0 / held
            step = share * min(max((sums[code, k, 0] - values[code, k] / held) / precision, -1.0), 1.0)
            values[code, k] += step
            information[code, k] = known
            sums[code, k, 0] = step
            moved += known * step * step
            if known > 0.0:
                seen += 1
                expected += values[code, k] ** 2 + 1.0 / precision
        found = (expected + PRIOR * mean) / (max(seen, 1) + PRIOR)
        grown = math.log(max(found, 1e-12) / held)
        pace[k] = min(2.0 * pace[k], FASTEST) if grown * way[k] > 0.0 else 1.0
        way[k] = grown
        variance[k] = held * math.exp(pace[k] * grown)
    return moved


@compiled
def step(
    total: FloatArray,
    error: FloatArray,
    spread: FloatArray,
    one: Codes,
    other: Codes,
    width: int,
    along: FloatArray,
    values: FloatArray,
    information: FloatArray,
    variance: FloatArray,
    way: FloatArray,
    pace: FloatArray,
    mean: float,
) -> float:
    """Make the step of a block: add that of each row's code, times v, to its log-odds, and take it from its error."""
    sums = np.zeros((len(values), 1, 2))
    gather(error, spread, one, other, width, along, sums)
    moved = update(sums, values, information, variance, way, pace, mean, 1.0)
    pair, slopes = len(other) > 0, len(along) > 0
    for row in range(len(total)):
        move = sums[one[row] * width + other[row] if pair else one[row], 0, 0]
        if slopes:
            move *= along[row]
        total[row] += move
        error[row] -= spread[row] * move
    return moved


@compiled
def surplus(sums: FloatArray) -> tuple[float, int]:
    """By how much the sum of g^2/h over cells exceeds their number, its expectation; and that number."""
    beyond, cells = 0.0, 0
    for code in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            if sums[code, k, 1] > ENOUGH:
                beyond += sums[code, k, 0] ** 2 / sums[code, k, 1] - 1.0
                cells += 1
    return beyond, cells


@compiled
def begin_classes(total: FloatArray, label: Labels, weight: FloatArray, error: FloatArray, prob: FloatArray) -> None:
    """Set w (y_k - p_k) and p_k, of more than two classes."""
    classes = total.shape[1]
    for row in range(len(total)):
        top = total[row, 0]
        for k in range(1, classes):
            top = max(top, total[row, k])
        whole = 0.0
        for k in range(classes):
            prob[row, k] = math.exp(total[row, k] - top)
            whole += prob[row, k]
        for k in range(classes):
            prob[row, k] /= whole
            error[row, k] = weight[row] * ((1.0 if label[row] == k else 0.0) - prob[row, k])


@compiled
def gather_classes(
    error: FloatArray, prob: FloatArray, weight: FloatArray, one: Codes, other: Codes, width: int, sums: FloatArray
) -> None:
    """Add up the error and w p_k (1 - p_k) for each code and class."""
    pair = len(other) > 0
    for row in range(len(error)):
        code = one[row] * width + other[row] if pair else one[row]
        for k in range(error.shape[1]):
            sums[code, k, 0] += error[row, k]
            sums[code, k, 1] += weight[row] * prob[row, k] * (1.0 - prob[row, k])


@compiled
def step_classes(
    total: FloatArray,
    error: FloatArray,
    prob: FloatArray,
    weight: FloatArray,
    one: Codes,
    other: Codes,
    width: int,
    values: FloatArray,
    information: FloatArray,
    variance: FloatArray,
    way: FloatArray,
    pace: FloatArray,
    mean: float,
) -> float:
    """Make the step of a block: add those of each row's code to its logits, and take them from its errors."""
    classes = total.shape[1]
    sums = np.zeros((len(values), classes, 2))
    gather_classes(error, prob, weight, one, other, width, sums)
    moved = update(sums, values, information, variance, way, pace, mean, DAMPED)
    pair = len(other) > 0
    for row in range(len(total)):
        code = one[row] * width + other[row] if pair else one[row]
        middle = 0.0
        for k in range(classes):
            middle += prob[row, k] * sums[code, k, 0]
        for k in range(classes):
            total[row, k] += sums[code, k, 0]
            error[row, k] -= weight[row] * prob[row, k] * (sums[code, k, 0] - middle)
    return moved
