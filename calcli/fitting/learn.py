"""From rows to a calibrator: select a method, predict held-out rows, fit. `fit` and `refit` share it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.engines.listener import Listener, stage
from calcli.fitting.auto import FOLDS, select
from calcli.fitting.cross_validation import predict_held_out
from calcli.fitting.model_selection import Choice, choice_warnings
from calcli.fitting.prior_shift import prior_ratio_of
from calcli.fitting.recipe import AUTO, Recipe
from calcli.fitting.splits import Holdout, Mask, split_rows
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params
from calcli.methods.calibrator import PLAIN, Calibrator, PostProcessing
from calcli.methods.progress import told
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Folds
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.guard import Guard
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import Candidate, class_weights
from calcli.reports.schema import Difference, ReportWarning, ScoreSource, Seconds


@dataclass(frozen=True, slots=True)
class Learned:
    """A calibrator, with its predictions of rows that it was not fitted on.

    Attributes
    ----------
    label_check, drift_baseline
        How well the raw scores rank the labels, and how calibrated the held-out predictions are: an artifact keeps
        both for later refits and drift tests.
    held_out_rows
        How many rows were held out.
    rows, prob
        Which rows those were, and the predictions for them; None without holdout, and on a cluster.
    choice
        Why `auto` selected the method.
    folds
        Of the held-out rows, where several calibrators have predicted them.
    """

    spec: MethodSpec
    params: Params
    calibrator: Calibrator
    holdout: Holdout
    seconds: Seconds
    label_check: LabelCheck | None = None
    drift_baseline: DriftBaseline | None = None
    held_out_rows: int = 0
    rows: Mask | None = None
    prob: FloatArray | None = None
    choice: Choice | None = None
    folds: Folds | None = None

    def held_out(self, batch: Batch) -> Batch:
        """The rows that were held out (all of them without holdout), reweighted to the target prior."""
        rows = batch if self.rows is None or self.rows.all() else batch.take(self.rows)
        return reweighted(rows, self.calibrator.post_processing)

    def restricted_to(self, rows: Mask) -> Learned:
        """With some of the held-out rows only; the drift baseline stays that of all."""
        assert self.rows is not None
        assert self.prob is not None
        kept = rows[self.rows]
        folds = None if self.folds is None else self.folds.take(kept)
        return replace(self, rows=rows, prob=self.prob[kept], held_out_rows=int(rows.sum()), folds=folds)

    @property
    def candidates(self) -> list[Candidate]:
        """The held-out predictions as a score to be measured, if there are any."""
        name = self.spec.name
        source = ScoreSource("method", method=name)
        return [] if self.prob is None else [Candidate(name, source, self.prob, self.seconds)]

    def warnings(self, differences: Sequence[Difference]) -> tuple[ReportWarning, ...]:
        """A report's warnings: how the method was chosen, and that it does not help."""
        guard = Guard(metrics.find("nll"))
        text = "on held-out rows {0.score} has a log-loss {0.value:+.6f} beside no calibration"
        worse = [each for each in differences if each.metric == "nll" and guard.worse(each)]
        return (
            *(() if self.choice is None else choice_warnings(self.choice)),
            *(ReportWarning("not-better", text.format(each)) for each in worse),
        )


def reweighted(rows: Batch, post_processing: PostProcessing) -> Batch:
    """The same rows, their weights times the ratio of target to calibration prior of their class."""
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
) -> Learned:
    """Select a method if the recipe leaves it open, predict held-out rows, fit.

    `classes` are the names of the classes, in the order of their index.
    """
    holdout = Holdout.parse(recipe.holdout, len(batch))
    share = class_weights(batch.labels, batch.weight, len(classes))
    post_processing = PostProcessing(recipe.exact, prior_ratio_of(recipe.prior_shift, share, classes))

    # Select.
    choice = compared = None
    if recipe.method == AUTO:
        choice, compared = select(recipe, batch, seed=seed, listener=listener, sides=sides)
    spec = catalog.find(recipe.method if choice is None else choice.name)
    params, sides = recipe.resolve(spec), sides.only(spec.sides)

    def fit_all() -> tuple[Calibrator, float]:
        started = time.perf_counter()
        with stage(listener, f"fitting {spec.name}"), _details(listener):
            fitted = calibrator.fit(spec, batch, params, sides=sides, seed=seed)
        return fitted.with_post_processing(post_processing), time.perf_counter() - started

    label_check = LabelCheck.of(batch)
    if holdout.kind == "none":
        fitted, seconds = fit_all()
        return Learned(spec, params, fitted, holdout, Seconds(fit=seconds), label_check, choice=choice)

    # Predict held-out rows, unless the comparison has done so under the same folds.
    splits, last = split_rows(batch.labels, holdout, seed), None
    if compared is not None and holdout == FOLDS and post_processing == PLAIN:
        predicted = compared
    else:
        with stage(listener, f"checking {spec.name} on held-out rows", len(splits)), _details(listener):
            predicted, last = predict_held_out(
                spec,
                batch,
                params,
                splits,
                seed=seed,
                done=lambda: listener.advance(1),
                sides=sides,
                post_processing=post_processing,
            )

    # Fit on all rows; with a single split its calibrator is kept.
    fitted, seconds = fit_all() if last is None or holdout.refit_on_all else (last, predicted.fit_seconds)
    learned = Learned(
        spec,
        params,
        fitted,
        holdout,
        Seconds(fit=seconds, apply=predicted.apply_seconds),
        label_check,
        held_out_rows=int(splits.predicted.sum()),
        rows=splits.predicted,
        prob=predicted.prob,
        choice=choice,
        folds=splits.folds,
    )
    rows = learned.held_out(batch)
    return replace(learned, drift_baseline=DriftBaseline.of(predicted.prob, rows.labels, rows.weight))


def _details(listener: Listener) -> AbstractContextManager[None]:
    """Shows the progress texts of a method with the bar of the stage."""
    return told(lambda text: listener.advance(0, text))
