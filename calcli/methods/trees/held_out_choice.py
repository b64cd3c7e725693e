"""Choosing by held-out log-loss, with doing nothing among the candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calcli.batch import FloatArray


def least_loss(losses: Sequence[FloatArray] | FloatArray, weight: FloatArray) -> int:
    """The candidate of least mean loss, if it betters the first by more than a standard error, else the first.

    The standard error is that of the paired difference over rows. Among several candidates the best one owes part of
    its lead to luck; the first, which does nothing, is safe.

    Parameters
    ----------
    losses
        The loss of each held-out row, for each candidate.
    weight
        Of the rows.
    """
    total = float(weight.sum())
    mean = np.array([float(weight @ loss) for loss in losses]) / total
    best = int(np.argmin(mean))
    lead = losses[0] - losses[best]
    error = math.sqrt(float(np.square(weight * (lead - (mean[0] - mean[best]))).sum())) / total
    return best if mean[0] - mean[best] > error else 0
