"""Sums by group, sums that do not depend on the order of their terms, and the order and ranks of rows."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, spans


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


def weight_below(values: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """For each row, the weight of the rows with a smaller value, and half the weight of those with the same, itself
    among them.

    Without weights it is the mid-rank less one half. A row of weight two counts as two rows of weight one.
    """
    _, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weight).astype(np.float64)
    middle: FloatArray = np.cumsum(mass) - mass / 2.0
    return middle[place]


def rising(prob: FloatArray) -> IntArray:
    """The stable order of probabilities, as ``np.argsort(prob, kind="stable")`` gives it, some four times faster.

    The bits of a non-negative float, read as an integer, rise with it. Their upper part and the row's number together
    fill one integer, and sorting plain integers is what numpy does fastest. Only rows whose upper bits agree are left
    to be sorted by the whole value, and those are nearly in order.
    """
    low = max(len(prob) - 1, 1).bit_length()
    keys = (prob + 0.0).view(np.int64)  # adding 0.0 copies, and makes -0.0 an ordinary zero
    keys >>= low
    keys <<= low
    for some in spans(len(keys)):
        keys[some] |= np.arange(some.start, some.stop)
    keys.sort()
    tied = np.zeros(len(keys), dtype=np.bool_)
    for some in spans(len(keys) - 1):
        same = keys[some] >> low == keys[some.start + 1 : some.stop + 1] >> low
        tied[some] |= same
        tied[some.start + 1 : some.stop + 1] |= same
    keys &= (1 << low) - 1
    if tied.any():
        rows = keys[tied]
        keys[tied] = rows[np.argsort(prob[rows], kind="stable")]
    return keys
