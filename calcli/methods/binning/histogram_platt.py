"""Platt scaling inside each equal-mass bin of the score.

A bin whose rows cannot carry a fit of their own takes the global one: when either class has less than `rows` of weight
in it, or when its slope has another sign than the global one.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums, number
from calcli.methods.scaling import platt
from calcli.numeric.links import sigmoid
from calcli.numeric.pooled import Running, by_score
from calcli.state import State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    pooled = by_score(batch.score, batch.labels, batch.weight)
    cuts = Running.of(pooled).mass_cuts(int(number(params, "bins")))
    place = np.searchsorted(cuts, batch.score, side="left")
    least = number(params, "rows")
    everyone = platt.fit(batch, sides, {}, seed)
    fits = []
    for index in range(len(cuts) + 1):
        part = batch.take(place == index)
        positive = float(part.weights @ part.labels)
        own = everyone
        if min(positive, float(part.weights.sum()) - positive) >= least:
            own = platt.fit(part, sides, {}, seed)
        fits.append(own if own.number("a") * everyone.number("a") > 0 else everyone)
    coefficients = {name: np.array([own.number(name) for own in fits]) for name in ("a", "b")}
    return State(arrays={"cuts": cuts, **coefficients})


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})


def finish(sums: Sums, params: Params) -> State:
    return fit(sums.scores["all"].batch(), NO_SIDE_INPUTS, params, 0)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    place = np.searchsorted(state.array("cuts"), batch.score, side="left")
    return sigmoid(state.array("a")[place] * batch.score + state.array("b")[place])


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    z, slopes, intercepts = score[0], state.array("a"), state.array("b")
    lines = [float(a) * z + float(b) for a, b in zip(slopes, intercepts, strict=True)]
    return (terms.sigmoid(terms.steps(z, state.array("cuts"), lines, "left")),)
