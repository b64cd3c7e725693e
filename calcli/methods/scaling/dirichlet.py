"""Dirichlet calibration: softmax(W ln P + b) with ODIR regularisation (Kull et al. 2019).

It is what is right where the probabilities of each class's rows are Dirichlet distributed. Log-probabilities are drawn
in below 1e-12, as all scores are. With two classes it is beta calibration.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params
from calcli.methods.scaling import beta, odir
from calcli.numeric import link_terms
from calcli.numeric.links import drawn_in, log_softmax, softmax
from calcli.numeric.multinomial import linear
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if batch.classes == 2:
        return beta.fit(batch, sides, {}, seed)
    W, b = odir.fit(_log_probabilities(batch), batch, params, seed, diagonal=False)
    return State(arrays={"coefficients": np.column_stack([W, b])})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    if batch.classes == 2:
        return beta.predict(state, batch, sides)
    return softmax(linear(_log_probabilities(batch), state.array("coefficients")))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    if len(score) == 1:
        return beta.formula(state, score, features)
    logs = [link_terms.drawn_in(one) for one in terms.log_softmax(score)]
    return terms.softmax(terms.affine(state.array("coefficients"), logs))


def _log_probabilities(batch: Batch) -> FloatArray:
    return drawn_in(log_softmax(batch.score))
