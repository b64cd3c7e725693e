"""Sums by group."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray


def totals(place: NDArray[np.integer], values: FloatArray | None, count: int = 0) -> FloatArray:
    """The sum of the values (ones if None) at each place 0 .. `count` - 1, or up to the greatest there is."""
    return np.asarray(np.bincount(place, values, minlength=count), dtype=np.float64)
