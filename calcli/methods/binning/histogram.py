"""Histogram binning: the label rate of the bin that the probability falls into (Zadrozny & Elkan 2001).

Bins are right-closed. An empty bin gives its middle. Rates are held within what the rows of their bin support
(`calcli.numeric.support`), unless outputs shall be exact.
"""

from __future__ import annotations

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, number
from calcli.numeric import bins
from calcli.numeric.links import sigmoid
from calcli.numeric.support import average, supported
from calcli.state import SUPPORTED, State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    prob = sigmoid(batch.score)
    edges = _edges(prob, batch.weight, int(number(params, "bins")), str(params["binning"]))
    place = bins.assign(prob, edges)
    weight = batch.weights
    total = np.bincount(place, weight, minlength=len(edges) - 1).astype(np.float64)
    positive = np.bincount(place, weight * batch.labels, minlength=len(edges) - 1)
    middle = (edges[:-1] + edges[1:]) / 2
    rate = np.divide(positive, total, out=middle, where=total > 0)
    held = supported(rate, total, average(float(positive.sum()), float(total.sum())))
    return State(arrays={"edges": edges, "rate": rate, SUPPORTED: np.where(total > 0, held, rate)})


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    edges, rate = state.array("edges"), state.supported("rate")
    return rate[bins.assign(sigmoid(batch.score), edges)]


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    inner = state.array("edges")[1:-1]
    return (terms.steps(terms.sigmoid(score[0]), inner, state.supported("rate"), "left"),)


def _edges(prob: FloatArray, weight: FloatArray | None, count: int, binning: str) -> FloatArray:
    """Edges from 0 to 1 without repetition; many equal scores make edges of equal mass coincide."""
    edges = bins.width_edges(count) if binning == "width" else bins.mass_edges(prob, count, weight)
    return bins.edges_just_above(np.unique(np.concatenate([[0.0], edges[1:-1], [1.0]])))
