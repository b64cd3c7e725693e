"""Tests of calibration: whether the gap between score and labels exceeds chance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.reduce import measured, reduction_text
from calcli.numeric import bins

GROUPS = 10
_CERTAIN = "predictions of exactly 0 or 1, or next to them, are wrong in a group"
_NO_CHANCE = "every prediction is 0, 1 or 1/2, where the statistic does not vary"


def hosmer_lemeshow(scored: Scored, options: Options) -> Measured:
    """Hosmer & Lemeshow's test (1980): sum (O - E)^2 / (n_g pbar (1 - pbar)) over ten groups of equal mass.

    Chi-squared with as many degrees of freedom as there are groups, because the rows were not fitted on; two fewer
    where they were. With weights n_g is Kish's effective number of rows.
    """
    statistic = None if scored.nothing else _chi_squared(scored.top.blocks)
    definition = Definition(
        "lower",
        bins=GROUPS,
        binning="mass",
        edge="right-closed, 0 in the first bin",
        reduction=reduction_text(scored, "top", options),
        approximation="chi-squared with as many degrees of freedom as groups"
        + (", less 2: fitted on these rows" if options.in_sample else ""),
    )
    result = measured(scored, options, lambda one, _: _statistic(one.blocks), "top", definition, _CERTAIN)
    if statistic is None:
        return result
    if result.value is None:
        return replace(result, p=0.0)
    from scipy.special import chdtrc

    few = f"ties leave {statistic[1]} of {GROUPS} groups" if statistic[1] < GROUPS else None
    return replace(result, p=float(chdtrc(_freedom(statistic[1], options), result.value)), reason=result.reason or few)


def _freedom(groups: int, options: Options) -> int:
    return max(1, groups - 2) if options.in_sample else groups


def _statistic(blocks: Blocks) -> float | None:
    value = _chi_squared(blocks)[0]
    return value if math.isfinite(value) else None


def _chi_squared(blocks: Blocks) -> tuple[float, int]:
    """The statistic and the number of groups that hold rows; infinite where a certain prediction is wrong."""
    place = bins.assign(blocks.prob, blocks.quantiles(GROUPS))
    rest = blocks.weight * (1.0 - blocks.prob)  # summed by itself: 1 less a mean near 1 has no digits left
    columns = (blocks.weight, blocks.weight * blocks.prob, rest, blocks.positive, blocks.square)
    sums = np.stack([np.bincount(place, column, minlength=GROUPS) for column in columns])
    weight, expected, rest, observed, square = sums[:, sums[0] > 0]
    variance = (expected / weight) * (rest / weight) * square / weight**2
    gap = (observed - expected) / weight
    some = variance > 0
    if (np.abs(gap[~some]) > 1e-12).any():
        return math.inf, len(weight)
    with np.errstate(over="ignore"):  # as good as certain, and wrong
        return float((gap[some] ** 2 / variance[some]).sum()), len(weight)


def spiegelhalter_z(scored: Scored, options: Options) -> Measured:
    """Spiegelhalter's z (1986): the Brier score less what it would be on average, in standard deviations.

    Standard normal for a calibrated score; the p-value is two-sided. Over-confidence makes it positive.
    """
    definition = Definition("target", reduction=reduction_text(scored, "top", options))
    result = measured(scored, options, lambda one, _: _z(one.blocks), "top", definition, _NO_CHANCE)
    return result if result.value is None else replace(result, p=math.erfc(abs(result.value) / math.sqrt(2.0)))


def _z(blocks: Blocks) -> float | None:
    """The sum of w (y - p)(1 - 2 p) / sqrt(sum w^2 (1 - 2 p)^2 p (1 - p))."""
    p = blocks.prob
    variance = float((blocks.square * (1.0 - 2.0 * p) ** 2 * p * (1.0 - p)).sum())
    if variance <= 0:
        return None
    gap = blocks.positive * (1.0 - p) - (blocks.weight - blocks.positive) * p  # w (y - p), with its digits near p = 1
    return float((gap * (1.0 - 2.0 * p)).sum()) / math.sqrt(variance)
