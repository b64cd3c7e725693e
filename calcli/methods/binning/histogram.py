"""Histogram binning: the label rate of the bin that the probability falls into (Zadrozny & Elkan 2001).

Bins are right-closed. An empty bin gives its middle. Rates are held within what the rows of their bin support
(`calcli.numeric.pooled`), unless outputs shall be exact.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods.base import Params, Sums, number
from calcli.numeric import bins
from calcli.numeric.links import sigmoid
from calcli.numeric.pooled import average, by_score, supported
from calcli.state import SUPPORTED, State


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    prob, weight = sigmoid(batch.score), batch.weights
    edges = _edges(params, lambda count: bins.mass_edges(prob, count, batch.weight))
    return _rates(edges, prob, weight, weight * batch.labels)


def gather(batch: Batch, params: Params) -> Sums:
    return Sums(scores={"all": by_score(batch.score, batch.labels, batch.weight)})


def finish(sums: Sums, params: Params) -> State:
    pooled = sums.scores["all"]
    prob = sigmoid(pooled.score)
    edges = _edges(params, lambda count: bins.pooled_edges(prob, pooled.rows, pooled.weight, count))
    return _rates(edges, prob, pooled.weight, pooled.positive)


def _rates(edges: FloatArray, prob: FloatArray, weight: FloatArray, weight_positive: FloatArray) -> State:
    place = bins.assign(prob, edges)
    total = np.bincount(place, weight, minlength=len(edges) - 1).astype(np.float64)
    positive = np.bincount(place, weight_positive, minlength=len(edges) - 1)
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


def _edges(params: Params, mass_edges: Callable[[int], FloatArray]) -> FloatArray:
    """Edges from 0 to 1 without repetition; many equal scores make edges of equal mass coincide."""
    count = int(number(params, "bins"))
    edges = bins.width_edges(count) if params["binning"] == "width" else mass_edges(count)
    return bins.edges_just_above(np.unique(np.concatenate([[0.0], edges[1:-1], [1.0]])))
