"""The cumulative calibration error ECCE-R (Arrieta-Ibarra et al. 2022), Kuiper's statistic of y - p over sorted p."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.forms import of_ties

_FITTED = "no p-value on fitted rows: how far a fit holds the sum together depends on the method"
_BY_UNIT = "no p-value where rows belong to units: that of Brownian motion is for independent rows"
_CERTAIN = "every prediction is 0 or 1: a calibrated score would not vary"

_SURE = 1e-15
"""A variance of labels that is no more than this is that of rounding a 0 or a 1."""


def _with_p(measured: Measured, scored: Scored, options: Options) -> Measured:
    if measured.value is None:
        return measured
    if options.in_sample or scored.units is not None:
        return replace(measured, reason=measured.reason or (_FITTED if options.in_sample else _BY_UNIT))
    return replace(measured, p=brownian_range(measured.value))


_DEFINITION = Definition(
    "lower",
    edge="cumulated over sorted p, read after each tie",
    approximation="p-value of the range of Brownian motion",
)


@of_ties("top", _DEFINITION, _CERTAIN, complete=_with_p)
def ecce(ties: Blocks, options: Options) -> float | None:
    """The range of the cumulative sum of y - p, rows sorted by p, in its own standard deviations, with its p-value.

    range(C) / sd, with C_k = sum_{i <= k} w_i (y_i - p_i) and sd^2 = sum w^2 p (1 - p). The sum is read after the last
    row of each tied p, so that the order of ties does not matter.
    """
    variance = float((ties.square * ties.prob * (1.0 - ties.prob)).sum())
    if not variance > _SURE * float(ties.square.sum()):
        return None
    return cumulated_range(ties) * ties.total / math.sqrt(variance)


def cumulated_range(blocks: Blocks) -> float:
    """The range max C - min C, where C_0 = 0, divided by the sum of w: the metric before it is scaled."""
    path = np.cumsum(blocks.positive - blocks.weight * blocks.prob)
    return float(max(path.max(), 0.0) - min(path.min(), 0.0)) / blocks.total


def brownian_range(x: float) -> float:
    """The probability that the range of Brownian motion on [0, 1] exceeds x (Feller 1951).

    The two series are equal; each is used where it converges at once and nothing cancels.
    """
    if x <= 0:
        return 1.0
    if x < 1.0:
        below = sum(
            (8.0 / x**2 + 2.0 / (j * math.pi) ** 2) * math.exp(-2.0 * (j * math.pi / x) ** 2) for j in (0.5, 1.5, 2.5)
        )
        return min(max(1.0 - below, 0.0), 1.0)
    tail = sum((-1.0) ** (k - 1) * k * math.erfc(k * x / math.sqrt(2.0)) / 2.0 for k in range(1, 41))
    return min(max(8.0 * tail, 0.0), 1.0)
