"""Metrics that need more than scores: the clusters of rows, or the edges between them.

CECE, the clustered calibration error (CCL paper, section 2.4), has clusters of rows as bins. It does not decide which:
it gets the cluster of each row with the rows, and its definition says where the clusters came from. Numbers over other
clusters do not compare. Total variation tells how much confidence differs between linked rows (Wang et al. 2023, RECAL
4.7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import FloatArray, IntArray, spans
from calcli.metrics.base import Clusters, Definition, Measured, Options, Scored
from calcli.metrics.forms import Additive, Metric
from calcli.numeric.bins import totals
from calcli.state import added

NO_CLUSTERS = "there are no clusters: they come from a CCL artifact, a column (--clusters-from), or features"


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """Sums over the rows of each cluster. Sums over parts of the rows add up to those over all."""

    clusters: Clusters | None
    """Which they are, without the rows; None where there are none."""

    weight: FloatArray
    """The sums of w, shape (k,)."""

    error: FloatArray
    noise: FloatArray
    """`error`, `noise`: of w (p - y) and of w^2 p (1 - p), shape (k, m): of the positive class, or of each class where
    there are more.
    """

    __add__ = added

    @classmethod
    def of(cls, scored: Scored) -> ClusterSums:
        clusters = scored.clusters
        problems = (1,) if scored.binary else range(scored.classes)
        if clusters is None:
            none = np.zeros((0, len(problems)))
            return cls(None, np.zeros(0), none, none)
        weight = scored.weights
        parts = [scored.one_vs_rest(index) for index in problems]

        def added(values: FloatArray) -> FloatArray:
            return totals(clusters.cluster_of, values, clusters.count)

        error = [added(weight * (part.prob - part.label)) for part in parts]
        noise = [added(np.square(weight) * part.prob * (1.0 - part.prob)) for part in parts]
        return cls(clusters.take(slice(0)), added(weight), np.stack(error, axis=1), np.stack(noise, axis=1))

    @property
    def with_positive_weight(self) -> ClusterSums:
        """The clusters that hold any weight."""
        some = self.weight > 0
        return ClusterSums(self.clusters, self.weight[some], self.error[some], self.noise[some])

    @property
    def shares(self) -> FloatArray:
        """The share of the weight that each cluster holds, shape (k, 1)."""
        shares: FloatArray = self.weight / self.weight.sum()
        return shares[:, None]

    @property
    def gaps(self) -> FloatArray:
        """|mean p - mean y| of each cluster."""
        return np.abs(self.error) / self.weight[:, None]

    @property
    def variances(self) -> FloatArray:
        """The variance of mean p - mean y, if the score were calibrated: sum w^2 p (1 - p) / (sum w)^2."""
        return self.noise / np.square(self.weight)[:, None]


class ClusterGap(Metric):
    """A metric of the gaps of clusters.

    `value` and `floor` take the clusters that hold rows to a number for each class; there is no `floor` where it has no
    closed form. `norm` and `note` are what the definition states.
    """

    def __init__(
        self,
        norm: float | None,
        value: Callable[[ClusterSums], FloatArray],
        floor: Callable[[ClusterSums], FloatArray] | None = None,
        note: str | None = None,
    ) -> None:
        self._norm, self._value, self._floor, self._note = norm, value, floor, note

    def __call__(self, scored: Scored, options: Options) -> Measured:
        return self._measured(ClusterSums.of(scored), scored.undefined_reason)

    def sums(self, options: Options) -> Additive[ClusterSums]:
        return self

    def gather(self, scored: Scored, options: Options) -> ClusterSums:
        return ClusterSums.of(scored)

    def finish(self, scores: Sequence[ClusterSums], options: Options) -> list[Measured]:
        return [self._measured(sums, None) for sums in scores]

    def number(self, sums: ClusterSums) -> float | None:
        """The mean over classes; None without rows."""
        filled = sums.with_positive_weight
        return float(self._value(filled).mean()) if len(filled.weight) else None

    def _measured(self, sums: ClusterSums, undefined: str | None) -> Measured:
        clusters, filled, binary = sums.clusters, sums.with_positive_weight, sums.error.shape[1] == 1
        definition = Definition(
            "lower",
            binning="clusters",
            reduction="positive class" if binary else "macro one-vs-rest",
            norm=self._norm,
            clusters=None if clusters is None else clusters.facts,
            approximation=self._note,
        )
        if clusters is None or undefined is not None:
            return Measured(None, definition, reason=undefined or NO_CLUSTERS)
        values = self._value(filled)
        floor = None if self._floor is None else float(self._floor(filled).mean())
        per_class = None if binary else tuple(map(float, values))
        return Measured(float(values.mean()), definition, floor=floor, per_class=per_class)


def _mean(sums: ClusterSums, gaps: FloatArray) -> FloatArray:
    return np.asarray((sums.shares * gaps).sum(axis=0), dtype=np.float64)


cece = ClusterGap(
    1.0,
    lambda sums: _mean(sums, sums.gaps),
    lambda sums: _mean(sums, np.sqrt(2.0 / math.pi * sums.variances)),  # a cluster's gap is then close to normal
)
"""Clustered ECE: the mean over clusters of |mean p - mean y|, each counting by its weight.

Of the positive class; of more than two classes the mean over all, each against the rest.
"""

cece_ada = ClusterGap(
    2.0,
    lambda sums: np.sqrt(_mean(sums, np.square(sums.gaps))),
    lambda sums: np.sqrt(_mean(sums, sums.variances)),
)
"""Clustered AdaECE: the root of the weighted mean of squared gaps over clusters; CECE in the paper's tables."""

cece_mce = ClusterGap(
    None,
    lambda sums: np.asarray(sums.gaps.max(axis=0), dtype=np.float64),
    note="the largest gap of any cluster that holds rows",
)
"""Clustered MCE: the largest gap of any cluster."""


class TotalVariation(Metric):
    """Total variation: the sum over edges, each once, of the difference between the confidences of its ends.

    The confidence of a row is the probability of its predicted class, of two classes too. All edges count alike, but
    for those of a row of weight 0, which are not there.
    """

    def __call__(self, scored: Scored, options: Options) -> Measured:
        definition = Definition("lower", reduction="top label")
        if scored.undefined_reason is not None or scored.edges is None:
            return Measured(None, definition, reason=scored.undefined_reason or "no edges are given")
        confidence = np.maximum(scored.prob, 1.0 - scored.prob) if scored.binary else scored.prob.max(axis=1)
        there = np.ones(len(scored), dtype=np.bool_) if scored.weight is None else scored.weight > 0
        if scored.edges.ndim == 1:
            return _among_groups(scored.edges[there], confidence[there], definition)
        edges = scored.edges if scored.weight is None else scored.edges[there[scored.edges].all(axis=1)]
        if not len(edges):
            return Measured(None, definition, reason="no edge links two of these rows")
        one, other = edges.T
        parts = (float(np.abs(confidence[one[some]] - confidence[other[some]]).sum()) for some in spans(len(one)))
        return Measured(math.fsum(parts), definition)


def _among_groups(group: IntArray, confidence: FloatArray, definition: Definition) -> Measured:
    """Total variation where all rows of a group are linked.

    The i-th of n rows in rising order is the greater end of i - 1 edges, and the smaller end of n - i.
    """
    order = np.lexsort((confidence, group))
    size = np.bincount(group)
    if size.max(initial=0) < 2:
        return Measured(None, definition, reason="no edge links two of these rows")
    below = np.arange(len(group)) - (np.cumsum(size) - size)[group[order]]
    above = size[group[order]] - 1 - below
    return Measured(math.fsum((below - above) * confidence[order]), definition)


tv = TotalVariation()
