"""Cross-validation of the temperature, by which rows belong to several clusters, and of tau, the shrinkage."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.learners.points import NearestCentroids
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.clusters.partition import Partition, Shares, shares
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, splits_by_score, tested

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
TAUS = (math.inf, 100.0, 30.0, 10.0, 3.0, 0.0)
FOLDS = 5

_SAME = 1e-9
"""Relative differences of the loss up to this count as ties; the stronger shrinkage wins them."""


@dataclass(frozen=True, slots=True)
class Tempered:
    """The choice, and out-of-fold predictions with it; `everyone` are those of the global calibrator alone.

    See `calcli.methods.clusters.partition` for the temperature and `calcli.methods.shrinkage` for tau.
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

    Clusters do not depend on the labels, so they are not formed anew for each fold.
    """
    # Rows with the same score and clusters share a fold.
    beside = [*near.place.T.astype(np.float64), *near.distance.T]
    splits = splits_by_score(batch.score, batch.labels, FOLDS, seed, "ccl folds", beside, batch.units)
    judged = tested(splits, len(batch)) if splits else np.ones(len(batch), dtype=np.bool_)
    if not judged.all():  # nothing is before the first rows: they are predicted from the others, and not judged by
        splits.append(Split(judged, ~judged))

    def predict(temperature: float, taus: Sequence[float]) -> list[FloatArray]:
        return _held_out(inner, batch.bare, shares(near, temperature, partition.spread), len(partition), splits, taus)

    # The loss of each pair; at tau = inf the temperature does not matter.
    losses: dict[tuple[float, float], float] = {}
    for temperature in temperatures:
        for tau, prob in zip(taus, predict(temperature, taus), strict=True):
            loss = float(np.average(log_loss(prob, batch.labels)[judged], weights=batch.weights[judged]))
            losses.setdefault((math.inf, 0.0) if math.isinf(tau) else (tau, temperature), loss)
    # Of the best ones, the strongest shrinkage.
    least = min(losses.values())
    tau, temperature = max(pair for pair, loss in losses.items() if loss <= least * (1.0 + _SAME))
    prob, everyone = predict(temperature, (tau, math.inf))
    return Tempered(temperature, tau, prob, everyone)


def _held_out(
    inner: Inner, batch: Batch, belongs: Shares, clusters: int, splits: Sequence[Split], taus: Sequence[float]
) -> list[FloatArray]:
    """For each tau the out-of-fold predictions of all rows."""
    if not splits:  # all rows are in one fold: none can be held out
        everyone = inner.fit(batch).predict(batch)
        return [everyone for _ in taus]
    probs = [np.empty(batch.score.shape) for _ in taus]
    for train, test in splits:
        mixture = Mixture.fit(inner, batch.take(train), belongs[train], clusters)
        predicted = mixture.predict_each(batch.take(test), belongs[test], taus)
        for prob, of_fold in zip(probs, predicted, strict=True):
            prob[test] = of_fold
    return probs
