"""How well uncertainty finds errors, and rows from elsewhere (Malinin et al. 2021, section 5).

Everything here is exact: tied rows stand at the middle of their ranks, which is what the mean over all orders of them
would give, and weights count as rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.ranking import auc_of
from calcli.numeric.ranks import weight_below


def prr(scored: Scored, options: Options) -> Measured:
    """Prediction-rejection ratio of a score by its own uncertainty, 1 - the probability of the predicted class.

    The loss is 0 or 1, so that `rejection_ratio` is 200 AUC - 100 of that probability as a score for being right.
    """
    definition = Definition("higher", reduction="top label")
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    value = prr_of(scored.confidence.blocks, options)
    return Measured(value, definition, reason=None if value is not None else _NO_ORDER)


def prr_of(blocks: Blocks, options: Options) -> float | None:
    """The same from blocks of the predicted class's probability."""
    area = auc_of(blocks, options)
    return None if area is None else 200.0 * area - 100.0


_NO_ORDER = "the loss is the same in every row: there is nothing to reject first"


def rejection_ratio(uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Prediction-rejection ratio: how much of what an oracle gains over chance the uncertainty gains, in percent.

    Rows are rejected in the order of falling uncertainty and count as right from then on, which leaves the curve
    E(r) = sum of the losses of accepted rows / n. With A the area under it, PRR = 100 (A_random - A) /
    (A_random - A_oracle), the oracle rejecting by the loss itself. A row of mid-rank R leaves at the share
    1 - (R - 1/2)/n, so that PRR = 100 sum l_i (R_i(u) - (n+1)/2) / sum l_i (R_i(l) - (n+1)/2).

    Parameters
    ----------
    uncertainty, loss
        Of each row; the loss is 0 or 1, or the squared error.
    weight
        Non-negative, or None for all ones.
    """
    definition = Definition("higher")
    held = np.ones(len(loss)) if weight is None else weight
    if not held.sum() > 0:
        return Measured(None, definition, reason="there are no rows")
    half = held.sum() / 2.0
    weighed = held * loss
    gained = float((weighed * (weight_below(uncertainty, held) - half)).sum())
    possible = float((weighed * (weight_below(loss, held) - half)).sum())
    if not possible > 0:
        return Measured(None, definition, reason=_NO_ORDER)
    return Measured(100.0 * gained / possible, definition)


def ood_auc(inside: FloatArray, outside: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Area under the ROC curve of uncertainty as a score for rows from out of the domain, ties counting half.

    Parameters
    ----------
    inside, outside
        The uncertainty of rows from the domain, and of those from elsewhere.
    weight
        Of the rows from the domain; None for all ones. Those from elsewhere all count the same.
    """
    definition = Definition("higher")
    held = np.ones(len(inside)) if weight is None else weight
    if not held.sum() > 0 or not len(outside):
        return Measured(None, definition, reason="there are no rows on one side")
    masses = np.concatenate([held, np.zeros(len(outside))])
    below = weight_below(np.concatenate([inside, outside]), masses)[len(inside) :]
    return Measured(float(below.mean() / held.sum()), definition)


@dataclass(frozen=True, slots=True)
class Rejection:
    """What is left when the most uncertain rows are rejected.

    Attributes
    ----------
    rejected
        Shares of the weight, rising.
    accepted
        The weight that is left at each.
    loss
        The mean loss of what is left; None where nothing is.
    """

    rejected: tuple[float, ...]
    accepted: tuple[float, ...]
    loss: tuple[float | None, ...]


def rejection_curve(
    uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None, *, shares: FloatArray
) -> Rejection:
    """The mean loss of the accepted rows at each share rejected; of tied rows, that of rejecting them in any order."""
    held = np.ones(len(loss)) if weight is None else weight
    _, place = np.unique(-uncertainty, return_inverse=True)
    mass = np.concatenate([[0.0], np.cumsum(np.bincount(place, held))])
    lost = np.concatenate([[0.0], np.cumsum(np.bincount(place, held * loss))])
    total = float(mass[-1])
    if not total > 0:
        return Rejection((), (), ())
    gone = np.interp(shares * total, mass, lost)
    accepted = total * (1.0 - shares)
    means = [
        max(float(lost[-1] - one), 0.0) / float(left) if left > 0 else None
        for one, left in zip(gone, accepted, strict=True)
    ]
    return Rejection(tuple(map(float, shares)), tuple(map(float, accepted)), tuple(means))
