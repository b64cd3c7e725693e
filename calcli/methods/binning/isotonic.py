"""Isotonic regression: the best non-decreasing function of the score (Zadrozny & Elkan 2002).

Pool-adjacent-violators on the log-odds, then linear interpolation between the ends of the blocks and a constant beyond
the outermost, as scikit-learn does. Rows with equal scores are one point.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import Batch, FloatArray, Sides
from calcli.methods.base import Params
from calcli.state import State


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    from scipy.optimize import isotonic_regression

    score, rate, weight = _pooled_by_score(batch)
    levels = isotonic_regression(rate, weights=weight).x
    ends = _block_ends(levels)
    # Rounding in the block means could leave a level outside [0, 1] by an ulp.
    return State(arrays={"score": score[ends], "level": np.clip(levels[ends], 0.0, 1.0)})


def predict(state: State, batch: Batch, sides: Sides) -> FloatArray:
    return np.interp(batch.score, state.array("score"), state.array("level"))


def _pooled_by_score(batch: Batch) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Distinct scores with their label rates and weights, rows of weight zero left out."""
    weight = batch.weights
    held = weight > 0
    score, place = np.unique(batch.score[held], return_inverse=True)
    total = np.bincount(place, weight[held])
    positive = np.bincount(place, weight[held] * batch.labels[held])
    return score, positive / total, np.asarray(total, dtype=np.float64)


def _block_ends(levels: FloatArray) -> FloatArray:
    """The first and last point of each run of equal levels: interpolation needs no others."""
    change = np.flatnonzero(np.diff(levels))
    first = np.concatenate([[0], change + 1])
    last = np.concatenate([change, [len(levels) - 1]])
    return np.unique(np.concatenate([first, last]))
