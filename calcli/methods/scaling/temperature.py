"""Temperature scaling: softmax(V / T), one number for all classes (Guo et al. 2017).

The log-loss is convex in 1/T, so the one minimum is found by a bracketed Newton search. 1/T is held within
[exp(-10), exp(10)], as scikit-learn does. On separable rows the best temperature is 0, which no rows support: their
targets are then mixed with 1/K as one more row would be, (1 - 1/(n + 1)) y + 1/((n + 1) K), n the sum of weights.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric import moments
from calcli.numeric.links import sigmoid, softmax
from calcli.numeric.losses import log_loss
from calcli.numeric.moments import ScoreMoments
from calcli.numeric.solve import root_between
from calcli.state import State

BOUND = float(np.exp(10.0))

NOTHING = 1e-7
"""A mean log-loss below it says that the score separates the classes: a single row on the wrong side costs ln 2 / n."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if batch.classes == 2:
        return finish(gather(batch, params), params)
    return State({"inverse_temperature": many_classes(batch)})


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(moments.gather(batch.score, batch.labels, batch.weight))


def finish(sums: Sums, params: Params) -> State:
    rows = ScoreMoments.of(sums.arrays)
    if np.hypot(rows.spread, rows.score / rows.weight) <= 1e-9:
        return State({"inverse_temperature": 1.0})  # all scores are 0: any temperature gives the same

    def best(target_score: float) -> float:
        def slope(beta: float) -> tuple[float, float]:
            _, gradient, hessian = rows.softplus(beta, 0.0)
            return float(gradient[0]) - target_score, float(hessian[0, 0])

        return root_between(slope, 1 / BOUND, BOUND, 1.0)

    beta = best(rows.score_positive)
    if _separated(beta, (rows.softplus(beta, 0.0).value - beta * rows.score_positive) / rows.weight):
        share = 1.0 / (rows.weight + 1.0)
        beta = best((1.0 - share) * rows.score_positive + share * rows.score / 2.0)
    return State({"inverse_temperature": beta})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    beta = state.number("inverse_temperature")
    scaled = batch.score * beta
    return sigmoid(scaled) if scaled.ndim == 1 else softmax(scaled)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    scaled = [state.number("inverse_temperature") * one for one in score]
    return (terms.sigmoid(scaled[0]),) if len(scaled) == 1 else terms.softmax(scaled)


def many_classes(batch: Batch) -> float:
    """1/T where the mean over rows of E_p[V] - V_y, the derivative of the log-loss, is zero."""
    V = batch.score - batch.score.max(axis=1, keepdims=True)
    if float(np.abs(V).max()) <= 1e-9:
        return 1.0  # all classes are equally likely, always: any temperature gives the same
    weight = batch.weights
    chosen = np.take_along_axis(V, batch.labels[:, None], axis=1)[:, 0]

    def best(target: FloatArray) -> float:
        def slope(beta: float) -> tuple[float, float]:
            p = softmax(beta * V)
            mean = (p * V).sum(axis=1)
            variance = (p * (V - mean[:, None]) ** 2).sum(axis=1)
            return float(weight @ (mean - target)), float(weight @ variance)

        return root_between(slope, 1 / BOUND, BOUND, 1.0)

    beta, total = best(chosen), float(weight.sum())
    if _separated(beta, float(weight @ log_loss(softmax(beta * V), batch.labels)) / total):
        share = 1.0 / (total + 1.0)
        beta = best((1.0 - share) * chosen + share * V.mean(axis=1))
    return beta


def _separated(beta: float, loss: float) -> bool:
    """Whether the search for 1/T has ended at its bound, or where nothing is left to gain."""
    return beta > 0.999 * BOUND or loss < NOTHING
