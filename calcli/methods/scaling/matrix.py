"""Matrix scaling: softmax(W V + b) on logits V (Guo et al. 2017), with ODIR regularisation (Kull et al. 2019).

Logits are centred row by row: a constant added to all of them changes no probability and may change no calibration.
For the fit they are divided by their root mean square, so that the regularisation means the same for logits of any
size. With two classes it is Platt scaling.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params
from calcli.methods.scaling import odir, platt
from calcli.numeric.links import softmax
from calcli.numeric.multinomial import linear
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    if batch.classes == 2:
        return platt.fit(batch, sides, {}, seed)
    return fit_centred(batch, params, seed, diagonal=False)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    if batch.classes == 2:
        return platt.predict(state, batch, sides)
    return softmax(linear(centred(batch.score), state.array("coefficients")))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    if len(score) == 1:
        return platt.formula(state, score, features)
    mean = terms.total(score) / len(score)
    return terms.softmax(terms.affine(state.array("coefficients"), [one - mean for one in score]))


def centred(score: FloatArray) -> FloatArray:
    """Logits whose mean over the classes is 0."""
    result: FloatArray = score - score.mean(axis=1, keepdims=True)
    return result


def fit_centred(batch: Batch, params: Params, seed: int, *, diagonal: bool) -> State:
    """The coefficients [W, b] for centred logits."""
    x = centred(batch.score)
    size = float(np.sqrt(batch.weights @ (x * x).mean(axis=1) / batch.weights.sum()))
    size = size if size > 1e-9 else 1.0
    W, b = odir.fit(x / size, batch, params, seed, diagonal=diagonal)
    return State(arrays={"coefficients": np.column_stack([W / size, b])})
