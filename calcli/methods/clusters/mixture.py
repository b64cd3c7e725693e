"""A calibrator for each cluster, mixed by how much a row belongs to them and shrunk to one for all.

Calibrator c is fitted with every row weighted by its share u_c. On log-odds (of more than two classes:
log-probabilities) it is shrunk to the global one, z_c = (H_c z_c,fit + tau z_global) / (H_c + tau), where
H_c = sum u_c q (1 - q) (more classes: sum u_c (1 - sum_k q_k^2)), q what the global one says. The mixture says
sum u_c p_c. With tau = 0 clusters stand alone, as in the paper; with tau = inf there is only the global one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.errors import FitError
from calcli.methods import calibrator
from calcli.methods.calibrator import Calibrator
from calcli.methods.clusters.partition import Shares
from calcli.methods.spec import MethodSpec
from calcli.numeric.links import probabilities, scores
from calcli.numeric.sums import totals
from calcli.state import State, nest, unnest

Part: TypeAlias = Calibrator | FloatArray | None
"""What a cluster has: a calibrator; where it cannot carry one, its rate of each class; without rows, nothing."""


@dataclass(frozen=True, slots=True)
class Inner:
    """How calibrators are fitted.

    Attributes
    ----------
    row, seed
        The method, at its defaults.
    least
        A cluster whose rows weigh less, or all have one label, has no calibrator but its label rate; so has one whose
        rows do not determine a calibrator.
    prior
        Rows of each class that are added to such a rate.
    """

    row: MethodSpec
    seed: int
    least: float
    prior: float

    def fit(self, batch: Batch) -> Calibrator:
        """A calibrator of these rows."""
        return calibrator.fit(self.row, batch, self.row.resolve(), seed=self.seed)

    def fit_cluster(self, batch: Batch, share: FloatArray) -> Part:
        """That of a cluster, from the rows that belong to it and how much they do."""
        weight = batch.weights * share
        mass = totals(batch.labels, weight, batch.classes)
        total = float(mass.sum())
        if total == 0.0:
            return None
        rates: FloatArray = (mass + self.prior) / (total + self.prior * batch.classes)
        if np.count_nonzero(mass) < 2 or total < self.least:
            return rates
        try:
            fitted = self.fit(Batch(batch.score, batch.label, weight))
        except FitError:  # one label has next to no weight
            return rates
        return replace(fitted, rows=max(1, round(float(share.sum()))))


@dataclass(frozen=True, slots=True)
class Mixture:
    """The global calibrator, those of the clusters, and how much the rows of each say (H)."""

    everyone: Calibrator
    parts: tuple[Part, ...]
    information: FloatArray

    @classmethod
    def fit(cls, inner: Inner, batch: Batch, shares: Shares, clusters: int) -> Mixture:
        everyone = inner.fit(batch)
        prob = everyone.predict(batch)
        spread = batch.weights * (prob * (1.0 - prob) if prob.ndim == 1 else 1.0 - np.square(prob).sum(axis=1))
        of_each = list(shares.of_each(clusters))
        parts = tuple(inner.fit_cluster(batch.take(rows), share) for rows, share in of_each)
        return cls(everyone, parts, np.array([float(share @ spread[rows]) for rows, share in of_each]))

    def predict(self, batch: Batch, shares: Shares, tau: float) -> FloatArray:
        """What the mixture says of rows."""
        return self.predict_each(batch, shares, (tau,))[0]

    def predict_each(self, batch: Batch, shares: Shares, taus: Sequence[float]) -> list[FloatArray]:
        """The same for several tau, at little more than the cost of one."""
        everyone = self.everyone.predict(batch)
        found = [everyone if math.isinf(tau) else np.zeros(everyone.shape) for tau in taus]
        finite = [place for place, tau in enumerate(taus) if not math.isinf(tau)]
        if not finite:
            return found
        score_of_all = scores(everyone)
        of_each = zip(self.parts, self.information, shares.of_each(len(self.parts)), strict=True)
        for part, information, (rows, share) in of_each:
            if not len(rows):
                continue
            own = everyone[rows] if part is None else _says(part, batch.take(rows))
            of_own, of_all = scores(own), score_of_all[rows]
            for place in finite:
                keeps = 1.0 if taus[place] == 0.0 else information / (information + taus[place])
                prob = own if keeps == 1.0 else probabilities(keeps * of_own + (1.0 - keeps) * of_all)
                found[place][rows] += (share * prob.T).T
        return found

    def to_state(self) -> State:
        fitted = {str(place): part.to_state() for place, part in enumerate(self.parts) if isinstance(part, Calibrator)}
        whole = nest({"everyone": self.everyone.to_state(), **fitted})
        rates = np.zeros((len(self.parts), self.everyone.classes))
        for place, part in enumerate(self.parts):
            if part is not None and not isinstance(part, Calibrator):
                rates[place] = part
        return State(whole.params, {**whole.arrays, "rates": rates, "information": self.information}, whole.blobs)

    @classmethod
    def of_state(cls, state: State, method: str) -> Mixture:
        states = unnest(state, state.params)
        fitted = {name: Calibrator.from_state(method, part) for name, part in states.items()}
        rates = [row if row.any() else None for row in state.array("rates")]
        parts = tuple(fitted.get(str(place), rate) for place, rate in enumerate(rates))
        return cls(fitted["everyone"], parts, state.array("information"))


def _says(part: Calibrator | FloatArray, batch: Batch) -> FloatArray:
    if isinstance(part, Calibrator):
        return part.predict(batch)
    return np.full(len(batch), part[1]) if batch.classes == 2 else np.repeat(part[None, :], len(batch), axis=0)
