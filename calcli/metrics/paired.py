"""Two scores on the same rows: is one better, and how sure is that."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from calcli.batch import FloatArray

Z975 = 1.959963984540054
"""The 97.5 % quantile of the normal distribution."""


class Paired(NamedTuple):
    """A difference with its 95 % interval and two-sided p-value; None where the rows do not determine them."""

    value: float | None
    lo: float | None
    hi: float | None
    p: float | None


def paired_difference(a_rows: FloatArray, b_rows: FloatArray, weight: FloatArray | None) -> Paired:
    """The weighted mean of a - b over rows, by normal theory.

    Its variance is sum w^2 (d - mean d)^2 / (sum w)^2, times n/(n - 1): the sandwich estimate, which does not assume
    that weights say how precise a row is; without weights it is the usual s^2/n. Rows of weight zero count for nothing.

    Parameters
    ----------
    a_rows, b_rows
        What each row adds to the metric under either score.
    weight
        Non-negative, or None for all ones.
    """
    difference = a_rows - b_rows
    w = np.ones(len(difference)) if weight is None else weight
    rows, total = int(np.count_nonzero(w)), float(w.sum())
    if total <= 0:
        return Paired(None, None, None, None)
    mean = float((w * difference).sum()) / total
    if rows < 2:
        return Paired(mean, None, None, None)
    about = float(np.square(w * (difference - mean)).sum())
    error = math.sqrt(about * rows / (rows - 1)) / total
    if error == 0.0:
        return Paired(mean, mean, mean, 1.0 if mean == 0.0 else 0.0)
    p = math.erfc(abs(mean) / error / math.sqrt(2.0))
    return Paired(mean, mean - Z975 * error, mean + Z975 * error, p)
