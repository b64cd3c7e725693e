"""Murphy's decomposition of the Brier score, by the CORP approach (Dimitriadis, Gneiting & Jordan 2021, section 2).

The labels are recalibrated by isotonic regression on the probabilities, q = PAV(y | p), which replaces bins. With S
the Brier score, S(p) = reliability - resolution + uncertainty holds exactly, where reliability is S(p) - S(q),
resolution S(mean y) - S(q) and uncertainty S(mean y). PAV is fitted on the very rows, so that reliability is above 0
even for the true probabilities.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Direction, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.reduce import Value, measured, reduction_text

_METHOD = "CORP: labels pooled by distinct probability, then isotonic regression"


def brier_reliability(scored: Scored, options: Options) -> Measured:
    """How much of the Brier score isotonic recalibration would take away."""
    return _part(scored, options, lambda one, how: reliability_of(one.blocks, how), "lower")


def brier_resolution(scored: Scored, options: Options) -> Measured:
    """How much lower the Brier score is, once recalibrated, than that of always saying the label rate."""
    return _part(scored, options, lambda one, how: resolution_of(one.blocks, how), "higher")


def brier_uncertainty(scored: Scored, options: Options) -> Measured:
    """The Brier score of always saying the label rate: a property of the rows, not of the score."""
    return _part(scored, options, lambda one, how: uncertainty_of(one.blocks, how), "target")


def _part(scored: Scored, options: Options, value: Value, direction: Direction) -> Measured:
    definition = Definition(direction, reduction=reduction_text(scored, "sum", options), approximation=_METHOD)
    return measured(scored, options, value, "sum", definition, "")


def reliability_of(blocks: Blocks, options: Options) -> float:
    """S(p) - S(q), as the mean of (p - q)(p + q - 2 y): no large numbers are subtracted."""
    blocks = blocks.held
    q = recalibrated(blocks)
    weighed = (blocks.prob - q) * ((blocks.prob + q) * blocks.weight - 2.0 * blocks.positive)
    return max(float(weighed.sum()) / blocks.total, 0.0)


def resolution_of(blocks: Blocks, options: Options) -> float:
    """S(mean y) - S(q): the variance of q, because the label mean of each pool is its q."""
    blocks = blocks.held
    rate = float(blocks.positive.sum()) / blocks.total
    return float((blocks.weight * (recalibrated(blocks) - rate) ** 2).sum()) / blocks.total


def uncertainty_of(blocks: Blocks, options: Options) -> float:
    rate = float(blocks.positive.sum()) / blocks.total
    return rate * (1.0 - rate)


def recalibrated(blocks: Blocks) -> FloatArray:
    """The isotonic regression of the labels on the probabilities, for each block."""
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(blocks.positive / blocks.weight, weights=blocks.weight)
    return np.asarray(fitted.x, dtype=np.float64)
