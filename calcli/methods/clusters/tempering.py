"""How far rows belong to several clusters, and how far clusters are shrunk: chosen on rows that were held out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.learners.points import NearestCentroids
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.clusters.partition import Partition, shares
from calcli.numeric.losses import log_loss
from calcli.numeric.score_folds import folds_by_score

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
TAUS = (math.inf, 100.0, 30.0, 10.0, 3.0, 0.0)
FOLDS = 5

_SAME = 1e-9
"""Losses that differ by less than this share of them are the same; the stronger shrinkage is then taken."""


@dataclass(frozen=True, slots=True)
class Tempered:
    """What was chosen, and what it says of rows that it was not fitted on.

    Attributes
    ----------
    temperature, tau
        See `calcli.methods.clusters.partition` and `mixture`.
    prob
        Of the calibration rows, each predicted from the folds that it is not in.
    everyone
        The same by the global calibrator alone.
    """

    temperature: float
    tau: float
    prob: FloatArray
    everyone: FloatArray


def temper(
    batch: Batch,
    partition: Partition,
    near: NearestCentroids,
    inner: Inner,
    temperatures: Sequence[float],
    taus: Sequence[float],
    seed: int,
) -> Tempered:
    """The temperature and the tau of least log-loss, by cross-validation.

    Clusters are not formed anew for each fold: they know nothing of the labels.
    """
    folds = _Folds(batch, partition, near, inner, seed)
    losses: dict[tuple[float, float], float] = {}
    for temperature in temperatures:
        for tau, prob in zip(taus, folds.predict(temperature, taus), strict=True):
            loss = float(np.average(log_loss(prob, batch.labels), weights=batch.weights))
            losses.setdefault((math.inf, 0.0) if math.isinf(tau) else (tau, temperature), loss)
    least = min(losses.values())
    close = [pair for pair, loss in losses.items() if loss <= least * (1.0 + _SAME)]
    tau, temperature = max(close)
    prob, everyone = folds.predict(temperature, (tau, math.inf))
    return Tempered(temperature, tau, prob, everyone)


class _Folds:
    """Rows by fold. Rows that agree in score and place share one."""

    def __init__(self, batch: Batch, partition: Partition, near: NearestCentroids, inner: Inner, seed: int) -> None:
        self.batch = Batch(batch.score, batch.label, batch.weight)
        self.partition, self.near, self.inner = partition, near, inner
        place = np.column_stack([batch.score, near.place, near.distance])
        self.fold = folds_by_score(place, batch.labels, FOLDS, seed, "ccl folds")

    def predict(self, temperature: float, taus: Sequence[float]) -> list[FloatArray]:
        """For each tau, what is said of the rows of each fold by a fit on the others."""
        belongs = shares(self.near, temperature, self.partition.spread)
        if self.fold.max() == 0:  # no rows can be held out
            everyone = self.inner.fit(self.batch).predict(self.batch)
            return [everyone for _ in taus]
        found = [np.empty(self.batch.score.shape) for _ in taus]
        for index in range(FOLDS):
            test = self.fold == index
            if not test.any():
                continue
            mixture = Mixture.fit(self.inner, self.batch.take(~test), belongs[~test], len(self.partition))
            for whole, part in zip(
                found, mixture.predict_each(self.batch.take(test), belongs[test], taus), strict=True
            ):
                whole[test] = part
        return found
