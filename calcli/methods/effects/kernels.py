"""The compiled loops of a sweep: the gradient and the curvature of a block of effects, and the step that is added."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled

Labels = NDArray[np.int64]
Codes = NDArray[np.int32]


@compiled
def gather(
    total: FloatArray, label: Labels, weight: FloatArray, codes: Codes, along: FloatArray, sums: FloatArray
) -> None:
    """Add up w v (y - p) and w v^2 p (1 - p) for each code, of two classes; `along` is v, empty for ones."""
    slopes = len(along) > 0
    for row in range(len(total)):
        prob = 1.0 / (1.0 + math.exp(-total[row]))
        error, spread = weight[row] * (label[row] - prob), weight[row] * prob * (1.0 - prob)
        if slopes:
            error, spread = error * along[row], spread * along[row] * along[row]
        code = codes[row]
        sums[code, 0] += error
        sums[code, 1] += spread


@compiled
def shift(total: FloatArray, codes: Codes, along: FloatArray, steps: FloatArray) -> None:
    """Add the step of each row's code to its log-odds."""
    slopes = len(along) > 0
    for row in range(len(total)):
        total[row] += steps[codes[row]] * along[row] if slopes else steps[codes[row]]


@compiled
def gather_classes(total: FloatArray, label: Labels, weight: FloatArray, codes: Codes, sums: FloatArray) -> None:
    """Add up w (y_k - p_k) and w p_k (1 - p_k) for each code and class; sums are of shape (codes, K, 2)."""
    classes = total.shape[1]
    powers = np.empty(classes)
    for row in range(len(total)):
        top = total[row, 0]
        for k in range(1, classes):
            top = max(top, total[row, k])
        whole = 0.0
        for k in range(classes):
            powers[k] = math.exp(total[row, k] - top)
            whole += powers[k]
        code = codes[row]
        for k in range(classes):
            prob = powers[k] / whole
            sums[code, k, 0] += weight[row] * ((1.0 if label[row] == k else 0.0) - prob)
            sums[code, k, 1] += weight[row] * prob * (1.0 - prob)


@compiled
def shift_classes(total: FloatArray, codes: Codes, steps: FloatArray) -> None:
    """Add the steps of each row's code to its logits."""
    for row in range(len(total)):
        for k in range(total.shape[1]):
            total[row, k] += steps[codes[row], k]
