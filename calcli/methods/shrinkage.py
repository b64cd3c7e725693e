"""How far the calibrator of a cell or cluster is drawn to that of all rows.

On log-odds (more than two classes: log-probabilities) z = (H z_own + tau z_without) / (H + tau). H is the information
in the cell's calibration rows: the sum of w q (1 - q) (more than two classes: of w (1 - |q|^2)), q the probability
without the cell's own calibrator. With tau = 0 each cell stands alone; with tau = inf its calibrator is not used.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray


def information(prob: FloatArray, weight: FloatArray) -> FloatArray:
    """The contribution of each row to H."""
    return weight * (prob * (1.0 - prob) if prob.ndim == 1 else 1.0 - np.square(prob).sum(axis=1))


def own_share(information: FloatArray, tau: float) -> FloatArray:
    """H / (H + tau)."""
    if tau == 0:
        return np.ones_like(information)
    return np.zeros_like(information) if np.isinf(tau) else information / (information + tau)
