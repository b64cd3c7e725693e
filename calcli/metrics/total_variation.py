"""How much confidence differs between rows that are linked (Wang et al. 2023, RECAL 4.7)."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import spans
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.forms import Metric


class TotalVariation(Metric):
    """Total variation: the sum over edges, each once, of the difference between the confidences of its ends.

    The confidence of a row is the probability of its predicted class, of two classes too. All edges count alike, but
    for those of a row of weight 0, which are not there.
    """

    def __call__(self, scored: Scored, options: Options) -> Measured:
        definition = Definition("lower", reduction="top label")
        if scored.nothing is not None or scored.edges is None:
            return Measured(None, definition, reason=scored.nothing or "no edges are given")
        edges = scored.edges if scored.weight is None else scored.edges[(scored.weight[scored.edges] > 0).all(axis=1)]
        if not len(edges):
            return Measured(None, definition, reason="no edge links two of these rows")
        confidence = np.maximum(scored.prob, 1.0 - scored.prob) if scored.binary else scored.prob.max(axis=1)
        one, other = edges.T
        parts = (float(np.abs(confidence[one[some]] - confidence[other[some]]).sum()) for some in spans(len(one)))
        return Measured(math.fsum(parts), definition)


tv = TotalVariation()
