"""The metrics of medicine: calibration errors of a smoothed curve (Austin & Steyerberg 2019), and net benefit.

The label is smoothed over the prediction by lowess (Cleveland 1979), as `val.prob` of the R package rms has it:
`lowess(p, y, iter = 0)`. At each prediction a line is fitted to the nearest two thirds of the rows, weighted by the
tricube (1 - (d/h)^3)^3 of their distance d, h being the greatest; its value there is the smoothed rate. The errors are
the distances between predictions and smoothed rates: their mean, median and 90 % quantile.

Net benefit (Vickers & Elkin 2006) is what decisions by a threshold t are worth, in true positives a row, where a false
positive costs t/(1 - t) of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from calcli.batch import FloatArray, LabelArray
from calcli.metrics.base import Definition, Options, Scored
from calcli.metrics.forms import ProblemMetric, RowMean, of_ties
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


def benefits(label: LabelArray, prob: FloatArray, threshold: float | FloatArray) -> FloatArray:
    """The worth of the decision on each row: 1 for a true positive, -t/(1 - t) for a false one, 0 for no."""
    return np.where(prob >= threshold, np.where(label == 1, 1.0, -threshold / (1.0 - threshold)), 0.0)


class NetBenefit(RowMean):
    """Net benefit at a threshold: the mean of y - (1 - y) t/(1 - t) over all rows, 0 of those below the threshold.

    Of more than two classes it is that of relying on the predicted class where its probability reaches the threshold.
    """

    def __init__(self, threshold: float) -> None:
        def worth(scored: Scored) -> FloatArray:
            rows = scored.top
            return benefits(rows.label, rows.prob, threshold)

        definition = Definition(
            "higher", reduction="positive class", approximation=f"rows with at least {threshold:g} get yes"
        )
        super().__init__(worth, (definition, replace(definition, reduction="top label")))
        self.__doc__ = NetBenefit.__doc__

    @staticmethod
    @cache
    def at(threshold: float) -> NetBenefit:
        """The metric at that threshold."""
        return NetBenefit(threshold)


net_benefit = NetBenefit.at(0.5)
