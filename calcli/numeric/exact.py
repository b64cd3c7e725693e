"""Sums of floats that are exact, so that it does not matter in which order they are taken.

Terms that are multiples of one power of two, and whose absolute values add up to less than 2^53 of it, add without
rounding in float64. So the sum is the same bit for bit, forwards or backwards, in blocks, on threads or on machines.
"""

from __future__ import annotations

import math


def grid(bound: float) -> float:
    """A number that rounds terms by being added and subtracted again.

    ``(x + grid) - grid`` is x rounded to a multiple of a power of two, so small that less than 2^-51 of `bound` is
    lost, and so large that sums of terms are exact whose absolute values add up to no more than `bound`.
    """
    if not 0.0 < bound < math.inf:
        raise ValueError(f"no grid for sums up to {bound}")
    _, exponent = math.frexp(bound)
    return 3.0 * 2.0**exponent  # with any term added it stays between 2 and 4 times the power: one step for all
