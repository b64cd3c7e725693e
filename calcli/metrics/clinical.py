"""Calibration errors of a smoothed curve, as medicine reports them: ICI, E50, E90 (Austin & Steyerberg 2019).

The label is smoothed over the prediction by lowess (Cleveland 1979), as `val.prob` of the R package rms has it:
`lowess(p, y, iter = 0)`. At each prediction a line is fitted to the nearest two thirds of the rows, weighted by the
tricube (1 - (d/h)^3)^3 of their distance d, h being the greatest; its value there is the smoothed rate. The errors are
the distances between predictions and smoothed rates: their mean, median and 90 % quantile.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Options
from calcli.metrics.forms import ProblemMetric, of_ties
from calcli.metrics.tied import TiedScores
from calcli.numeric.bins import pooled_edges
from calcli.numeric.lowess import CELLS

_CURVE = f"lowess over the nearest two thirds of the rows, no robustness steps, in at most {CELLS} cells of equal mass"


def _error(reduce: Callable[[FloatArray, TiedScores], float], doc: str) -> ProblemMetric:
    def value(ties: TiedScores, options: Options) -> float:
        ties = ties.with_positive_weight
        return reduce(np.abs(ties.prob - ties.smoothed), ties)

    value.__doc__ = doc
    return of_ties("top", Definition("lower", approximation=_CURVE))(value)


def _quantile(error: FloatArray, ties: TiedScores, place: int) -> float:
    """The quantile of the errors at so many tenths."""
    order = np.argsort(error, kind="stable")
    edges = pooled_edges(error[order], ties.rows[order], ties.weight[order], 10, snap=1e-12)
    return float(edges[place])


ici = _error(
    lambda error, ties: float((ties.weight * error).sum()) / ties.total,
    "Integrated calibration index: the mean distance between the prediction and the smoothed rate.",
)
e50 = _error(
    lambda error, ties: _quantile(error, ties, 5),
    "The median distance between the prediction and the smoothed rate.",
)
e90 = _error(
    lambda error, ties: _quantile(error, ties, 9),
    "The distance between the prediction and the smoothed rate that 90 % of the rows stay below.",
)
