"""Miscalibration by group, with the smallest gap that each group could detect.

The test of a group is that of calibration in the large: under a calibrated score the sum of w (y - p) has mean 0 and
variance sum w^2 p (1 - p), and is close to normal. A group so small that this test would miss a large gap says nothing
by not failing it, so each one comes with the smallest gap that it would most likely have shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import IntArray
from calcli.metrics.base import Scored
from calcli.numeric.sums import totals

POWER = 1.959963984540054 + 0.8416212335729143
"""The normal quantiles at 97.5 % and 80 %: a gap of so many standard errors is found in 80 % of tests at 5 %."""


@dataclass(frozen=True, slots=True)
class Detectable:
    """One group of rows.

    Attributes
    ----------
    rows
        How many have a positive weight.
    detectable
        The smallest absolute mean of y - p that a two-sided test at 5 % finds with a power of about 80 %:
        (1.960 + 0.842) sqrt(sum w^2 p (1 - p)) / sum w. None where the predictions leave no room for chance.
    p
        Of that test, two-sided.
    p_adjusted
        The same, corrected by Holm's method for the number of groups.
    """

    rows: int
    detectable: float | None
    p: float | None
    p_adjusted: float | None


def by_group(scored: Scored, groups: IntArray, count: int) -> tuple[Detectable, ...]:
    """Each of `count` groups of rows; more than two classes are judged by the predicted one.

    Parameters
    ----------
    scored
        All rows.
    groups, count
        The group of each row, 0 .. count - 1.
    """
    top = scored.moderate.top
    weight = np.ones(len(top)) if top.weight is None else top.weight

    rows, total = totals(groups, (weight > 0).astype(np.float64), count), totals(groups, weight, count)
    gap = totals(groups, weight * (top.label - top.prob), count)
    variance = totals(groups, weight**2 * top.prob * (1.0 - top.prob), count)
    p = [_p_value(*values) for values in zip(total, gap, variance, strict=True)]
    adjusted = holm(p)
    return tuple(
        Detectable(
            rows=int(rows[group]),
            detectable=POWER * math.sqrt(variance[group]) / total[group] if variance[group] > 0 else None,
            p=p[group],
            p_adjusted=adjusted[group],
        )
        for group in range(count)
    )


def _p_value(total: float, gap: float, variance: float) -> float | None:
    if total <= 0:
        return None
    if variance <= 0:
        return 1.0 if abs(gap) <= 1e-12 * total else 0.0
    return math.erfc(abs(gap) / math.sqrt(2.0 * variance))


def holm(p: Sequence[float | None]) -> tuple[float | None, ...]:
    """P-values so corrected that the chance of any false one below 5 % is at most 5 % (Holm 1979).

    The k-th smallest of m, from 0, is multiplied by m - k, and none may be smaller than the one before it.
    """
    ordered = sorted((value, index) for index, value in enumerate(p) if value is not None)
    adjusted: list[float | None] = [None] * len(p)
    largest = 0.0
    for rank, (value, index) in enumerate(ordered):
        largest = max(largest, min(1.0, value * (len(ordered) - rank)))
        adjusted[index] = largest
    return tuple(adjusted)
