"""The calibrators of clusters: how each is fitted, and the mixture that predicts by a row's shares in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from calcli.batch import Batch, FloatArray, Group
from calcli.methods import calibrator
from calcli.methods.base import information, own_share
from calcli.methods.calibrator import FittedMethod
from calcli.methods.clusters.partition import Shares
from calcli.methods.spec import MethodSpec
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores
from calcli.state import State, nest, unnest

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

    def fit_clusters(self, batch: Batch, members: Sequence[Group]) -> tuple[Part, ...]:
        """The calibrator of each cluster, from its rows and their shares in it."""
        groups = [Group(rows, batch.weights[rows] * share) for rows, share in members]
        mass = np.array([totals(batch.labels[rows], weight, batch.classes) for rows, weight in groups])
        total = mass.sum(axis=1)
        rates = (mass + self.prior) / np.maximum(total + self.prior * batch.classes, np.finfo(np.float64).tiny)[:, None]
        parts: list[Part] = [None if whole == 0.0 else rate for whole, rate in zip(total, rates, strict=True)]
        enough = np.flatnonzero((np.count_nonzero(mass, axis=1) >= 2) & (total >= self.least) & (total > 0.0)).tolist()
        found = calibrator.fit_each(
            self.spec, batch, [groups[place] for place in enough], self.spec.resolve(), seed=self.seed
        )
        for place, fitted in zip(enough, found, strict=True):
            if fitted is not None:  # else one label has next to no weight
                parts[place] = replace(fitted, rows=max(1, round(float(members[place].weight.sum()))))
        return tuple(parts)


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
        members = list(shares.of_each(clusters))
        known = np.array([float(share @ of_rows[rows]) for rows, share in members])
        return cls(everyone, inner.fit_clusters(batch, members), known)

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
