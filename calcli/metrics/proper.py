"""Proper scoring rules: means over rows of a loss that the true probabilities minimise."""

from __future__ import annotations

from collections.abc import Callable

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.numeric import losses


def nll(scored: Scored, options: Options) -> Measured:
    """Log-loss: the mean of -ln of the probability given to what happened, in nats.

    One-vs-rest, it is the log-loss of each class probability as a forecast of that class.
    """
    definition = Definition("lower", approximation="probabilities are held inside [1e-12, 1 - 1e-12]")
    return _mean(scored, nll_rows, definition)


def nll_rows(scored: Scored) -> FloatArray:
    """What each row adds to `nll`, before weighting."""
    return losses.log_loss(scored.prob, scored.label)


def brier(scored: Scored, options: Options) -> Measured:
    """Brier score: the mean squared error of the probability.

    Of the positive class where there are two classes; else the sum over classes, as Brier (1950) has it, so that the
    one-vs-rest scores add up to it.
    """
    definition = Definition("lower", reduction="positive class" if scored.binary else "sum over classes")
    return _mean(scored, brier_rows, definition)


def brier_rows(scored: Scored) -> FloatArray:
    """What each row adds to `brier`, before weighting."""
    return losses.squared_error(scored.prob, scored.label)


def brier_sum(scored: Scored, options: Options) -> Measured:
    """Brier score summed over all classes, both of two as well, as papers on neural networks report it."""
    return _mean(scored, brier_sum_rows, Definition("lower", reduction="sum over classes"))


def brier_sum_rows(scored: Scored) -> FloatArray:
    """What each row adds to `brier_sum`, before weighting."""
    rows = brier_rows(scored)
    return 2.0 * rows if scored.binary else rows


def _mean(scored: Scored, rows: Callable[[Scored], FloatArray], definition: Definition) -> Measured:
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    per_class = None
    if not scored.binary:
        per_class = tuple(scored.one_vs_rest(index).mean_of(rows) for index in range(scored.classes))
    return Measured(scored.mean_of(rows), definition, per_class=per_class)
