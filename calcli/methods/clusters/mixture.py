"""A calibrator for each cluster, shrunk to the global one; rows are calibrated by a mixture of their clusters.

Calibrator c is fitted with every row weighted by its share u_c in the cluster. It is shrunk to the calibrator of all
rows (`calcli.methods.base`, rows weighted by u_c), and the mixture predicts sum u_c p_c. With tau = 0 clusters
stand alone, as in the paper. Cross-validation chooses tau, and the temperature by which rows belong to several
clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.errors import FitError
from calcli.learners.encoding import NearestCentroids
from calcli.methods import calibrator
from calcli.methods.base import information, own_share
from calcli.methods.calibrator import FittedMethod
from calcli.methods.clusters.partition import Partition, Shares, shares
from calcli.methods.spec import MethodSpec
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, splits_by_score, tested
from calcli.state import State, nest, unnest

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
TAUS = (math.inf, 100.0, 30.0, 10.0, 3.0, 0.0)

FOLDS = 5

_SAME = 1e-9
"""Relative differences of the loss up to this count as ties; the stronger shrinkage wins them."""


Part: TypeAlias = FittedMethod | FloatArray | None
"""A cluster's calibrator; the rate of each class if its rows do not suffice; None without rows."""


@dataclass(frozen=True, slots=True)
class Inner:
    """How the calibrators of clusters are fitted."""

    spec: MethodSpec
    seed: int
    """`spec`, `seed`: the method, at its defaults."""

    least: float
    """A cluster of less weight, or of a single label, gets its label rate instead of a calibrator; so does one on which
    the fit fails.
    """

    prior: float
    """Rows of each class that are added to such a rate."""

    def fit(self, batch: Batch) -> FittedMethod:
        """A calibrator of these rows."""
        return calibrator.fit(self.spec, batch, self.spec.resolve(), seed=self.seed)

    def fit_cluster(self, batch: Batch, share: FloatArray) -> Part:
        """The calibrator of a cluster, from its rows and their shares."""
        weight = batch.weights * share
        mass = totals(batch.labels, weight, batch.classes)
        total = float(mass.sum())
        if total == 0.0:
            return None
        rates: FloatArray = (mass + self.prior) / (total + self.prior * batch.classes)
        if np.count_nonzero(mass) < 2 or total < self.least:
            return rates
        try:
            fitted = self.fit(replace(batch.bare, weight=weight))
        except FitError:  # one label has next to no weight
            return rates
        return replace(fitted, rows=max(1, round(float(share.sum()))))


@dataclass(frozen=True, slots=True)
class Mixture:
    """The global calibrator, those of the clusters, and the information H in the rows of each."""

    everyone: FittedMethod
    parts: tuple[Part, ...]
    information: FloatArray

    @classmethod
    def fit(cls, inner: Inner, batch: Batch, shares: Shares, clusters: int) -> Mixture:
        everyone = inner.fit(batch)
        of_rows = information(everyone.predict(batch), batch.weights)
        of_each = list(shares.of_each(clusters))
        parts = tuple(inner.fit_cluster(batch.take(rows), share) for rows, share in of_each)
        return cls(everyone, parts, np.array([float(share @ of_rows[rows]) for rows, share in of_each]))

    def predict(self, batch: Batch, shares: Shares, tau: float) -> FloatArray:
        """Probabilities of rows with these shares in the clusters."""
        return self.predict_each(batch, shares, (tau,))[0]

    def predict_each(self, batch: Batch, shares: Shares, taus: Sequence[float]) -> list[FloatArray]:
        """Probabilities for several tau, at little more than the cost of one."""
        everyone = self.everyone.predict(batch)
        mixed = [everyone if math.isinf(tau) else np.zeros(everyone.shape) for tau in taus]
        finite = [(mixed[place], own_share(self.information, tau)) for place, tau in enumerate(taus) if tau < math.inf]
        if not finite:
            return mixed
        global_score = scores(everyone)
        for cluster, (rows, share) in enumerate(shares.of_each(len(self.parts))):
            if not len(rows):
                continue
            # What the cluster predicts of its rows is the same for all tau; only the shrinkage differs.
            part = self.parts[cluster]
            own = everyone[rows] if part is None else _predicted(part, batch.take(rows))
            own_score, shrunk_to = scores(own), global_score[rows]
            for total, own_shares in finite:
                kept = own_shares[cluster]
                prob = own if kept == 1.0 else probabilities(kept * own_score + (1.0 - kept) * shrunk_to)
                total[rows] += (share * prob.T).T
        return mixed

    def to_state(self) -> State:
        fitted = {
            str(place): part.to_state() for place, part in enumerate(self.parts) if isinstance(part, FittedMethod)
        }
        whole = nest({"everyone": self.everyone.to_state(), **fitted})
        rates = np.zeros((len(self.parts), self.everyone.classes))
        for place, part in enumerate(self.parts):
            if part is not None and not isinstance(part, FittedMethod):
                rates[place] = part
        return State(whole.params, {**whole.arrays, "rates": rates, "information": self.information}, whole.blobs)

    @classmethod
    def of_state(cls, state: State, method: str) -> Mixture:
        states = unnest(state, state.params)
        fitted = {name: FittedMethod.from_state(method, part) for name, part in states.items()}
        rates = [row if row.any() else None for row in state.array("rates")]
        parts = tuple(fitted.get(str(place), rate) for place, rate in enumerate(rates))
        return cls(fitted["everyone"], parts, state.array("information"))


def _predicted(part: FittedMethod | FloatArray, batch: Batch) -> FloatArray:
    if isinstance(part, FittedMethod):
        return part.predict(batch)
    return np.full(len(batch), part[1]) if batch.classes == 2 else np.repeat(part[None, :], len(batch), axis=0)


@dataclass(frozen=True, slots=True)
class Tempered:
    """The choice, and out-of-fold predictions with it and with the global calibrator alone (`everyone`).

    See `calcli.methods.clusters.partition` for the temperature and `calcli.methods.base` for tau.
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
    # The strongest shrinkage of the best pairs.
    least = min(losses.values())
    tau, temperature = max(pair for pair, loss in losses.items() if loss <= least * (1.0 + _SAME))
    prob, everyone = predict(temperature, (tau, math.inf))
    return Tempered(temperature, tau, prob, everyone)


def _held_out(
    inner: Inner, batch: Batch, belongs: Shares, clusters: int, splits: Sequence[Split], taus: Sequence[float]
) -> list[FloatArray]:
    """The out-of-fold predictions of all rows, for each tau."""
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
