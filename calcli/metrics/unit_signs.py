"""Gaps whose sign is drawn by unit: what they may be by chance where the rows of a unit depend on each other.

If a score is calibrated, the gap y - p of a row is 0 on average, whatever else its unit shares, and units are
independent of each other. So the gaps of a unit, all together, are as likely with the other sign, as far as their sums
are symmetric (the wild bootstrap by cluster, Cameron, Gelbach & Miller 2008). Nothing is assumed of rows within a unit.
"""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.metrics.paired import SHRUNK
from calcli.numeric.rng import stream
from calcli.numeric.sums import totals

MOST_UNITS = 4000
"""More units are put together at random into so many, which changes no variance."""

_MOST_BENT = -4.5
"""Of s t: where Hall's factor is least."""


def merged(units: IntArray, seed: int = 0) -> IntArray:
    """The unit of each row, 0 .. at most `MOST_UNITS` - 1."""
    place = np.unique(units, return_inverse=True)[1].astype(np.int64)
    count = int(place.max(initial=-1)) + 1
    return place if count <= MOST_UNITS else stream(seed, "units").permutation(count)[place] % MOST_UNITS


def table(units: IntArray, column: IntArray, values: FloatArray, columns: int) -> FloatArray:
    """The sums of the values over each unit (a row) and column; `units` are those of `merged`."""
    count = int(units.max(initial=-1)) + 1
    return totals(units * columns + column, values, count * columns).reshape(count, columns)


def signed(gaps: FloatArray, draws: int, seed: int) -> FloatArray:
    """The sums of the columns of a table of units, each with a sign by chance; shape (draws, columns)."""
    signs = stream(seed, "signs of units").integers(0, 2, (draws, len(gaps))) * 2.0 - 1.0
    sums: FloatArray = signs @ (gaps * widened(gaps.sum(axis=1)))
    return sums


def widened(gaps: FloatArray) -> float:
    """By how much chance is greater than signs make it, from the sum of all gaps of each unit; 1 or more.

    Gaps of rare positives are skewed: where few units happen to have many, the gaps and their sum are low together, and
    chance looks less than it is. The factor is that by which Hall's transformation g(t) = t + s t^2 / 3 + s^2 t^3 / 27,
    with s and t of opposite signs, makes t less; three quarters of the skewness s are taken, as for a mean.
    """
    about = gaps - gaps.mean()
    square, cube = float(np.square(about).sum()), float((about**3).sum())
    if square == 0.0:
        return 1.0
    t = float(gaps.sum()) / math.sqrt(float(np.square(gaps).sum()))
    bent = SHRUNK * t * cube / (square * math.sqrt(square))
    bent = min(0.0, max(_MOST_BENT, bent))
    return 1.0 / (1.0 + bent / 3.0 + bent**2 / 27.0)
