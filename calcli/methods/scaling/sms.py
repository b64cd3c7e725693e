"""Structured matrix scaling (Berta, Holzmueller, Jordan & Bach 2026).

Temperature scaling first; its probabilities are mixed with the uniform distribution as one more row would be,
p_T = (1 - 1/(n + 1)) softmax(V / T) + 1/((n + 1) K). On L = ln p_T follows softmax(L + M L + b), with M and b held near
0 by a penalty that weakens as rows come in: K/n on intercepts and diagonal, K (K - 1)/n on the rest. n is the sum of
weights. With two classes L is (ln(1 - p_T), ln p_T).
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params
from calcli.methods.scaling import temperature
from calcli.numeric.links import softmax
from calcli.numeric.multinomial import Multinomial, linear, with_constant
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    beta = temperature.fit(batch, sides, {}, seed).number("inverse_temperature")
    counted = batch.weights > 0
    batch = batch.take(counted)
    rows, classes = float(batch.weights.sum()), batch.classes
    x = _log_probabilities(batch, beta, rows)
    unchanged = np.eye(classes, classes + 1)
    penalty = np.full(unchanged.shape, classes * (classes - 1) / rows)
    penalty[unchanged > 0] = classes / rows
    penalty[:, -1] = classes / rows
    free = np.ones(unchanged.shape, dtype=np.bool_)
    problem = Multinomial(with_constant(x), batch.labels, batch.weights, free, penalty, unchanged)
    return State({"inverse_temperature": beta, "rows": rows}, {"coefficients": problem.minimise(unchanged)})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    x = _log_probabilities(batch, state.number("inverse_temperature"), state.number("rows"))
    prob = softmax(linear(x, state.array("coefficients")))
    return prob[:, 1] if batch.classes == 2 else prob


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    beta = state.number("inverse_temperature")
    scaled = [terms.Number(0.0), beta * score[0]] if len(score) == 1 else [beta * one for one in score]
    share = 1.0 / (state.number("rows") + 1.0)
    logs = [terms.ln((1.0 - share) * p + share / len(scaled)) for p in terms.softmax(scaled)]
    prob = terms.softmax(terms.affine(state.array("coefficients"), logs))
    return prob[1:] if len(score) == 1 else prob


def _log_probabilities(batch: Batch, beta: float, rows: float) -> FloatArray:
    """The logarithms of p_T, a column for each class."""
    z = batch.score * beta
    if z.ndim == 1:
        z = np.column_stack([np.zeros(len(z)), z])
    share = 1.0 / (rows + 1.0)
    result: FloatArray = np.log((1.0 - share) * softmax(z) + share / z.shape[1])
    return result
