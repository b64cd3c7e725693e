"""How well uncertainty detects errors, and rows from out of the domain (Malinin et al. 2021, section 5).

Everything here is exact: tied rows get the mid-rank, which is what the mean over all orders of them would give, and
weights count as rows.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured
from calcli.metrics.ranking import NO_ORDER
from calcli.numeric.ranks import weight_below


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
        return Measured(None, definition, reason=NO_ORDER)
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
