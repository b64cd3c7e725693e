"""How well uncertainty detects errors, and rows from out of the domain (Malinin et al. 2021, section 5).

Everything here is exact: tied rows get the mid-rank, which is what the mean over all orders of them would give, and
weights count as rows.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.blocks import Blocks
from calcli.metrics.ranking import WITHIN_FOLDS, auc_of, over_folds, pairs
from calcli.numeric.ranks import weight_below

_NO_ORDER = "the loss is the same in every row: there is nothing to reject first"


def prr(scored: Scored, options: Options) -> Measured:
    """Prediction-rejection ratio of a score by its own uncertainty, 1 - the probability of the predicted class.

    The loss is 0 or 1, so that `rejection_ratio` is 200 AUC - 100 of that probability as a score for being right.
    """
    within = None if scored.folds is None else WITHIN_FOLDS
    definition = Definition("higher", reduction="top label", approximation=within)
    if scored.nothing:
        return Measured(None, definition, reason=scored.nothing)
    value = over_folds(scored.confidence, lambda part: prr_of(part.blocks, options), pairs)
    return Measured(value, definition, reason=None if value is not None else _NO_ORDER)


def prr_of(blocks: Blocks, options: Options) -> float | None:
    """The same from blocks of the predicted class's probability."""
    area = auc_of(blocks, options)
    return None if area is None else 200.0 * area - 100.0


def rejection_ratio(uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Prediction-rejection ratio: the gain over chance of rejecting by uncertainty, in percent of an oracle's gain.

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
    masses = np.ones(len(loss)) if weight is None else weight
    if not masses.sum() > 0:
        return Measured(None, definition, reason="there are no rows")
    half = masses.sum() / 2.0
    weighted_loss = masses * loss
    gain = float((weighted_loss * (weight_below(uncertainty, masses) - half)).sum())
    oracle_gain = float((weighted_loss * (weight_below(loss, masses) - half)).sum())
    if not oracle_gain > 0:
        return Measured(None, definition, reason=_NO_ORDER)
    return Measured(100.0 * gain / oracle_gain, definition)


def ood_auc(inside: FloatArray, outside: FloatArray, weight: FloatArray | None = None) -> Measured:
    """Area under the ROC curve of uncertainty as a score for rows from out of the domain, ties counting half.

    Parameters
    ----------
    inside, outside
        The uncertainty of rows from the domain, and of those from out of it.
    weight
        Of the rows from the domain; None for all ones. Those from out of it all count the same.
    """
    definition = Definition("higher")
    masses = np.ones(len(inside)) if weight is None else weight
    if not masses.sum() > 0 or not len(outside):
        return Measured(None, definition, reason="there are no rows on one side")
    # Rows of weight zero get a rank among the others without counting in it.
    all_masses = np.concatenate([masses, np.zeros(len(outside))])
    below = weight_below(np.concatenate([inside, outside]), all_masses)[len(inside) :]
    return Measured(float(below.mean() / masses.sum()), definition)
