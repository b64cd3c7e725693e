"""`auto`: a pool of all methods, or a single one that is as good, or no calibration where nothing is shown to help.

Every method is fitted on all rows once, which settles what it chooses by itself, and then on the rows outside each
fold, so that each row has a prediction of each method from other rows. From these predictions alone follow the weights
of the pool and the choice. In the report the rows of a fold are predicted with the weights that follow from the other
folds, and the interval of the gain allows for it having been large enough to be chosen.

It never selects by ECE: over 832 experiments of the CalArena benchmark the method with the lowest ECE was worse than no
calibration by the Brier score in 56 %.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray, SideInputs
from calcli.errors import FitError
from calcli.listener import Listener
from calcli.methods import catalog, pool
from calcli.methods.base import Params, number
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PostProcessing
from calcli.methods.spec import MethodSpec, Purpose
from calcli.metrics.base import Folds, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.joint_test import GapSums, joint_test
from calcli.metrics.paired import Deals, paired_difference, unit_sums
from calcli.models.held_out import Holdout, Mask, Splits, split_rows
from calcli.models.model_selection import (
    IDENTITY,
    OUT_OF_TIME,
    Choice,
    Outcome,
    criterion,
    criterion_rows,
    cross_validate,
    gap,
    loss_name,
)
from calcli.models.recipe import Recipe
from calcli.numeric.losses import divergence, log_loss
from calcli.numeric.seeded import folds, group_folds, stream

EVIDENCE = 3.0
"""Nats: scores are changed only if the pool makes the held-out labels exp(3) = 20 times as likely, and of K classes
20 times the root of K - 1: what methods fit grows with the classes, and so does what they owe to luck. Of tables whose
scores are calibrated one in 100 reaches that, with real features two: weights that follow from other rows leave little
to luck. The best of all methods by itself reaches it in five."""

TWICE = 0.85
"""The share of this evidence that is enough as a mean over two deals of the rows into folds. One deal of calibrated
scores adds -0.7 nats with a standard deviation of 1.2, and half of this variance is luck of the folds. Of calibrated
scores 1.7 in 100 are changed, with real features 1.2; more would be gained by less, and fewer changed by more."""

FEW = 2000
"""Up to so many rows, what one deal leaves undecided is dealt again: more rows have less luck, and cost more."""

OFF = 0.005
"""Where the joint test of the scores as they are has a p-value up to this, they are known to be wrong, and any evidence
for the pool is enough. Of calibrated scores it is so small in one table of 200, and in most of these the pool has its
evidence too."""

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


class MethodSelection:
    """The held-out predictions of methods, and what is chosen by them.

    `prob` has the predictions of each method, no calibration among them, the simplest first. `part` says which rows are
    left out together: a mixture is judged in each part by the weights that follow from the others.
    """

    again: MethodSelection | None = None
    """The selection among these methods where the rows were dealt into other folds."""

    def __init__(
        self, prob: Mapping[str, FloatArray], rows: Batch, part: IntArray, metric: MetricSpec, most: int
    ) -> None:
        self.prob, self.labels, self.weight, self._rows = prob, rows.labels, rows.weight, rows
        self._part, self._metric, self._most, self._units = part, metric, most, rows.together
        self._weights: dict[int | None, dict[str, float]] = {}

    @cached_property
    def _evidence(self) -> Evidence:
        """The evidence for the pool by these folds."""
        return self._gain(self._pooled)

    @cached_property
    def _asked(self) -> float:
        """The nats that the pool must add by a single deal."""
        raw = Scored(self.labels, self.prob[IDENTITY], self.weight, units=self._units)
        if joint_test(GapSums.of(raw.top).compact()).p <= OFF:
            return 0.0
        return self._evidence.effect * (EVIDENCE + (0.0 if raw.binary else 0.5 * math.log(raw.classes - 1)))

    @property
    def _least(self) -> float:
        """The nats that the pool must add by these folds, given what it adds by others."""
        if self.again is None:
            return self._asked
        return max(0.0, 2.0 * TWICE * self._asked - self.again._evidence.nats)

    @property
    def undecided(self) -> bool:
        """Whether other folds could turn the choice: the pool is better by these, and not by twice what is asked."""
        return 0.0 < self._evidence.nats < 2.0 * self._asked

    def among(self, names: Collection[str]) -> MethodSelection:
        """The selection among these methods."""
        prob = {name: one for name, one in self.prob.items() if name in names}
        found = MethodSelection(prob, self._rows, self._part, self._metric, self._most)
        found.again = None if self.again is None else self.again.among(names)
        return found

    def choose(self) -> Chosen:
        """The simplest method that is as good as the pool, else the pool.

        No calibration, unless the pool makes the labels so many times as likely as `EVIDENCE` says, or likelier at all
        where the scores are known to be wrong.
        """
        losses = {name: self._losses(prob) for name, prob in (*self.prob.items(), (pool.POOL, self._pooled))}
        mean = {name: self._mean(loss) for name, loss in losses.items()}
        best = min(self.prob, key=lambda name: mean[name])
        if set(self.prob) == {IDENTITY}:
            why = "nothing was compared: no method but no calibration had a result"
            return Chosen(IDENTITY, {IDENTITY: 1.0}, IDENTITY, why)
        if self._evidence.nats <= 0.0 or self._evidence.nats < self._least:
            return Chosen(IDENTITY, {IDENTITY: 1.0}, best, self._nothing(mean, best))
        for name in self.prob:
            lead, error = gap(losses[name], losses[pool.POOL], self.weight, self._units)
            if lead <= STANDARD_ERRORS * error and self._lost(name) <= SHARE * self._evidence.nats:
                return Chosen(name, {name: 1.0}, best, self._single(name, mean))
        return Chosen(pool.POOL, self._weigh(None), best, self._mixture(mean, best))

    def limited(self, purpose: Purpose | None, *, simple: bool) -> tuple[MethodSelection, Chosen, str | None]:
        """The selection among the methods that serve the purpose, its choice, and what that costs.

        The choice is a single method if it must be `simple`; nothing is said of what is not limited.
        """
        if purpose is None and not simple:
            return self, self.choose(), None
        classes = self._rows.classes
        able = {name for name in self.prob if purpose is None or catalog.find(name).can(purpose, classes)}
        limited = self.among(able)
        chosen = limited.choose()
        # A mixture of calibrators is fitted from no sums, whatever its members are fitted from.
        if chosen.name == pool.POOL and (simple or purpose == "spark"):
            loss = self._said(self._mean(self._losses(self.prob[chosen.best])))
            why = f"{chosen.best} is the single method with the best held-out {loss_name(self._metric)}, {loss}"
            chosen = Chosen(chosen.best, {chosen.best: 1.0}, chosen.best, why)
        words = " ".join(filter(None, ["" if purpose is None else f"--for {purpose}", "--simple" if simple else ""]))
        return limited, chosen, f"{words} {self._cost(limited.predicted(chosen), self.choose())}"

    def _cost(self, prob: FloatArray, best: Chosen) -> str:
        """How much larger the loss of these predictions is than that of what is best without a limit."""
        loss, least = self._losses(prob), self._losses(self.predicted(best))
        value, lo, hi, _ = paired_difference(loss, least, self.weight, self._units)
        if not np.any(loss != least) or value is None or lo is None or hi is None:
            return "costs nothing: what is best of all can do that"
        return (
            f"costs {value:.5f} of {loss_name(self._metric)} (95 % interval {lo:.5f} to {hi:.5f}): it is "
            f"{self._said(self._mean(loss))}, and {self._said(self._mean(least))} with what is best of all, {best.name}"
        )

    def _losses(self, prob: FloatArray) -> FloatArray:
        return criterion_rows(self._metric, Scored(self.labels, prob, self.weight))

    def _mean(self, loss: FloatArray) -> float:
        return float(np.average(loss, weights=self.weight))

    def pool(self) -> Chosen:
        """The pool, whether or not it is shown to help."""
        return Chosen(pool.POOL, self._weigh(None), IDENTITY, "")

    def least_gain(self, chosen: Chosen) -> float:
        """By how much the mean log-loss had to be lower, by these folds or on the mean over two deals.

        It is what the pool had to spare less than what the chosen method gains by these folds.
        """
        asked = self._asked if self.again is None else TWICE * self._asked
        return (self._gain(self.predicted(chosen)).nats - self._evidence.nats + asked) / self._total_weight

    @property
    def deals(self) -> Deals | None:
        """The mean gain over two deals beside that by these folds, in nats a row."""
        if self.again is None:
            return None
        between = log_loss(self._pooled, self.labels) - log_loss(self.again._pooled, self.labels)
        more = Evidence.of(between / 2.0, self.weight, self._units)
        return Deals(more.nats / self._total_weight, more.error / self._total_weight)

    @property
    def _total_weight(self) -> float:
        return len(self.labels) if self.weight is None else float(self.weight.sum())

    def _gain(self, prob: FloatArray) -> Evidence:
        gain = log_loss(self.prob[IDENTITY], self.labels) - log_loss(prob, self.labels)
        return Evidence.of(gain, self.weight, self._units)

    def _lost(self, name: str) -> float:
        """By how many nats the labels would be less likely with this method than with the pool, were the pool right."""
        lost = divergence(self._pooled, self.prob[name])
        return float(lost.sum() if self.weight is None else self.weight @ lost)

    def predicted(self, chosen: Chosen) -> FloatArray:
        """The held-out predictions of what is chosen; those of the pool by weights that follow from other rows."""
        return self._pooled if chosen.name == pool.POOL else self.prob[chosen.name]

    @cached_property
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
    """How many nats likelier labels are with one score than with another."""

    nats: float
    effect: float
    """How many times the variance of this sum is that over independent rows (Rao & Scott): so much less a row tells."""

    error: float
    """Its standard error."""

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


FOLDS = 5
"""Into so many parts held-out rows are dealt to be mixed, where they are not in folds."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The choice, and what was found on the way to it."""

    choice: Choice | None
    """None where the pool was asked for."""

    spec: MethodSpec
    params: Params
    fitted: FittedMethod | None
    """The calibrator of all rows; None where a sample of them was compared."""

    holdout: Holdout
    rows: Mask
    prob: FloatArray
    """`rows`, `prob`: the rows that were held out, and the predictions of the choice for them."""

    folds: Folds | None
    """The folds of the held-out rows, where several calibrators have predicted them."""

    least_gain: float | None
    """How much a method had to lower the mean log-loss to be chosen; None where nothing was."""

    deals: Deals | None
    """The mean over two deals beside the first, where it was that mean which had to lower it so much."""


def select(
    recipe: Recipe, batch: Batch, *, seed: int, listener: Listener, sides: SideInputs = NO_SIDE_INPUTS
) -> Selection:
    """Compare the methods that suit the rows, weigh them, and choose; or keep the pool, if the recipe asks for it."""
    of_pool, pooled = recipe.resolve(catalog.find(pool.POOL)), recipe.method == pool.POOL
    post_processing = PostProcessing(recipe.exact)
    # The rows that are compared, and which of them are held out.
    compared = pool.compared_rows(len(batch), seed)
    rows = batch if compared.all() else batch.take(compared)
    holdout = Holdout.shared(None if recipe.holdout == "none" else recipe.holdout, len(rows))
    splits = split_rows(len(rows), holdout, seed, rows.units)

    # What every method predicts for them.
    asked = pool.members_asked(of_pool, batch) if pooled else catalog.suited_to(batch)
    candidates, not_installed = catalog.installed(
        {spec: spec.as_member(recipe.resolve(spec)) for spec in asked}, len(batch.features), sides.roles
    )
    compare = partial(cross_validate, seed=seed, listener=listener, sides=sides, post_processing=post_processing)
    outcomes = compare(candidates, rows, splits, budget=recipe.budget, settle=True)
    if pooled and (failed := [one for one in outcomes if one.status == "failed"]):
        raise FitError(f"{failed[0].spec.name}: {failed[0].reason}")
    held, metric, most = rows.take(splits.predicted), criterion(recipe.criterion), int(number(of_pool, "most"))
    every = MethodSelection(_predicted(outcomes), held, _parts(splits, held, seed), metric, most)
    if not pooled and recipe.budget is None and splits.partition and len(held) <= FEW and every.undecided:
        settled = {one.spec: {**candidates[one.spec], **one.fitted.settings} for one in outcomes if one.fitted}
        others = split_rows(len(rows), holdout, seed + 1, rows.units)
        again = _predicted(compare(settled, rows, others, budget=None))
        every.again = MethodSelection(again, held, _parts(others, held, seed), metric, most)

    # The choice, and its calibrator of all rows.
    contest, chosen, cost = every, every.pool(), None
    if not pooled:
        contest, chosen, cost = every.limited(recipe.purpose, simple=recipe.simple)
    members = {one.spec.name: one.fitted for one in outcomes if one.fitted is not None}
    params: Params
    if chosen.name == pool.POOL:
        losses = pool.held_out_losses(every.prob, chosen.weights, held.labels, held.weight)
        state = pool.mixture(members, chosen.weights, losses)
        fitted = FittedMethod(catalog.find(pool.POOL), batch.classes, len(rows), state, post_processing)
        params = {**fitted.spec.resolve(), **fitted.settings, "most": most}
    else:
        fitted = members[chosen.name]
        params = recipe.resolve(fitted.spec)
    late = tuple(one.spec.name for one in outcomes if one.reason == OUT_OF_TIME)
    choice = None if pooled else Choice(chosen.name, chosen.best, chosen.why, late, not_installed, cost)
    compared[compared] = splits.predicted
    kept = fitted if rows is batch else None
    least = None if pooled or chosen.name == IDENTITY else contest.least_gain(chosen)
    predicted = contest.predicted(chosen)
    deals, dealt = contest.deals, splits.folds
    return Selection(choice, fitted.spec, params, kept, holdout, compared, predicted, dealt, least, deals)


def _predicted(outcomes: Sequence[Outcome]) -> dict[str, FloatArray]:
    return {one.spec.name: one.predicted.prob for one in outcomes if one.predicted is not None}


def _parts(splits: Splits, held: Batch, seed: int) -> IntArray:
    """Which held-out rows are mixed with weights that follow from all others: those of a fold, or of units."""
    if splits.folds is not None:
        return splits.folds.fold_of
    if held.units is not None and np.ptp(held.units.rank) > 0:
        return group_folds(held.units.rank, FOLDS, stream(seed, "parts"))
    return folds(len(held), FOLDS, stream(seed, "parts"))
