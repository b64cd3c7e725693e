"""No calibration: the probabilities of the model."""

from __future__ import annotations

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums
from calcli.numeric.links import probabilities
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    return finish(gather(batch, params), params)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums()


def finish(sums: Sums, params: Params) -> State:
    return State()


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return probabilities(batch.score)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return (terms.sigmoid(score[0]),) if len(score) == 1 else terms.softmax(score)
