"""Sums by group, and sums of floats that do not depend on the order of their terms."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray


def totals(group: NDArray[np.integer], values: FloatArray | None, count: int = 0) -> FloatArray:
    """The sum of the values (of ones if None) in each group 0 .. `count` - 1, or up to the greatest that occurs."""
    return np.asarray(np.bincount(group, values, minlength=count), dtype=np.float64)


def grid(bound: float) -> float:
    """A number that rounds terms by being added and subtracted again, so that their sums are exact.

    ``(x + grid) - grid`` is x rounded to a multiple of one power of two, so small that less than 2^-51 of `bound` is
    lost. Multiples of one power of two whose absolute values add up to less than 2^53 of it add without rounding in
    float64. So terms whose absolute values add up to no more than `bound` have the same sum bit for bit, forwards or
    backwards, in blocks, on threads or on machines.
    """
    if not 0.0 < bound < math.inf:
        raise ValueError(f"no grid for sums up to {bound}")
    _, exponent = math.frexp(bound)
    return 3.0 * 2.0**exponent  # with any term added it stays between 2 and 4 times the power: one step for all
