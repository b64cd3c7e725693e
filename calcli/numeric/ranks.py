"""Ranks of weighted rows, ties averaged."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray


def weight_below(values: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """For each row, the weight of the rows with a smaller value, and half the weight of those with the same, itself
    among them.

    Without weights it is the mid-rank less one half. A row of weight two counts as two rows of weight one.
    """
    _, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weight).astype(np.float64)
    middle: FloatArray = np.cumsum(mass) - mass / 2.0
    return middle[place]
