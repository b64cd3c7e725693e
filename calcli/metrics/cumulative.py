"""The cumulative calibration error ECCE-R (Arrieta-Ibarra et al. 2022), Kuiper's statistic of y - p over sorted p."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.reduce import measured, reduction_text

_FITTED = "no p-value on fitted rows: how far a fit holds the sum together depends on the method"
_BY_UNIT = "no p-value where rows belong to units: that of Brownian motion is for independent rows"
_CERTAIN = "every prediction is 0 or 1: a calibrated score would not vary"

_SURE = 1e-15
"""A variance of labels that is no more than this is that of rounding a 0 or a 1."""


def ecce(scored: Scored, options: Options) -> Measured:
    """The range of the cumulative sum of y - p, rows sorted by p, in its own standard deviations, with its p-value.

    The sum is read after the last row of each tied p, so that the order of ties does not matter.
    """
    definition = Definition(
        "lower",
        edge="cumulated over sorted p, read after each tie",
        reduction=reduction_text(scored, "top", options),
        approximation="p-value of the range of Brownian motion",
    )
    result = measured(scored, options, lambda one, how: ecce_of(one.blocks, how), "top", definition, _CERTAIN)
    if result.value is None:
        return result
    if options.in_sample:
        return replace(result, reason=result.reason or _FITTED)
    if scored.units is not None:
        return replace(result, reason=result.reason or _BY_UNIT)
    return replace(result, p=brownian_range(result.value))


def ecce_of(blocks: Blocks, options: Options) -> float | None:
    """range(C) / sd, with C_k = sum_{i <= k} w_i (y_i - p_i) and sd^2 = sum w^2 p (1 - p)."""
    variance = float((blocks.square * blocks.prob * (1.0 - blocks.prob)).sum())
    if not variance > _SURE * float(blocks.square.sum()):
        return None
    return cumulated_range(blocks) * blocks.total / math.sqrt(variance)


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
