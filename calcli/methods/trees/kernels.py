"""The loop that codes numbers, which every method with bins of features shares."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.methods.trees.compiled import compiled

Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]

COUNTED = 128
"""So few cuts are all compared with a number, by vector instructions: quicker than branches of a bisection."""


@compiled
def encode_numbers(
    values: FloatArray, cuts: FloatArray, missing: int, start: int, stop: int, out: Codes, place: int
) -> None:
    """The code of each number: how many cuts lie below it, after 0 and that of a missing one, if it has one."""
    for row in range(start, stop):
        value = values[row]
        low, left = 0, len(cuts)
        while left > COUNTED:
            half = left // 2
            if cuts[low + half - 1] < value:
                low += half
            left -= half
        below = 0
        for cut in range(low, low + left):
            below += int(cuts[cut] < value)
        out[row, place] = missing if math.isnan(value) else 1 + missing + low + below
