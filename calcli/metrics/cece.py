"""CECE, the clustered calibration error (CCL paper, section 2.4): clusters of rows are the bins.

Which clusters they are is not for the metric to decide: it gets the cluster of each row with the rows, and its
definition says where they came from. Numbers over other clusters do not compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Clusters, Definition, Measured, Options, Scored
from calcli.numeric.totals import totals

NO_CLUSTERS = "the rows have no clusters: evaluate takes them from a CCL artifact, --clusters-from, or features"


@dataclass(frozen=True, slots=True)
class ClusterSums:
    """What the rows of each cluster add up to. Sums over parts of the rows add up to those over all.

    Attributes
    ----------
    weight
        Of w, shape (k,).
    error, noise
        Of w (p - y) and of w^2 p (1 - p), shape (k, m): of the positive class, or of each class where there are more.
    """

    weight: FloatArray
    error: FloatArray
    noise: FloatArray

    def __add__(self, other: ClusterSums) -> ClusterSums:
        return ClusterSums(self.weight + other.weight, self.error + other.error, self.noise + other.noise)

    @classmethod
    def of(cls, scored: Scored, clusters: Clusters) -> ClusterSums:
        weight = np.ones(len(scored)) if scored.weight is None else scored.weight
        problems = (1,) if scored.binary else range(scored.classes)

        def added(values: FloatArray) -> FloatArray:
            return totals(clusters.place, values, clusters.count)

        parts = [scored.one_vs_rest(index) for index in problems]
        error = [added(weight * (part.prob - part.label)) for part in parts]
        noise = [added(np.square(weight) * part.prob * (1.0 - part.prob)) for part in parts]
        return cls(added(weight), np.stack(error, axis=1), np.stack(noise, axis=1))

    @property
    def held(self) -> ClusterSums:
        """The clusters that hold any weight."""
        some = self.weight > 0
        return ClusterSums(self.weight[some], self.error[some], self.noise[some])

    @property
    def shares(self) -> FloatArray:
        """The share of the weight that each cluster holds, shape (k, 1)."""
        shares: FloatArray = self.weight / self.weight.sum()
        return shares[:, None]

    @property
    def gaps(self) -> FloatArray:
        """|mean p - mean y| of each cluster."""
        gaps: FloatArray = np.abs(self.error) / self.weight[:, None]
        return gaps

    @property
    def variances(self) -> FloatArray:
        """Of mean p - mean y, if the score were calibrated: sum w^2 p (1 - p) / (sum w)^2."""
        variances: FloatArray = self.noise / np.square(self.weight)[:, None]
        return variances


Form = Callable[[ClusterSums], FloatArray]
"""From the clusters that hold rows to a number for each class."""


def cece(scored: Scored, options: Options) -> Measured:
    """Clustered ECE: the mean over clusters of |mean p - mean y|, each counting by its weight.

    Of the positive class; of more than two classes the mean over all, each against the rest. The floor is the mean of
    what a calibrated score would show: a cluster's gap is then close to normal, |gap| to sqrt(2 v / pi).
    """
    return _measured(scored, _mean_gap, 1.0, lambda sums: np.sqrt(2.0 / math.pi * sums.variances))


def cece_ada(scored: Scored, options: Options) -> Measured:
    """Clustered AdaECE: the root of the weighted mean of squared gaps over clusters; CECE in the paper's tables."""
    return _measured(scored, _root_mean_square_gap, 2.0, lambda sums: sums.variances)


def cece_mce(scored: Scored, options: Options) -> Measured:
    """Clustered MCE: the largest gap of any cluster."""
    return _measured(scored, _largest_gap, None, None)


def cece_of(sums: ClusterSums) -> float | None:
    return _over_classes(sums, _mean_gap)


def cece_ada_of(sums: ClusterSums) -> float | None:
    return _over_classes(sums, _root_mean_square_gap)


def cece_mce_of(sums: ClusterSums) -> float | None:
    return _over_classes(sums, _largest_gap)


def _mean_gap(sums: ClusterSums) -> FloatArray:
    return np.asarray((sums.shares * sums.gaps).sum(axis=0), dtype=np.float64)


def _root_mean_square_gap(sums: ClusterSums) -> FloatArray:
    return np.asarray(np.sqrt((sums.shares * np.square(sums.gaps)).sum(axis=0)), dtype=np.float64)


def _largest_gap(sums: ClusterSums) -> FloatArray:
    return np.asarray(sums.gaps.max(axis=0), dtype=np.float64)


def _over_classes(sums: ClusterSums, form: Form) -> float | None:
    held = sums.held
    return float(form(held).mean()) if len(held.weight) else None


def _measured(
    scored: Scored, form: Form, norm: float | None, if_calibrated: Callable[[ClusterSums], FloatArray] | None
) -> Measured:
    clusters = scored.clusters
    definition = Definition(
        "lower",
        binning="clusters",
        reduction="positive class" if scored.binary else "macro one-vs-rest",
        norm=norm,
        clusters=None if clusters is None else clusters.facts,
        approximation="the largest gap of any cluster that holds rows" if norm is None else None,
    )
    if clusters is None or scored.nothing:
        return Measured(None, definition, reason=scored.nothing or NO_CLUSTERS)
    sums = ClusterSums.of(scored, clusters).held
    values = form(sums)
    floor = None
    if if_calibrated is not None:
        mean = (sums.shares * if_calibrated(sums)).sum(axis=0)
        floor = float((mean if norm == 1.0 else np.sqrt(mean)).mean())
    per_class = None if scored.binary else tuple(map(float, values))
    return Measured(float(values.mean()), replace(definition, bins=len(sums.weight)), floor=floor, per_class=per_class)
