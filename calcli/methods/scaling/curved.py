"""Monotone curves of log-odds with three numbers: beta and quadratic scaling.

Both minimise the plain log-loss over two slopes that are not negative and a constant. Where no finite curve is the best
one, because the classes are separated or one of them is absent, Platt's smoothed targets take the place of 0 and 1. The
fit needs only moments of the scores in narrow cells; where those are too coarse, `fit` goes back to the rows.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums, SumsMethod
from calcli.numeric import curves
from calcli.numeric import solve as jets
from calcli.numeric.curves import Basis, Sample
from calcli.numeric.links import sigmoid, softplus
from calcli.numeric.solve import newton_nonnegative
from calcli.state import Numbers, Rules, State

LIMIT = 30.0
"""Quadratic scaling clips scores to [-30, 30] while fitting."""


class Beta(SumsMethod):
    """Beta calibration: sigmoid(a ln p - b ln(1 - p) + c) with a, b >= 0 (Kull, Silva Filho & Flach 2017).

    It is right where the scores of both classes are beta distributed. In terms of log-odds ln p = -ln(1 + e^-z) and
    -ln(1 - p) = ln(1 + e^z), so that the map has slope a far to the left, b far to the right, and a smooth bend
    between; with a = b it is Platt scaling without smoothed targets. No probability is rounded on the way: the map goes
    on beyond log-odds of 36, where float64 has run out of probabilities below 1.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        sample = Sample.of_cells(self.gather(batch, params).arrays)
        theta = _fitted(sample, _beta_basis, sample.ends[0])
        if sample.coarseness(_beta_basis, theta) > curves.COARSE:
            sample = sample.by_rows(batch.score, batch.labels, batch.weights)
            theta = _fitted(sample, _beta_basis, sample.ends[0])
        return _beta_state(theta)

    def gather(self, batch: Batch, params: Params) -> Sums:
        return Sums(curves.gather(batch.score, batch.labels, batch.weight))

    def finish(self, sums: Sums, params: Params) -> State:
        sample = Sample.of_cells(sums.arrays)
        return _beta_state(_fitted(sample, _beta_basis, sample.ends[0]))

    def holds(self, classes: int) -> Rules:
        return {"a": Numbers(low=0.0), "b": Numbers(low=0.0), "c": Numbers()}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        z = batch.score
        right = softplus(z)
        return sigmoid(state.number("a") * (z - right) + state.number("b") * right + state.number("c"))

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
        z = score[0]
        right = terms.softplus(z)
        return (terms.sigmoid(state.number("a") * (z - right) + state.number("b") * right + state.number("c")),)


def _beta_basis(z: FloatArray, order: int) -> FloatArray:
    """The jets of ln p, -ln(1 - p) and 1."""
    u = jets.variable(z, order)
    right = jets.softplus(u)
    one = np.zeros_like(u)
    one[0] = 1.0
    return np.stack([-jets.softplus(-u), right, one])


def _beta_state(theta: FloatArray) -> State:
    a, b, c = (float(value) for value in theta)
    return State({"a": a, "b": b, "c": c})


class Quadratic(SumsMethod):
    """Quadratic scaling: sigmoid(a z + b + c z^2) on log-odds z, kept monotone.

    The log-loss is minimised subject to a + 2 c z >= 0 at the least and the greatest score of the fit, so that the
    parabola rises over all of them. Beyond them it goes on as the straight line with the slope that it has there.

    The parabola is parametrised by its slopes at the two ends, which makes the constraint two signs, and by its value
    at the lower end. The ends are the means of the outermost cells, within 1/512 of the outermost scores and equal to
    them where a cell holds one score.
    """

    def fit(self, batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
        sample = Sample.of_cells(self.gather(batch, params).arrays)
        theta = _fitted(sample, _Parabola(*sample.ends), 0.0)
        if sample.coarseness(_Parabola(*sample.ends), theta) > curves.COARSE:
            sample = sample.by_rows(np.clip(batch.score, -LIMIT, LIMIT), batch.labels, batch.weights)
            theta = _fitted(sample, _Parabola(*sample.ends), 0.0)
        return _parabola_state(sample, theta)

    def gather(self, batch: Batch, params: Params) -> Sums:
        return Sums(curves.gather(np.clip(batch.score, -LIMIT, LIMIT), batch.labels, batch.weight))

    def finish(self, sums: Sums, params: Params) -> State:
        sample = Sample.of_cells(sums.arrays)
        return _parabola_state(sample, _fitted(sample, _Parabola(*sample.ends), 0.0))

    def holds(self, classes: int) -> Rules:
        ends = {"low": Numbers(low=-LIMIT, high="high"), "high": Numbers(high=LIMIT)}
        return ends | {name: Numbers() for name in ("a", "b", "c", "slope_low", "slope_high")}

    def predict(self, state: State, batch: Batch, sides: SideInputs) -> FloatArray:
        low, high = state.number("low"), state.number("high")
        clipped = np.clip(batch.score, low, high)
        beyond = batch.score - clipped
        slope = np.where(beyond < 0, state.number("slope_low"), state.number("slope_high"))
        u = (state.number("c") * clipped + state.number("a")) * clipped + state.number("b")
        return sigmoid(u + slope * beyond)

    def formula(self, state: State, score: Terms, features: Inputs) -> Terms:
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


def _parabola_state(sample: Sample, theta: FloatArray) -> State:
    """The coefficients of sigmoid(a z + b + c z^2), where it holds, and the slopes beyond."""
    low, high = sample.ends
    slope_low, slope_high, value = (float(number) for number in theta)
    c = (slope_high - slope_low) / (2.0 * (high - low)) if high > low else 0.0
    a = slope_low - 2.0 * c * low
    b = value - (c * low + a) * low
    return State({"a": a, "b": b, "c": c, "low": low, "high": high, "slope_low": slope_low, "slope_high": slope_high})


def _fitted(sample: Sample, basis: Basis, origin: float) -> FloatArray:
    """The two slopes and the constant of least log-loss; with slopes of 1 the curve is z - `origin` + constant."""
    smooth = sample.separated
    log_odds = sample.log_odds(smooth=smooth)
    low, high = sample.ends
    if high - low <= 1e-9 * max(1.0, abs(low)):
        return np.array([1.0, 1.0, log_odds - origin])  # one score alone says nothing about the slopes
    start = np.array([0.0, 0.0, log_odds])
    return newton_nonnegative(sample.log_loss(basis, smooth=smooth), start, bounded=(0, 1))
