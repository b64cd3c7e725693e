"""Rejection: how often the predicted class is wrong among the rows that are left when the unsure ones are not decided.

Unsure is u = 1 - p of the predicted class. Either a share of the rows is rejected, the least sure first, or all rows
whose uncertainty on a scale from 0 (certain) to 1 (no idea), u / (1 - 1/K), is above a threshold (CCL paper, 4.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Scored
from calcli.metrics.blocks import cumulated
from calcli.metrics.paired import Z975
from calcli.metrics.ranking import accuracy_rows

RATES = tuple(place / 20 for place in range(20))
THRESHOLDS = tuple(place / 10 for place in range(11))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The rows that are left.

    Attributes
    ----------
    at
        The share of rows that was rejected, or the threshold.
    error
        The share of wrong predictions among those that are left; None where none is.
    n
        Their weight.
    lo, hi
        Wilson's 95 % interval of the error; rows of uneven weight count as their effective number.
    """

    at: float
    error: float | None
    n: float
    lo: float | None
    hi: float | None


def by_rate(scored: Scored, rates: Sequence[float] = RATES) -> tuple[Accepted, ...]:
    """The error when these shares of the rows are rejected; of rows that are equally unsure, equal parts."""
    sums = _cumulated(scored)
    return tuple(_accepted(rate, (1.0 - rate) * sums.weight[-1], sums) for rate in rates)


def by_threshold(scored: Scored, thresholds: Sequence[float] = THRESHOLDS) -> tuple[Accepted, ...]:
    """The error when only rows no more unsure than the threshold are accepted."""
    sums = _cumulated(scored)
    most = 1.0 - 1.0 / scored.classes
    found = []
    for threshold in thresholds:
        # A threshold of 0.1 must hold p = 0.95, of which 1 - p is a rounding error more than 0.05.
        place = np.searchsorted(sums.unsure, threshold * most * (1.0 + 1e-12) + 1e-15, side="right")
        found.append(_accepted(threshold, float(sums.weight[place]), sums))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Sums:
    """The distinct u, rising; over the first 0, 1, .. of them the sums of w, of w where wrong, and of w^2."""

    unsure: FloatArray
    weight: FloatArray
    wrong: FloatArray
    square: FloatArray


def _cumulated(scored: Scored) -> _Sums:
    top = scored.prob.max(axis=1) if not scored.binary else np.maximum(scored.prob, 1.0 - scored.prob)
    weight = np.ones(len(scored)) if scored.weight is None else scored.weight
    unsure, place = np.unique(1.0 - top, return_inverse=True)
    columns = (weight, weight * (1.0 - accuracy_rows(scored)), np.square(weight))
    sums = (cumulated(np.asarray(np.bincount(place, one, len(unsure)), dtype=np.float64)) for one in columns)
    return _Sums(unsure, *sums)


def _accepted(at: float, left: float, sums: _Sums) -> Accepted:
    if not left > 0.0:
        return Accepted(at, None, 0.0, None, None)
    error = float(np.interp(left, sums.weight, sums.wrong)) / left
    rows = left**2 / float(np.interp(left, sums.weight, sums.square))
    centre = (error + Z975**2 / (2.0 * rows)) / (1.0 + Z975**2 / rows)
    spread = Z975 * math.sqrt(error * (1.0 - error) / rows + Z975**2 / (4.0 * rows**2)) / (1.0 + Z975**2 / rows)
    return Accepted(at, error, left, max(0.0, centre - spread), min(1.0, centre + spread))
