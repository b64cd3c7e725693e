"""Proper scoring rules: means over rows of a loss that the true probabilities minimise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calcli.batch import FloatArray
from calcli.metrics.additive import Additive
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.numeric import losses

RowLoss = Callable[[Scored], FloatArray]

_NLL = Definition("lower", approximation="probabilities are held inside [1e-12, 1 - 1e-12]")
_BRIER = Definition("lower", reduction="positive class")
_SUMMED = Definition("lower", reduction="sum over classes")


def nll(scored: Scored, options: Options) -> Measured:
    """Log-loss: the mean of -ln of the probability given to what happened, in nats.

    One-vs-rest, it is the log-loss of each class probability as a forecast of that class.
    """
    return _mean(scored, nll_rows, _NLL)


def nll_rows(scored: Scored) -> FloatArray:
    """The contribution of each row to `nll`, before weighting."""
    return losses.log_loss(scored.prob, scored.label)


def brier(scored: Scored, options: Options) -> Measured:
    """Brier score: the mean squared error of the probability.

    Of the positive class where there are two classes; else the sum over classes, as Brier (1950) has it, so that the
    one-vs-rest scores add up to it.
    """
    return _mean(scored, brier_rows, _BRIER if scored.binary else _SUMMED)


def brier_rows(scored: Scored) -> FloatArray:
    """The contribution of each row to `brier`, before weighting."""
    return losses.squared_error(scored.prob, scored.label)


def brier_sum(scored: Scored, options: Options) -> Measured:
    """Brier score summed over all classes, both of two as well, as papers on neural networks report it."""
    return _mean(scored, brier_sum_rows, _SUMMED)


def brier_sum_rows(scored: Scored) -> FloatArray:
    """The contribution of each row to `brier_sum`, before weighting."""
    rows = brier_rows(scored)
    return 2.0 * rows if scored.binary else rows


def _mean(scored: Scored, rows: RowLoss, definition: Definition) -> Measured:
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    return LossSums.of(scored, rows).mean(definition)


@dataclass(frozen=True, slots=True)
class LossSums:
    """Sums of w and of w times the loss, the latter also of each class one-vs-rest where there are more than two."""

    weight: float
    loss: float
    per_class: tuple[float, ...] | None

    def __add__(self, other: LossSums) -> LossSums:
        per_class = None
        if self.per_class is not None:
            per_class = tuple(map(sum, zip(self.per_class, other.per_class or (), strict=True)))
        return LossSums(self.weight + other.weight, self.loss + other.loss, per_class)

    @classmethod
    def of(cls, scored: Scored, rows: RowLoss) -> LossSums:
        per_class = None
        if not scored.binary:
            per_class = tuple(scored.one_vs_rest(index).sum_of(rows) for index in range(scored.classes))
        return cls(scored.total_weight, scored.sum_of(rows), per_class)

    def mean(self, definition: Definition) -> Measured:
        per_class = None if self.per_class is None else tuple(loss / self.weight for loss in self.per_class)
        return Measured(self.loss / self.weight, definition, per_class=per_class)


def mean_sums(rows: RowLoss, definition: Callable[[LossSums], Definition]) -> Additive[LossSums]:
    """A metric that is the mean over rows of `rows`, one-vs-rest too where there are more than two classes."""
    return Additive(
        lambda scored, _: LossSums.of(scored, rows),
        lambda scores, _: [sums.mean(definition(sums)) for sums in scores],
    )


NLL_SUMS = mean_sums(nll_rows, lambda _: _NLL)
BRIER_SUMS = mean_sums(brier_rows, lambda sums: _BRIER if sums.per_class is None else _SUMMED)
BRIER_SUM_SUMS = mean_sums(brier_sum_rows, lambda _: _SUMMED)
