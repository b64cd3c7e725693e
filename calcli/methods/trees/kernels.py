"""The loop that codes numbers, which every method with bins of features shares."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]

STRIDE = 1 << 8
"""So many numbers take each step of a bisection together: none waits for its own last step."""


def only_read(values: NDArray[Any]) -> FloatArray:
    """Numbers as `encode_numbers` takes them: those of some tables cannot be written to, a type of its own."""
    found = np.ascontiguousarray(values, dtype=np.float64).view()
    found.flags.writeable = False
    return found


def scratch() -> NDArray[np.uint64]:
    """Memory for `encode_numbers`, for one thread."""
    return np.empty(STRIDE, dtype=np.uint64)


@compiled
def encode_numbers(
    values: FloatArray,
    cuts: FloatArray,
    missing: int,
    start: int,
    stop: int,
    below: NDArray[np.uint64],
    out: Codes,
    place: int,
) -> None:
    """The code of each number: how many cuts lie below it, after 0 and that of a missing one, if it has one.

    `values` and `cuts` are of `only_read`, so that this is compiled once, and `below` is of `scratch`.
    """
    for first in range(start, stop, STRIDE):
        own, codes = values[first : min(first + STRIDE, stop)], out[first : min(first + STRIDE, stop)]
        for row in range(len(own)):
            below[row] = np.uint64(0)
        left = len(cuts)
        while left > 0:
            half = max(left // 2, 1)
            for row in range(len(own)):
                passed = cuts[below[row] + np.uint64(half - 1)] < own[row]
                below[row] += np.uint64(half) * np.uint64(passed)
            left -= half
        for row in range(len(own)):
            codes[row, place] = np.uint64(missing) if math.isnan(own[row]) else np.uint64(1 + missing) + below[row]
