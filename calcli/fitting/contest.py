"""Which of several methods to use, or which mixture of them, by their held-out predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.fitting.model_selection import IDENTITY, criterion_rows, gap, loss_name
from calcli.methods import pool
from calcli.metrics.base import Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.paired import unit_sums
from calcli.numeric.losses import divergence, log_loss

EVIDENCE = 3.0
"""Nats: scores are changed only if the pool makes the held-out labels exp(3) = 20 times as likely. Of simulated tables
whose scores are calibrated less than one in 100 reaches that: weights that follow from other rows leave little to luck.
The best of all methods by itself reaches it in five."""

STANDARD_ERRORS = 0.25
SHARE = 0.02
"""A single method is preferred, since it is easier to read, if its loss is within so many standard errors of the
pool's, and it would lose no more than this share of what the pool gains, were the pool right. Of few rows the former
says little: the method with the least loss of many owes it to luck, where the pool has weighed them all."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The weights of what is chosen, its name and the reason in a sentence; `best` is the best single method."""

    name: str
    weights: Mapping[str, float]
    best: str
    why: str


class Contest:
    """The held-out predictions of methods, and what is chosen by them.

    `prob` has the predictions of each method, no calibration among them, the simplest first. `part` says which rows are
    left out together: a mixture is judged in each part by the weights that follow from the others.
    """

    def __init__(
        self, prob: Mapping[str, FloatArray], rows: Batch, part: IntArray, metric: MetricSpec, most: int
    ) -> None:
        self.prob, self.labels, self.weight = prob, rows.labels, rows.weight
        self._part, self._metric, self._most, self._units = part, metric, most, rows.together
        self._weights: dict[int | None, dict[str, float]] = {}

    def choose(self) -> Chosen:
        """The simplest method that is as good as the pool, else the pool.

        No calibration, unless the pool makes the labels exp(`EVIDENCE`) times as likely.
        """
        scored = {
            name: Scored(self.labels, prob, self.weight)
            for name, prob in (*self.prob.items(), (pool.POOL, self._pooled()))
        }
        evidence = self._evidence(scored[pool.POOL], scored[IDENTITY])
        losses = {name: criterion_rows(self._metric, one) for name, one in scored.items()}
        mean = {name: float(np.average(loss, weights=self.weight)) for name, loss in losses.items()}
        best = min(self.prob, key=lambda name: mean[name])
        if set(self.prob) == {IDENTITY}:
            why = "nothing was compared: no method but no calibration had a result"
            return Chosen(IDENTITY, {IDENTITY: 1.0}, IDENTITY, why)
        if not evidence.shown:
            return Chosen(IDENTITY, {IDENTITY: 1.0}, best, self._nothing(mean, best))
        for name in self.prob:
            lead, error = gap(losses[name], losses[pool.POOL], self.weight, self._units)
            if lead <= STANDARD_ERRORS * error and self._lost(name) <= SHARE * evidence.nats:
                return Chosen(name, {name: 1.0}, best, self._single(name, mean))
        return Chosen(pool.POOL, self._weigh(None), best, self._mixture(mean, best))

    def least_gain(self, chosen: Chosen) -> float:
        """By how much the mean log-loss had to be lower: what the pool had to spare less than it is."""
        none = Scored(self.labels, self.prob[IDENTITY], self.weight)
        of_chosen, of_pool = (
            self._evidence(Scored(self.labels, prob, self.weight), none)
            for prob in (self.predicted(chosen), self._pooled())
        )
        return (of_chosen.nats - of_pool.nats + EVIDENCE * of_pool.effect) / none.total_weight

    def _evidence(self, scored: Scored, none: Scored) -> Evidence:
        return Evidence.of(
            log_loss(none.prob, none.label) - log_loss(scored.prob, scored.label), self.weight, self._units
        )

    def _lost(self, name: str) -> float:
        """By how many nats the labels would be less likely with this method than with the pool, were the pool right."""
        lost = divergence(self._pooled(), self.prob[name])
        return float(lost.sum() if self.weight is None else self.weight @ lost)

    def predicted(self, chosen: Chosen) -> FloatArray:
        """The held-out predictions of what is chosen; those of the pool by weights that follow from other rows."""
        return self._pooled() if chosen.name == pool.POOL else self.prob[chosen.name]

    def _pooled(self) -> FloatArray:
        """Each part mixed with the weights that follow from the others."""
        pooled = np.empty(self.prob[IDENTITY].shape)
        for part in np.unique(self._part):
            rows = self._part == part
            pooled[rows] = pool.mixed({name: prob[rows] for name, prob in self.prob.items()}, self._weigh(int(part)))
        return pooled

    def _weigh(self, without: int | None) -> dict[str, float]:
        """The weights of the pool that follow from all rows but this part, found once."""
        if without not in self._weights:
            rows = self._part != (-1 if without is None else without)
            prob = {name: one[rows] for name, one in self.prob.items()}
            weight = None if self.weight is None else self.weight[rows]
            near = None if without is None else self._weigh(None)
            self._weights[without] = pool.weigh(prob, self.labels[rows], weight, most=self._most, near=near)
        return self._weights[without]

    def _said(self, mean: float) -> str:
        return f"{-mean if self._metric.direction == 'higher' else mean:.5f}"

    def _nothing(self, mean: Mapping[str, float], best: str) -> str:
        what, raw = loss_name(self._metric), self._said(mean[IDENTITY])
        if best == IDENTITY:
            return f"no method has a better held-out {what} than no calibration ({raw})"
        return (
            f"no method is shown to be better than no calibration (held-out {what} {raw}); the best, {best}, "
            f"has {self._said(mean[best])}, a difference that chance can explain"
        )

    def _single(self, name: str, mean: Mapping[str, float]) -> str:
        what = loss_name(self._metric)
        return (
            f"{name} is the simplest method that is as good as a mixture of all: held-out {what} "
            f"{self._said(mean[name])}, mixture {self._said(mean[pool.POOL])}, no calibration "
            f"{self._said(mean[IDENTITY])}"
        )

    def _mixture(self, mean: Mapping[str, float], best: str) -> str:
        members = " + ".join(f"{weight:.2f} {name}" for name, weight in self._weigh(None).items())
        return (
            f"a pool of {members} has a held-out {loss_name(self._metric)} of {self._said(mean[pool.POOL])}; the best "
            f"single method, {best}, {self._said(mean[best])}, no calibration {self._said(mean[IDENTITY])}"
        )


class Evidence(NamedTuple):
    """How many nats likelier labels are with one score than with another.

    Attributes
    ----------
    effect
        How many times the variance of this sum is that over rows which are independent of each other (Rao & Scott).
    error
        Its standard error.
    """

    nats: float
    effect: float
    error: float

    @property
    def shown(self) -> bool:
        """Whether that is enough to change scores. Where rows of a unit depend on each other, each tells less."""
        return self.nats >= EVIDENCE * self.effect

    @classmethod
    def of(cls, gain: FloatArray, weight: FloatArray | None, units: IntArray | None) -> Evidence:
        """From the gain of each row."""
        w = np.ones(len(gain)) if weight is None else weight
        nats = float((w * gain).sum())
        noise = w * (gain - nats / w.sum())
        alone = float(np.square(noise).sum())
        together = alone if units is None else float(np.square(unit_sums(units, noise)[0]).sum())
        return cls.by_squares(nats, alone, together)

    @classmethod
    def by_squares(cls, nats: float, alone: float, together: float) -> Evidence:
        """From the sums of squares of what chance adds to rows, and to units."""
        return cls(nats, max(1.0, together / alone) if alone > 0 else 1.0, math.sqrt(together))
