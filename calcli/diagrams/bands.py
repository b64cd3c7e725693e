"""Bands of a curve: the range of each point by chance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.diagrams.curves import Bands, Point
from calcli.metrics.diagnosis import Diagnosis
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
        Which values are outside the consistency band.
    """

    ends: tuple[FloatArray, FloatArray] | None
    off: NDArray[np.bool_]

    def unless_chance(self, diagnosis: Diagnosis | None) -> Band:
        """The band with nothing off where chance alone can make all gaps."""
        return self._replace(off=self.off & False) if diagnosis is not None and diagnosis.chance else self


def bands_of(expected: FloatArray, y: FloatArray, worth: FloatArray, bands: Bands) -> Band:
    """`expected` is what a calibrated score's y would be; `worth` is how many rows each y is worth."""
    lo, hi = consistent = rate_interval(expected, worth, LEVEL)
    off = (worth >= FEWEST) & ((y < lo - ROUNDING) | (y > hi + ROUNDING))
    ends = {"consistency": consistent, "bootstrap": rate_interval(y, worth, LEVEL)}.get(bands)
    return Band(ends, off)


def points_of(x: FloatArray, y: FloatArray, n: FloatArray, band: Band) -> tuple[Point, ...]:
    nothing = [None] * len(x)
    lo, hi = (nothing, nothing) if band.ends is None else (end.tolist() for end in band.ends)
    return tuple(map(Point, x.tolist(), y.tolist(), n.tolist(), lo, hi, band.off.tolist()))
