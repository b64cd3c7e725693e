"""Scaling-binning: Platt scaling, then equal-mass bins of the result, each giving its mean (Kumar, Liang & Ma 2019).

The mean of a bin is that of the scaled probabilities, not of the labels: its variance does not grow with the number of
bins, and since the output takes few values its calibration error can be measured, which that of Platt scaling cannot.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums, number
from calcli.methods.scaling import platt
from calcli.numeric.pooled import Running, by_score
from calcli.state import State, nest, unnest


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    scaling = platt.fit(batch, sides, {}, seed)
    scaled = platt.predict(scaling, batch, sides)
    pooled = by_score(scaled, batch.labels, batch.weight)
    cuts = Running.of(pooled).mass_cuts(int(number(params, "bins")))
    place = np.searchsorted(cuts, pooled.score, side="left")
    mean = np.bincount(place, pooled.weight * pooled.score) / np.bincount(place, pooled.weight)
    return nest({"platt": scaling, "bins": State(arrays={"cuts": cuts, "mean": mean})})


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})


def finish(sums: Sums, params: Params) -> State:
    return fit(sums.scores["all"].batch(), NO_SIDE_INPUTS, params, 0)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    parts = unnest(state, ["platt", "bins"])
    scaled = platt.predict(parts["platt"], batch, sides)
    cuts, mean = parts["bins"].array("cuts"), parts["bins"].array("mean")
    return mean[np.searchsorted(cuts, scaled, side="left")]


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    parts = unnest(state, ["platt", "bins"])
    (scaled,) = platt.formula(parts["platt"], score, features)
    return (terms.steps(scaled, parts["bins"].array("cuts"), parts["bins"].array("mean"), "left"),)
