"""Proper scoring rules: means over rows of a loss that the true probabilities minimise."""

from __future__ import annotations

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Scored
from calcli.metrics.forms import row_mean
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
