"""Bands of a curve: the range of each point by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.diagrams.curves import Bands, Point
from calcli.numeric.binomial import rate_interval

LEVEL = 0.95
"""The probability that a band covers."""

FEWEST = 5.0
"""Points of fewer rows are never called off: one confident error would make the headline."""

ROUNDING = 1e-12
"""Values that differ by no more are equal."""


def effective_rows(weight: FloatArray, square: FloatArray) -> FloatArray:
    """Kish's effective number of rows, (sum w)^2 / sum w^2; 0 where a square underflows."""
    return np.divide(weight**2, square, out=np.zeros_like(weight), where=square > 0)


class Band(NamedTuple):
    """The band of a curve.

    Attributes
    ----------
    ends
        Of the band that is shown; None where none is.
    off
        Which values are beyond chance: outside the consistency band.
    chance
        Whether none is so far off that chance shows it less than one time in forty.
    """

    ends: tuple[FloatArray, FloatArray] | None
    off: NDArray[np.bool_]
    chance: bool


def bands_of(expected: FloatArray, y: FloatArray, worth: FloatArray, bands: Bands) -> Band:
    """`expected` is what a calibrated score's y would be; `worth` is how many rows each y is worth."""

    def outside(level: float) -> NDArray[np.bool_]:
        lo, hi = rate_interval(expected, worth, level)
        return (worth >= FEWEST) & ((y < lo - ROUNDING) | (y > hi + ROUNDING))

    shown = {"consistency": expected, "bootstrap": y}.get(bands)
    ends = None if shown is None else rate_interval(shown, worth, LEVEL)
    return Band(ends, outside(LEVEL), not outside(1.0 - (1.0 - LEVEL) / (2.0 * len(y))).any())


def few_outside(off: NDArray[np.bool_]) -> bool:
    """Whether chance puts so many of the values outside their band more often than one time in forty."""
    return len(off) == 0 or bool(off.mean() <= rate_interval(np.array([1.0 - LEVEL]), np.array([len(off)]))[1][0])


def points_of(x: FloatArray, y: FloatArray, n: FloatArray, band: Band) -> tuple[Point, ...]:
    nothing = [None] * len(x)
    lo, hi = (nothing, nothing) if band.ends is None else (end.tolist() for end in band.ends)
    return tuple(map(Point, x.tolist(), y.tolist(), n.tolist(), lo, hi, band.off.tolist()))
