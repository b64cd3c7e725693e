"""Murphy's decomposition of the Brier score, by the CORP approach (Dimitriadis, Gneiting & Jordan 2021, section 2).

The labels are recalibrated by isotonic regression on the probabilities, q = PAV(y | p), which replaces bins. With S
the Brier score, S(p) = reliability - resolution + uncertainty holds exactly, where reliability is S(p) - S(q),
resolution S(mean y) - S(q) and uncertainty S(mean y). PAV is fitted on the very rows, so that reliability is above 0
even for the true probabilities.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Options
from calcli.metrics.blocks import Blocks
from calcli.metrics.forms import of_ties

_METHOD = "CORP: labels pooled by distinct probability, then isotonic regression"


@of_ties("sum", Definition("lower", approximation=_METHOD))
def brier_reliability(ties: Blocks, options: Options) -> float:
    """How much of the Brier score isotonic recalibration would take away.

    S(p) - S(q), as the mean of (p - q)(p + q - 2 y): no large numbers are subtracted.
    """
    ties = ties.held
    q = recalibrated(ties)
    weighed = (ties.prob - q) * ((ties.prob + q) * ties.weight - 2.0 * ties.positive)
    return max(float(weighed.sum()) / ties.total, 0.0)


@of_ties("sum", Definition("higher", approximation=_METHOD))
def brier_resolution(ties: Blocks, options: Options) -> float:
    """How much lower the Brier score is, once recalibrated, than that of always saying the label rate.

    S(mean y) - S(q): the variance of q, because the label mean of each pool is its q.
    """
    ties = ties.held
    rate = float(ties.positive.sum()) / ties.total
    return float((ties.weight * (recalibrated(ties) - rate) ** 2).sum()) / ties.total


@of_ties("sum", Definition("target", approximation=_METHOD))
def brier_uncertainty(ties: Blocks, options: Options) -> float:
    """The Brier score of always saying the label rate: a property of the rows, not of the score."""
    rate = float(ties.positive.sum()) / ties.total
    return rate * (1.0 - rate)


def recalibrated(blocks: Blocks) -> FloatArray:
    """The isotonic regression of the labels on the probabilities, for each block."""
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(blocks.positive / blocks.weight, weights=blocks.weight)
    return np.asarray(fitted.x, dtype=np.float64)
