"""Beta calibration: sigmoid(a ln p - b ln(1 - p) + c) with a, b >= 0 (Kull, Silva Filho & Flach 2017).

It is what is right where the scores of both classes are beta distributed. In terms of log-odds ln p = -ln(1 + e^-z) and
-ln(1 - p) = ln(1 + e^z), so that the map has slope a far to the left, b far to the right, and a smooth bend between;
with a = b it is Platt scaling without smoothed targets. No probability is rounded on the way: the map goes on beyond
log-odds of 36, where float64 has run out of probabilities below 1.

The plain log-loss is minimised. If a or b came out negative, it is set to 0 and the rest is fitted again. Where no
finite map is the best one, because the classes are separated or one of them is absent, Platt's smoothed targets take
the place of 0 and 1. The fit needs only moments of the scores in narrow cells; where those are too coarse, `fit` goes
back to the rows.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric import curves
from calcli.numeric import taylor as jets
from calcli.numeric.curves import Sample
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.solve import newton_nonnegative
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    sample = Sample.of_cells(gather(batch, params).arrays)
    theta = _fitted(sample)
    if sample.coarseness(_basis, theta) > curves.COARSE:
        theta = _fitted(sample.by_rows(batch.score, batch.labels, batch.weights))
    return _state(theta)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(curves.gather(batch.score, batch.labels, batch.weight))


def finish(sums: Sums, params: Params) -> State:
    return _state(_fitted(Sample.of_cells(sums.arrays)))


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    z = batch.score
    right = softplus(z)
    return sigmoid(state.number("a") * (z - right) + state.number("b") * right + state.number("c"))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    z = score[0]
    right = terms.softplus(z)
    return (terms.sigmoid(state.number("a") * (z - right) + state.number("b") * right + state.number("c")),)


def _basis(z: FloatArray, order: int) -> FloatArray:
    """The jets of ln p, -ln(1 - p) and 1."""
    u = jets.variable(z, order)
    right = jets.softplus(u)
    one = np.zeros_like(u)
    one[0] = 1.0
    return np.stack([-jets.softplus(-u), right, one])


def _fitted(sample: Sample) -> FloatArray:
    smooth = sample.separated
    log_odds = sample.log_odds(smooth=smooth)
    low, high = sample.ends
    if high - low <= 1e-9 * max(1.0, abs(low)):
        return np.array([1.0, 1.0, log_odds - low])  # one score alone says nothing about the slopes
    start = np.array([0.0, 0.0, log_odds])
    return newton_nonnegative(sample.log_loss(_basis, smooth=smooth), start, bounded=(0, 1))


def _state(theta: FloatArray) -> State:
    a, b, c = (float(value) for value in theta)
    return State({"a": a, "b": b, "c": c})
