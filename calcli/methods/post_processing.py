"""The last steps of every calibrator: outputs off 0 and 1, and another base rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import FloatArray
from calcli.numeric.links import GREATEST, LEAST, open_interval

if TYPE_CHECKING:  # only exports need formulas
    from calcli.expressions import Terms


@dataclass(frozen=True, slots=True)
class PostProcessing:
    """The last steps for the output of every method, in this order."""

    exact: bool = False
    """Whether outputs may be exactly 0 or 1. Otherwise rates are held within what their rows support (an array
    `SUPPORTED` in the state), the outputs of other methods that can give 0 or 1 are mixed with the uniform
    distribution, and all are clipped to the open interval.
    """

    prior_ratio: tuple[float, ...] | None = None
    """For each class its rate in the target population over its rate among the calibration rows. Probabilities are
    multiplied by it and renormalised, which takes z to z + logit(target rate) - logit(calibration rate). That is right
    for calibrated scores, so it comes last.
    """

    def apply(self, prob: FloatArray, rows: int, classes: int, *, reaches_ends: bool) -> FloatArray:
        """The final probabilities of a calibrator that was fitted on so many rows."""
        if reaches_ends and not self.exact:
            prob = _mixed(prob, rows, classes)
        if self.prior_ratio is not None:
            prob = _prior_shifted(prob, np.array(self.prior_ratio))
        return prob if self.exact else open_interval(prob, out=prob)

    def formula(self, prob: Terms, rows: int, classes: int, *, reaches_ends: bool) -> Terms:
        """`apply` as terms."""
        from calcli import expressions as terms

        if reaches_ends and not self.exact:
            share = 1.0 / (rows + 1)
            prob = tuple((1.0 - share) * one + share / classes for one in prob)
        if self.prior_ratio is not None:
            prob = _prior_shifted_terms(prob, self.prior_ratio)
        return prob if self.exact else tuple(terms.clip(one, LEAST, GREATEST) for one in prob)


PLAIN = PostProcessing()


def _mixed(prob: FloatArray, rows: int, classes: int) -> FloatArray:
    """The Laplace mix (1 - 1/(n+1)) p + 1/((n+1) K): n rows never quite exclude a class."""
    share = 1.0 / (rows + 1)
    return (1.0 - share) * prob + share / classes


def _prior_shifted(prob: FloatArray, prior_ratio: FloatArray) -> FloatArray:
    """The probability of each class times its ratio, renormalised."""
    if prob.ndim == 2:
        shifted: FloatArray = prob * prior_ratio
        shifted /= shifted.sum(axis=1, keepdims=True)
        return shifted
    positive: FloatArray = prob * prior_ratio[1]
    total: FloatArray = positive + (1.0 - prob) * prior_ratio[0]
    return positive / total


def _prior_shifted_terms(prob: Terms, prior_ratio: tuple[float, ...]) -> Terms:
    from calcli.expressions import total

    if len(prob) == 1:
        positive = prior_ratio[1] * prob[0]
        return (positive / (positive + prior_ratio[0] * (1.0 - prob[0])),)
    shifted = [ratio * one for ratio, one in zip(prior_ratio, prob, strict=True)]
    whole = total(shifted)
    return tuple(one / whole for one in shifted)
