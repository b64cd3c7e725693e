"""Platt scaling: sigmoid(a z + b) on log-odds z, with Platt's smoothed targets (Platt 1999).

The labels 1 and 0 are replaced by (n1 + 1) / (n1 + 2) and 1 / (n0 + 2), with n1 and n0 the weights of the two
classes, so that the fit stays finite when the classes are separable. A slope below zero is allowed: it says that the
scores are upside down.

The fit needs only the moments of the scores in narrow cells. Where all scores lie so close together that the cells are
too coarse for the slope, `fit` goes back to the rows; `finish`, which has none, is then right to about 1e-4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric import moments
from calcli.numeric.links import sigmoid
from calcli.numeric.moments import ScoreMoments
from calcli.numeric.solve import Expansion, newton
from calcli.state import State

COARSE = 0.1
"""Cells within which a z + b varies by more than twice this are too coarse: the error is then above 1e-7."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows = ScoreMoments.of(moments.gather(batch.score, batch.labels, batch.weight))
    a, b = slope_and_intercept(rows, rows.softplus)
    if rows.coarseness(a) > COARSE:
        z, weight = np.clip(batch.score, -moments.LIMIT, moments.LIMIT), batch.weights
        a, b = slope_and_intercept(rows, lambda a, b: moments.softplus_of_rows(z, weight, a, b))
    return State({"a": a, "b": b})


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(moments.gather(batch.score, batch.labels, batch.weight))


def finish(sums: Sums, params: Params) -> State:
    rows = ScoreMoments.of(sums.arrays)
    a, b = slope_and_intercept(rows, rows.softplus)
    return State({"a": a, "b": b})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    u = batch.score * state.number("a")
    u += state.number("b")
    return sigmoid(u, out=u)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return (terms.sigmoid(state.number("a") * score[0] + state.number("b")),)


def slope_and_intercept(rows: ScoreMoments, softplus: Callable[[float, float], Expansion]) -> tuple[float, float]:
    """The a and b of least log-loss against the smoothed targets; `softplus` sums over the rows."""
    high = (rows.weight_positive + 1.0) / (rows.weight_positive + 2.0)
    low = 1.0 / (rows.weight - rows.weight_positive + 2.0)
    target = low * rows.weight + (high - low) * rows.weight_positive
    target_score = low * rows.score + (high - low) * rows.score_positive
    mean = rows.score / rows.weight
    log_odds = float(np.log(target) - np.log(rows.weight - target))
    if rows.spread <= 1e-9 * max(1.0, abs(mean)):
        return 1.0, log_odds - mean  # one score alone says nothing about the slope

    def loss(x: FloatArray) -> Expansion:
        a, b = float(x[0]), float(x[1])
        value, gradient, hessian = softplus(a, b)
        value -= a * target_score + b * target
        gradient = gradient - np.array([target_score, target])
        return Expansion(value / rows.weight, gradient / rows.weight, hessian / rows.weight)

    a, b = newton(loss, np.array([0.0, log_odds]))
    return float(a), float(b)
