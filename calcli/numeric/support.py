"""The most extreme rate that rows support.

Of w rows that all say the same, the next may still be the first that does not. With r the label rate of all rows, a
rate over w of them is held within 2 r / (w + 2) and 1 - 2 (1 - r) / (w + 2): what two more rows of the average kind
would leave of a rate of 0 or 1. For r = 1/2 that is Laplace's rule of succession. Rates inside are left as they are.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray

MORE = 2.0
"""How many rows of the average kind are thought of beside those that there are."""


def average(positive: float, weight: float) -> float:
    """The label rate of all rows, never 0 or 1."""
    return (positive + 1.0) / (weight + 2.0)


def limits(weight: FloatArray, rate: float) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest rate that these weights of rows support, of an average `rate`."""
    share: FloatArray = MORE / (weight + MORE)
    return rate * share, 1.0 - (1.0 - rate) * share


def supported(level: FloatArray, weight: FloatArray, rate: float) -> FloatArray:
    """Rates held within what their rows support."""
    return np.clip(level, *limits(weight, rate))
