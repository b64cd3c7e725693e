"""Vector scaling: softmax(w * V + b), a slope and an intercept for each class (Guo et al. 2017).

Logits are centred row by row, and the intercepts regularised (the part of ODIR that is left; Kull et al. 2019). With
two classes it is Platt scaling.
"""

from __future__ import annotations

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params
from calcli.methods.scaling import matrix, platt
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if batch.classes == 2:
        return platt.fit(batch, sides, {}, seed)
    return matrix.fit_centred(batch, params, seed, diagonal=True)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return matrix.predict(state, batch, sides)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return matrix.formula(state, score, features)
