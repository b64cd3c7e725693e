"""From rows to a calibrator: select a method, predict held-out rows, fit. `fit` and `refit` share it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.listener import Listener, stage
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params, told
from calcli.methods.calibrator import FittedMethod, Settled
from calcli.methods.feature_methods import POOL
from calcli.methods.post_processing import PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Folds
from calcli.metrics.paired import Deals, FoldFits, Paired, given_at_least
from calcli.models.held_out import CROSS_VALIDATED_ROWS, Holdout, Mask, Splits, predict_held_out, split_rows
from calcli.models.model_selection import Choice, choice_warnings
from calcli.models.recipe import AUTO, Recipe, prior_ratio_of
from calcli.numeric.threads import one_thread_of_algebra
from calcli.reports.conditions import Guard
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.groups import LabelCheck
from calcli.reports.measuring import class_weights
from calcli.reports.schema import RAW, Difference, ReportWarning, ScoreSource, Seconds


@dataclass(frozen=True, slots=True)
class Sampled:
    """The sample of a table on a cluster that a calibrator was fitted on."""

    rows: int
    of: int
    """`rows`, `of`: how many rows it has, and the table."""

    by: str
    """The column in which it is like the table: every label has its share; or which names the units, drawn whole."""

    @property
    def warning(self) -> ReportWarning:
        return ReportWarning("sample", f"fitted on {self}")

    @property
    def warning_of_plan(self) -> ReportWarning:
        return ReportWarning("planned", f"fitted on all rows, with settings and borders of bins from {self}")

    def __str__(self) -> str:
        return f"a sample of {self.rows:,} of {self.of:,} rows, drawn at random by {self.by!r}"


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """A calibrator, with its predictions of rows that it was not fitted on."""

    spec: MethodSpec
    params: Params
    calibrator: FittedMethod
    holdout: Holdout
    seconds: Seconds
    label_check: LabelCheck | None = None
    drift_baseline: DriftBaseline | None = None
    """`label_check`, `drift_baseline`: how well the raw scores rank the labels, and how calibrated the held-out
    predictions are: an artifact keeps both for later refits and drift tests.
    """

    held_out_rows: int = 0
    """How many rows were held out."""

    rows: Mask | None = None
    prob: FloatArray | None = None
    """`rows`, `prob`: which rows those were, and the predictions for them; None without holdout, and on a cluster."""

    choice: Choice | None = None
    """Why `auto` selected the method."""

    least_gain: float | None = None
    """How much it had to lower the mean log-loss to be selected."""

    deals: Deals | None = None
    """The mean over two deals into folds beside the first, where it was that mean which had to lower it so much."""

    folds: Folds | None = None
    """The folds of the held-out rows, where several calibrators have predicted them."""

    fits: FoldFits | None = None
    """The predictions of all held-out rows by each of these calibrators."""

    sampled: Sampled | None = None
    """The sample of a larger table that it was fitted on."""

    planned: Sampled | None = None
    """The sample by which its settings were chosen, where it was fitted on all rows of a table on a cluster."""

    def held_out(self, batch: Batch) -> Batch:
        """The rows that were held out (all of them without holdout), reweighted to the target prior."""
        rows = batch if self.rows is None or self.rows.all() else batch.take(self.rows)
        return reweighted(rows, self.calibrator.post_processing)

    def restricted_to(self, rows: Mask) -> FitOutcome:
        """With some of the held-out rows only; the drift baseline stays that of all."""
        assert self.rows is not None
        assert self.prob is not None
        kept = rows[self.rows]
        folds = None if self.folds is None else self.folds.take(kept)
        return replace(self, rows=rows, prob=self.prob[kept], held_out_rows=int(rows.sum()), folds=folds, fits=None)

    @property
    def predicted(self) -> FloatArray:
        """The predictions for the held-out rows, of which there must be some."""
        assert self.prob is not None
        return self.prob

    @property
    def source(self) -> ScoreSource:
        """Where its predictions come from, as reports say it."""
        return ScoreSource("method", method=self.spec.name)

    def allowing_for_choice(self, differences: Sequence[Difference]) -> tuple[Difference, ...]:
        """The differences; that of the log-loss to no calibration allows for having been large enough to be chosen."""
        return tuple(map(self._given_chosen, differences))

    def _given_chosen(self, one: Difference) -> Difference:
        chosen_by = (self.spec.name, RAW, "nll") == (one.score, one.versus, one.metric)
        if self.least_gain is None or not chosen_by or one.value is None or one.lo is None or one.hi is None:
            return one
        found = given_at_least(Paired(-one.value, -one.hi, -one.lo, one.p), self.least_gain, self.deals)
        return one if found.lo is None or found.hi is None else replace(one, lo=-found.hi, hi=-found.lo, p=found.p)

    def warnings(self, differences: Sequence[Difference]) -> tuple[ReportWarning, ...]:
        """A report's warnings: how the method was chosen, and that it does not help."""
        guard = Guard(metrics.find("nll"))
        text = "on held-out rows {0.score} is worse than no calibration (log-loss {0.value:+.6f})"
        worse = [each for each in differences if each.metric == "nll" and guard.worse(each)]
        return (
            *(() if self.sampled is None else [self.sampled.warning]),
            *(() if self.planned is None else [self.planned.warning_of_plan]),
            *(() if self.choice is None else choice_warnings(self.choice)),
            *(ReportWarning("not-better", text.format(each)) for each in worse),
        )


def reweighted(rows: Batch, post_processing: PostProcessing) -> Batch:
    """The rows, each weight multiplied by the ratio of target to calibration prior of the row's class."""
    if post_processing.prior_ratio is None:
        return rows
    return replace(rows, weight=rows.weights * np.array(post_processing.prior_ratio)[rows.labels])


def learn(
    recipe: Recipe,
    batch: Batch,
    classes: Sequence[str],
    *,
    seed: int,
    listener: Listener,
    sides: SideInputs = NO_SIDE_INPUTS,
) -> FitOutcome:
    """Select a method if the recipe leaves it open, predict held-out rows, fit.

    `classes` are the names of the classes, in the order of their index.
    """
    share = class_weights(batch.labels, batch.weight, len(classes))
    post_processing = PostProcessing(recipe.exact, prior_ratio_of(recipe.prior_shift, share, classes))
    task = _Task(recipe, batch, post_processing, seed, listener, sides)
    with one_thread_of_algebra():
        learned = task.with_auto() if task.weighs else task.with_method(catalog.find(recipe.method))
        if learned.prob is None:
            return learned
        rows = learned.held_out(batch)
        baseline = DriftBaseline.of(learned.prob, rows.labels, rows.weight, rows.together)
    return replace(learned, drift_baseline=baseline)


@dataclass(frozen=True, slots=True)
class _Task:
    """A recipe, and the rows to learn from."""

    recipe: Recipe
    batch: Batch
    post_processing: PostProcessing
    seed: int
    listener: Listener
    sides: SideInputs

    @property
    def weighs(self) -> bool:
        """Whether several methods are weighed, by predictions that are the report of the pool too."""
        asked = Holdout.parse(self.recipe.holdout, len(self.batch))
        given = self.recipe.holdout is not None and not asked.refit_on_all
        if self.recipe.method != POOL.name or asked.kind == "none" or given:
            return self.recipe.method == AUTO
        return self.recipe.resolve(POOL)["weights"] == "auto"

    def with_auto(self) -> FitOutcome:
        """By the method that is selected, or their pool, which has predicted held-out rows on the way."""
        started = time.perf_counter()
        from calcli.models.auto import select

        selected = select(self.recipe, self.batch, seed=self.seed, listener=self.listener, sides=self.sides)
        fitted = selected.fitted or self._fit(selected.spec, selected.params)
        fitted = fitted.with_post_processing(self.post_processing)
        learned = FitOutcome(
            selected.spec,
            selected.params,
            fitted,
            Holdout("none"),
            Seconds(fit=time.perf_counter() - started),
            choice=selected.choice,
        )
        if self.recipe.holdout == "none":
            return learned
        prob = self.post_processing.apply(selected.prob, fitted.rows, fitted.classes, reaches_ends=False)
        return replace(
            learned,
            holdout=selected.holdout,
            held_out_rows=int(selected.rows.sum()),
            rows=selected.rows,
            prob=prob,
            folds=selected.folds,
            least_gain=selected.least_gain if self.post_processing.prior_ratio is None else None,
            deals=selected.deals,
        )

    def with_method(self, spec: MethodSpec) -> FitOutcome:
        """By one method: fit on all rows, and predict held-out rows; a given share of these judges what is kept.

        Where the method chooses its settings by the very rows that are held out, none of them by itself, its fits are
        the report. Otherwise it chooses them anew for each split.
        """
        holdout, params = self._holdout(spec), self.recipe.resolve(spec)
        if holdout.kind == "none":
            started = time.perf_counter()
            fitted = self._fit(spec, params)
            seconds = Seconds(fit=time.perf_counter() - started)
            return FitOutcome(spec, params, fitted, holdout, seconds)

        splits = split_rows(len(self.batch), holdout, self.seed, self.batch.units)
        started, known = time.perf_counter(), dict[int, FittedMethod]()
        settled = self._settled(spec, params, splits) if holdout.refit_on_all else None
        fit_seconds = time.perf_counter() - started
        if settled is not None and settled.by_splits:
            params, known = settled.params, dict(settled.of_splits)
        with stage(self.listener, f"checking {spec.name} on held-out rows", len(splits)), _details(self.listener):
            predicted, fitted = predict_held_out(
                spec,
                self.batch,
                params,
                splits,
                seed=self.seed,
                done=lambda: self.listener.advance(1),
                sides=self.sides.only(spec.sides),
                post_processing=self.post_processing,
                known=known,
            )
        return FitOutcome(
            spec,
            self.recipe.resolve(spec),
            fitted if settled is None else settled.fitted.with_post_processing(self.post_processing),
            holdout,
            Seconds(predicted.fit_seconds if settled is None else fit_seconds, predicted.apply_seconds),
            held_out_rows=int(splits.predicted.sum()),
            rows=splits.predicted,
            prob=predicted.prob,
            folds=splits.folds,
            fits=predicted.fits,
        )

    def _holdout(self, spec: MethodSpec) -> Holdout:
        """The scheme that was asked for; the default of a method that chooses by the rows is that of `auto`."""
        rows = len(self.batch)
        if self.recipe.holdout is None and spec.chooses and rows <= CROSS_VALIDATED_ROWS:
            return Holdout.shared(None, rows)
        return Holdout.parse(self.recipe.holdout, rows)

    def _settled(self, spec: MethodSpec, params: Params, splits: Splits) -> Settled:
        """The calibrator of all rows, and the settings that it chose by the splits if it can."""
        sides = self.sides.only(spec.sides)
        with stage(self.listener, f"fitting {spec.name}"), _details(self.listener):
            return calibrator.settle(spec, self.batch, params, list(splits), sides=sides, seed=self.seed)

    def _fit(self, spec: MethodSpec, params: Params) -> FittedMethod:
        with stage(self.listener, f"fitting {spec.name}"), _details(self.listener):
            fitted = calibrator.fit(spec, self.batch, params, sides=self.sides.only(spec.sides), seed=self.seed)
        return fitted.with_post_processing(self.post_processing)


def _details(listener: Listener) -> AbstractContextManager[None]:
    """Shows the progress texts of a method with the bar of the stage."""
    return told(lambda text: listener.advance(0, text))
