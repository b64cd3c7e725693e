"""Quadratic scaling: sigmoid(a z + b + c z^2) on log-odds z, kept monotone.

The plain log-loss is minimised subject to a + 2 c z >= 0 at the least and the greatest score of the fit, so that the
parabola rises over all of them. Beyond them it goes on as the straight line with the slope that it has there. In the
fit scores are clipped to [-30, 30].

The parabola is parametrised by its slopes at the two ends, which makes the constraint two signs, and by its value at
the lower end. Where no finite parabola is the best one, because the classes are separated or one of them is absent,
Platt's smoothed targets take the place of 0 and 1.

The fit needs only moments of the scores in narrow cells; the ends are the means of the outermost cells, within 1/512
of the outermost scores and equal to them where a cell holds one score. Where cells are too coarse, `fit` goes back to
the rows.
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
from calcli.numeric.links import sigmoid
from calcli.numeric.solve import newton_nonnegative
from calcli.state import State

LIMIT = 30.0
"""Scores are clipped to [-30, 30] while fitting."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    sample = Sample.of_cells(gather(batch, params).arrays)
    theta = _fitted(sample)
    if sample.coarseness(_Parabola(*sample.ends), theta) > curves.COARSE:
        sample = sample.by_rows(np.clip(batch.score, -LIMIT, LIMIT), batch.labels, batch.weights)
        theta = _fitted(sample)
    return _state(sample, theta)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(curves.gather(np.clip(batch.score, -LIMIT, LIMIT), batch.labels, batch.weight))


def finish(sums: Sums, params: Params) -> State:
    sample = Sample.of_cells(sums.arrays)
    return _state(sample, _fitted(sample))


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    low, high = state.number("low"), state.number("high")
    clipped = np.clip(batch.score, low, high)
    beyond = batch.score - clipped
    slope = np.where(beyond < 0, state.number("slope_low"), state.number("slope_high"))
    u = (state.number("c") * clipped + state.number("a")) * clipped + state.number("b")
    return sigmoid(u + slope * beyond)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    z = score[0]
    clipped = terms.clip(z, state.number("low"), state.number("high"))
    u = (state.number("c") * clipped + state.number("a")) * clipped + state.number("b")
    slope = terms.choose(z < clipped, state.number("slope_low"), state.number("slope_high"))
    return (terms.sigmoid(u + slope * (z - clipped)),)


class _Parabola:
    """The functions of z that the end slopes and the value at the lower end are multiplied with."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.length = low, (high - low) or 1.0

    def __call__(self, z: FloatArray, order: int) -> FloatArray:
        t = (jets.variable(z, order) - np.eye(order + 1, 1) * self.low) / self.length
        square = jets.product(t, t) / 2.0
        one = jets.variable(np.ones(len(z)), order)
        one[1:] = 0.0
        return np.stack([self.length * (t - square), self.length * square, one])


def _fitted(sample: Sample) -> FloatArray:
    """The slopes at the two ends, and the value at the lower one."""
    low, high = sample.ends
    smooth = sample.separated
    log_odds = sample.log_odds(smooth=smooth)
    if high - low <= 1e-9 * max(1.0, abs(low)):
        return np.array([1.0, 1.0, log_odds])  # one score alone says nothing about the slope
    loss = sample.log_loss(_Parabola(low, high), smooth=smooth)
    return newton_nonnegative(loss, np.array([0.0, 0.0, log_odds]), bounded=(0, 1))


def _state(sample: Sample, theta: FloatArray) -> State:
    """The coefficients of sigmoid(a z + b + c z^2), where it holds, and the slopes beyond."""
    low, high = sample.ends
    slope_low, slope_high, value = (float(number) for number in theta)
    c = (slope_high - slope_low) / (2.0 * (high - low)) if high > low else 0.0
    a = slope_low - 2.0 * c * low
    b = value - (c * low + a) * low
    return State({"a": a, "b": b, "c": c, "low": low, "high": high, "slope_low": slope_low, "slope_high": slope_high})
