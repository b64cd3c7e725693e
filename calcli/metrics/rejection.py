"""How well uncertainty tells which rows to reject: wrong predictions, and rows from out of the domain.

The numbers (Malinin et al. 2021, section 5) are exact: tied rows get the mid-rank, which is what the mean over all
orders of them would give, and weights count as rows.

A rejection curve is the mean loss of the rows that are accepted when the most uncertain ones are rejected. A row is
rejected by any uncertainty, or by u = 1 - p of the predicted class with the loss 1 for a wrong prediction: then either
a share of the rows is rejected, or all rows whose uncertainty on a scale from 0 (certain) to 1 (no idea),
u / (1 - 1/K), is above a threshold (CCL paper, 4.2). Of equally uncertain rows equal parts are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Measured, Scored
from calcli.metrics.paired import Z975
from calcli.metrics.ranking import NO_ORDER, accuracy_rows
from calcli.metrics.tied import cumulated
from calcli.numeric.sums import weight_below


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


RATES = tuple(place / 20 for place in range(20))
THRESHOLDS = tuple(place / 10 for place in range(11))


@dataclass(frozen=True, slots=True)
class Accepted:
    """The rows that are accepted."""

    at: float
    """The share of rows that was rejected, or the threshold."""

    error: float | None
    """The mean loss of the accepted rows, so the share of wrong predictions among them; None without any."""

    n: float
    """Their weight."""

    lo: float | None = None
    hi: float | None = None
    """`lo`, `hi`: wilson's 95 % interval of the share of wrong predictions; rows of uneven weight count as their
    effective number.
    """


def by_rate(scored: Scored, rates: Sequence[float] = RATES) -> tuple[Accepted, ...]:
    """The error when these shares of the rows are rejected."""
    _, *sums = _sums_by_confidence(scored)
    return tuple(_accepted(rate, (1.0 - rate) * sums[0][-1], *sums) for rate in rates)


def by_threshold(scored: Scored, thresholds: Sequence[float] = THRESHOLDS) -> tuple[Accepted, ...]:
    """The error when only rows no more uncertain than the threshold are accepted."""
    uncertainty, *sums = _sums_by_confidence(scored)
    most = 1.0 - 1.0 / scored.classes
    # A threshold of 0.1 must hold p = 0.95, of which 1 - p is a rounding error more than 0.05.
    limits = [threshold * most * (1.0 + 1e-12) + 1e-15 for threshold in thresholds]
    ties = np.searchsorted(uncertainty, limits, side="right")
    return tuple(
        _accepted(threshold, float(sums[0][block]), *sums) for threshold, block in zip(thresholds, ties, strict=True)
    )


def rejection_curve(
    uncertainty: FloatArray, loss: FloatArray, weight: FloatArray | None = None, *, shares: FloatArray
) -> tuple[Accepted, ...]:
    """The mean loss of the accepted rows at each share of the weight rejected; without intervals."""
    each = np.ones(len(loss)) if weight is None else weight
    _, rejected, lost = _cumulated(-uncertainty, each, each * loss)
    total = float(rejected[-1])
    if not total > 0:
        return ()
    means = (float(lost[-1]) - np.interp(shares * total, rejected, lost)).clip(min=0.0)
    return tuple(
        Accepted(float(share), float(mean) / float(left) if left > 0 else None, float(left))
        for share, mean, left in zip(shares, means, total * (1.0 - shares), strict=True)
    )


def _sums_by_confidence(scored: Scored) -> tuple[FloatArray, ...]:
    """1 - p of the predicted class, and over the surest rows the sums of w, of w where wrong, and of w^2."""
    top = scored.prob.max(axis=1) if not scored.binary else np.maximum(scored.prob, 1.0 - scored.prob)
    weight = np.ones(len(scored)) if scored.weight is None else scored.weight
    return _cumulated(1.0 - top, weight, weight * (1.0 - accuracy_rows(scored)), np.square(weight))


def _cumulated(order: FloatArray, *columns: FloatArray) -> tuple[FloatArray, ...]:
    """The distinct values of `order`, rising, and of each column the sums over the first 0, 1, .. of these values."""
    distinct, block = np.unique(order, return_inverse=True)
    sums = (np.bincount(block, column, len(distinct)) for column in columns)
    return distinct, *(cumulated(np.asarray(each, dtype=np.float64)) for each in sums)


def _accepted(at: float, left: float, weight: FloatArray, wrong: FloatArray, square: FloatArray) -> Accepted:
    """The surest rows of the weight `left`, with Wilson's interval."""
    if not left > 0.0:
        return Accepted(at, None, 0.0)
    error = float(np.interp(left, weight, wrong)) / left
    rows = left**2 / float(np.interp(left, weight, square))
    centre = (error + Z975**2 / (2.0 * rows)) / (1.0 + Z975**2 / rows)
    spread = Z975 * math.sqrt(error * (1.0 - error) / rows + Z975**2 / (4.0 * rows**2)) / (1.0 + Z975**2 / rows)
    return Accepted(at, error, left, max(0.0, centre - spread), min(1.0, centre + spread))
