"""Histogram binning: the label rate of the bin that the probability falls into (Zadrozny & Elkan 2001).

Bins are right-closed. A bin that no calibration row fell into gives its middle.
"""

from __future__ import annotations

import numpy as np

from calcli.batch import Batch, FloatArray, Sides
from calcli.methods.base import Params, number
from calcli.numeric import bins
from calcli.numeric.links import sigmoid
from calcli.state import State


def fit(batch: Batch, sides: Sides, params: Params, seed: int) -> State:
    prob = sigmoid(batch.score)
    count = int(number(params, "bins"))
    edges = bins.width_edges(count) if params["binning"] == "width" else bins.mass_edges(prob, count, batch.weight)
    place = bins.assign(prob, edges)
    weight = batch.weights
    total = np.bincount(place, weight, minlength=len(edges) - 1)
    positive = np.bincount(place, weight * batch.labels, minlength=len(edges) - 1)
    middle = (edges[:-1] + edges[1:]) / 2
    rate = np.divide(positive, total, out=middle, where=total > 0)
    return State(arrays={"edges": edges, "rate": rate})


def predict(state: State, batch: Batch, sides: Sides) -> FloatArray:
    edges, rate = state.array("edges"), state.array("rate")
    return rate[bins.assign(sigmoid(batch.score), edges)]
