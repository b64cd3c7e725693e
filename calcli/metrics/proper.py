"""Proper scoring rules, means over rows of a loss that the true probabilities minimise, and the parts of two of them.

The parts are Murphy's, by the CORP approach (Dimitriadis, Gneiting & Jordan 2021, section 2). The labels are
recalibrated by isotonic regression on the probabilities, q = PAV(y | p), which replaces bins. With S the Brier score or
the log-loss, S(p) = reliability - resolution + uncertainty holds exactly, where reliability is S(p) - S(q), resolution
S(mean y) - S(q) and uncertainty S(mean y). PAV is fitted on the very rows, so that reliability is above 0 even for the
true probabilities.
"""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.forms import Skill, of_ties, row_mean
from calcli.metrics.tied import TiedScores
from calcli.numeric import losses

_SUMMED = Definition("lower", reduction="sum over classes")


@row_mean(Definition("lower", approximation="probabilities are held inside [1e-12, 1 - 1e-12]"))
def nll(scored: Scored) -> FloatArray:
    """Log-loss: the mean of -ln of the probability given to what happened, in nats.

    One-vs-rest, it is the log-loss of each class probability as a forecast of that class.
    """
    return losses.log_loss(scored.prob, scored.label)


@row_mean(Definition("lower", reduction="positive class"), _SUMMED)
def brier(scored: Scored) -> FloatArray:
    """Brier score: the mean squared error of the probability.

    Of the positive class where there are two classes; else the sum over classes, as Brier (1950) has it, so that the
    one-vs-rest scores add up to it.
    """
    return losses.squared_error(scored.prob, scored.label)


@row_mean(_SUMMED)
def brier_sum(scored: Scored) -> FloatArray:
    """Brier score summed over all classes, both of two as well, as papers on neural networks report it."""
    rows = losses.squared_error(scored.prob, scored.label)
    return 2.0 * rows if scored.binary else rows


@row_mean(Definition("lower", reduction="cumulative over classes in order"), one_vs_rest=False)
def rps(scored: Scored) -> FloatArray:
    """Ranked probability score: the squared errors of the cumulative probabilities, for classes that have an order.

    Summed over the thresholds between neighbouring classes (Epstein 1969; Murphy 1971); of two classes the Brier score.
    """
    return losses.ranked_error(scored.prob, scored.label)


d2_nll = Skill(nll, "The share of the log-loss of always saying the rates of the classes that the score saves.")
d2_brier = Skill(brier, "The share of the Brier score of always saying the rates of the classes that the score saves.")

_METHOD = "CORP: labels pooled by distinct probability, then isotonic regression"


@of_ties("sum", Definition("lower", approximation=_METHOD))
def brier_reliability(ties: TiedScores, options: Options) -> float:
    """How much of the Brier score isotonic recalibration would take away.

    S(p) - S(q), as the mean of (p - q)(p + q - 2 y): no large numbers are subtracted.
    """
    ties = ties.with_positive_weight
    q = recalibrated(ties)
    weighed = (ties.prob - q) * ((ties.prob + q) * ties.weight - 2.0 * ties.positive)
    return max(float(weighed.sum()) / ties.total, 0.0)


@of_ties("sum", Definition("higher", approximation=_METHOD))
def brier_resolution(ties: TiedScores, options: Options) -> float:
    """How much lower the Brier score is, once recalibrated, than that of always saying the label rate.

    S(mean y) - S(q): the variance of q, because the label mean of each pool is its q.
    """
    ties = ties.with_positive_weight
    rate = float(ties.positive.sum()) / ties.total
    return float((ties.weight * (recalibrated(ties) - rate) ** 2).sum()) / ties.total


@of_ties("sum", Definition("target", approximation=_METHOD))
def brier_uncertainty(ties: TiedScores, options: Options) -> float:
    """The Brier score of always saying the label rate: a property of the rows, not of the score."""
    rate = float(ties.positive.sum()) / ties.total
    return rate * (1.0 - rate)


def _less(ties: TiedScores, one: FloatArray, other: FloatArray) -> float:
    """By how much the mean log-loss of the probabilities `one` is lower than that of `other`."""
    positive, negative = (
        losses.log_loss(other, label) - losses.log_loss(one, label)
        for label in (np.ones(len(one), np.int64), np.zeros(len(one), np.int64))
    )
    return float((ties.positive * positive + (ties.weight - ties.positive) * negative).sum()) / ties.total


@of_ties("sum", Definition("lower", approximation=_METHOD))
def nll_reliability(ties: TiedScores, options: Options) -> float:
    """How much of the log-loss isotonic recalibration would take away: S(p) - S(q)."""
    ties = ties.with_positive_weight
    return max(_less(ties, recalibrated(ties), ties.prob), 0.0)


@of_ties("sum", Definition("higher", approximation=_METHOD))
def nll_resolution(ties: TiedScores, options: Options) -> float:
    """How much lower the log-loss is, once recalibrated, than that of always saying the label rate."""
    ties = ties.with_positive_weight
    return max(_less(ties, recalibrated(ties), np.full(len(ties.prob), ties.positive.sum() / ties.total)), 0.0)


@of_ties("sum", Definition("target", approximation=_METHOD))
def nll_uncertainty(ties: TiedScores, options: Options) -> float:
    """The log-loss of always saying the label rate, its entropy: a property of the rows, not of the score."""
    rate = float(ties.positive.sum()) / ties.total
    return -sum(share * math.log(share) for share in (rate, 1.0 - rate) if share > 0.0)


def recalibrated(ties: TiedScores) -> FloatArray:
    """The isotonic regression of the labels on the probabilities, for each block."""
    from scipy.optimize import isotonic_regression

    fitted = isotonic_regression(ties.positive / ties.weight, weights=ties.weight)
    return np.asarray(fitted.x, dtype=np.float64)
