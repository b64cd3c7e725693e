"""Temperature scaling: softmax(V / T), one number for all classes (Guo et al. 2017).

The log-loss is convex in 1/T, so the one minimum is found by a bracketed Newton search. 1/T is held within
[exp(-10), exp(10)], as scikit-learn does: on separable rows the best temperature is 0, and the search ends at that
bound or where the derivative has vanished.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric import moments
from calcli.numeric.links import sigmoid, softmax
from calcli.numeric.moments import ScoreMoments
from calcli.numeric.solve import root_between
from calcli.state import State

BOUND = float(np.exp(10.0))


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

    def slope(beta: float) -> tuple[float, float]:
        _, gradient, hessian = rows.softplus(beta, 0.0)
        return float(gradient[0]) - rows.score_positive, float(hessian[0, 0])

    return State({"inverse_temperature": root_between(slope, 1 / BOUND, BOUND, 1.0)})


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

    def slope(beta: float) -> tuple[float, float]:
        p = softmax(beta * V)
        mean = (p * V).sum(axis=1)
        variance = (p * (V - mean[:, None]) ** 2).sum(axis=1)
        return float(weight @ (mean - chosen)), float(weight @ variance)

    return root_between(slope, 1 / BOUND, BOUND, 1.0)
