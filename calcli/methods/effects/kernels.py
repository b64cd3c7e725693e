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


@compiled
def begin(total: FloatArray, label: Labels, weight: FloatArray, error: FloatArray, spread: FloatArray) -> None:
    """Set w (y - p) and w p (1 - p), of two classes."""
    for row in range(len(total)):
        prob = 1.0 / (1.0 + math.exp(-total[row]))
        error[row], spread[row] = weight[row] * (label[row] - prob), weight[row] * prob * (1.0 - prob)


@compiled
def gather(error: FloatArray, spread: FloatArray, codes: Codes, along: FloatArray, sums: FloatArray) -> None:
    """Add up v times the error and v^2 times the spread for each code; `along` is v, empty for ones."""
    if len(along) > 0:
        for row in range(len(error)):
            sums[codes[row], 0] += error[row] * along[row]
            sums[codes[row], 1] += spread[row] * along[row] * along[row]
    else:
        for row in range(len(error)):
            sums[codes[row], 0] += error[row]
            sums[codes[row], 1] += spread[row]


@compiled
def shift(
    total: FloatArray, error: FloatArray, spread: FloatArray, codes: Codes, along: FloatArray, step: FloatArray
) -> None:
    """Add the step of each row's code, times v, to its log-odds, and take what it explains from its error."""
    slopes = len(along) > 0
    for row in range(len(total)):
        move = step[codes[row]] * along[row] if slopes else step[codes[row]]
        total[row] += move
        error[row] -= spread[row] * move


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
def gather_classes(error: FloatArray, prob: FloatArray, weight: FloatArray, codes: Codes, sums: FloatArray) -> None:
    """Add up the error and w p_k (1 - p_k) for each code and class; sums are of shape (codes, K, 2)."""
    for row in range(len(error)):
        code = codes[row]
        for k in range(error.shape[1]):
            sums[code, k, 0] += error[row, k]
            sums[code, k, 1] += weight[row] * prob[row, k] * (1.0 - prob[row, k])


@compiled
def shift_classes(
    total: FloatArray, error: FloatArray, prob: FloatArray, weight: FloatArray, codes: Codes, step: FloatArray
) -> None:
    """Add the steps of each row's code to its logits, and take what they explain from its errors."""
    classes = total.shape[1]
    for row in range(len(total)):
        code = codes[row]
        mean = 0.0
        for k in range(classes):
            mean += prob[row, k] * step[code, k]
        for k in range(classes):
            total[row, k] += step[code, k]
            error[row, k] -= weight[row] * prob[row, k] * (step[code, k] - mean)
