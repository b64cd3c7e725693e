"""Centred isotonic regression: isotonic without flat steps (Oron & Flournoy 2017).

Pool-adjacent-violators first. Each block is then represented by one point, its mean score, and between these points the
level is interpolated linearly, so that it rises strictly: scores that differ stay different, and the order that the
model gave to the rows of a block survives.

Two additions make that hold everywhere. The levels are mixed with 1/2 as one more row would be, (n level + 1/2)/(n + 1),
n the sum of weights: a block of one class alone gives neither 0 nor 1. Beyond the outermost point at score c, where the
paper's map is flat, the probability of the rarer class there falls slowly, to (1 + 1/(1 + |z - c|))/2 of its value:
never below half of what the data say.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import Batch, FloatArray, Sides
from calcli.methods.base import Params
from calcli.numeric.pooled import by_score
from calcli.state import State


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    from scipy.optimize import isotonic_regression

    pooled = by_score(batch.score, batch.labels, batch.weights)
    levels = isotonic_regression(pooled.positive / pooled.weight, weights=pooled.weight).x
    first = np.flatnonzero(np.diff(levels, prepend=-1.0))
    weight = np.add.reduceat(pooled.weight, first)
    rate = np.add.reduceat(pooled.positive, first) / weight
    centre = np.add.reduceat(pooled.weight * pooled.score, first) / weight
    rows = float(weight.sum())
    return State(arrays={"score": centre, "level": (rows * rate + 0.5) / (rows + 1.0)})


def predict(state: State, batch: Batch, sides: Sides) -> FloatArray:
    score, level = state.array("score"), state.array("level")
    z = batch.score
    prob = np.interp(z, score, level)
    below, above = z < score[0], z > score[-1]
    prob[below] *= _kept(score[0] - z[below])
    prob[above] = 1.0 - (1.0 - prob[above]) * _kept(z[above] - score[-1])
    return prob


def _kept(distance: FloatArray) -> FloatArray:
    """The share of an outermost level that is left at a distance beyond its centre: from 1 down to a half."""
    return (1.0 + 1.0 / (1.0 + distance)) / 2.0
