"""The order of rows, and their ranks."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray, IntArray, spans


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
