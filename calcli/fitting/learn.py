"""From rows to a calibrator, checked on rows that it has not seen: what `fit` and `refit` have in common."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.engines.listener import Listener, stage
from calcli.fitting.auto import select
from calcli.fitting.cross_validation import predict_held_out
from calcli.fitting.model_selection import Choice
from calcli.fitting.prior_shift import prior_ratio_of
from calcli.fitting.recipe import AUTO, Recipe
from calcli.fitting.splits import Holdout, Mask, split_rows
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params
from calcli.methods.calibrator import PLAIN, Calibrator, PostProcessing
from calcli.methods.progress import told
from calcli.methods.spec import MethodSpec
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.measuring import class_weights
from calcli.reports.schema import Seconds


@dataclass(frozen=True, slots=True)
class Learned:
    """A calibrator, and what it says of rows that it was not fitted on.

    Attributes
    ----------
    rows
        Which rows were held out; None without holdout.
    prob
        What was predicted for them.
    choice
        Why this method, if it was for calcli to choose.
    """

    row: MethodSpec
    params: Params
    calibrator: Calibrator
    holdout: Holdout
    seconds: Seconds
    rows: Mask | None = None
    prob: FloatArray | None = None
    choice: Choice | None = None

    def held_out(self, batch: Batch) -> Batch:
        """The rows that were held out (all of them without holdout), as `reweighted`."""
        return self.reweighted(batch if self.rows is None or self.rows.all() else batch.take(self.rows))

    def residuals(self, batch: Batch) -> DriftBaseline | None:
        """How calibrated it is on the rows that were held out; None without holdout."""
        if self.prob is None:
            return None
        rows = self.held_out(batch)
        return DriftBaseline.of(self.prob, rows.labels, rows.weight)

    def reweighted(self, rows: Batch) -> Batch:
        """The same rows, each class weighed as it comes where the scores will be used."""
        return reweighted(rows, self.calibrator.post_processing)


def reweighted(rows: Batch, post_processing: PostProcessing) -> Batch:
    """Each class weighed as it comes where the scores will be used."""
    return (
        rows
        if post_processing.prior_ratio is None
        else replace(rows, weight=rows.weights * np.array(post_processing.prior_ratio)[rows.labels])
    )


def learn(
    recipe: Recipe,
    batch: Batch,
    classes: Sequence[str],
    *,
    seed: int,
    listener: Listener,
    sides: SideInputs = NO_SIDE_INPUTS,
) -> Learned:
    """Choose a method if it is for calcli to choose, check it on held-out rows, fit it.

    `classes` are the names of the classes, in the order of their index.
    """
    holdout = Holdout.parse(recipe.holdout, len(batch))
    share = class_weights(batch.labels, batch.weight, len(classes))
    post_processing = PostProcessing(recipe.exact, prior_ratio_of(recipe.prior_shift, share, classes))
    selected = select(recipe, batch, seed=seed, listener=listener, sides=sides) if recipe.method == AUTO else None
    choice = None if selected is None else selected.choice
    row = catalog.find(recipe.method if choice is None else choice.name)
    params = recipe.resolve(row)
    sides = sides.only(row.sides)
    if holdout.kind == "none":
        fitted, seconds = _fit(row, batch, params, sides, seed, listener)
        return Learned(
            row, params, fitted.with_post_processing(post_processing), holdout, Seconds(fit=seconds), choice=choice
        )
    splits = split_rows(batch.labels, holdout, seed)
    # What predicted these very rows to be compared need not predict them again.
    known = selected.under(holdout) if selected is not None and post_processing == PLAIN else None
    if known is not None:
        predicted, last = known, None
    else:
        with stage(listener, f"checking {row.name} on held-out rows", len(splits)), _told(listener):
            predicted, last = predict_held_out(
                row,
                batch,
                params,
                splits,
                seed=seed,
                done=lambda: listener.advance(1),
                sides=sides,
                post_processing=post_processing,
            )
    if last is None or holdout.refit_on_all:
        fitted, seconds = _fit(row, batch, params, sides, seed, listener)
        fitted = fitted.with_post_processing(post_processing)
    else:
        fitted, seconds = last, predicted.fit_seconds
    times = Seconds(fit=seconds, apply=predicted.apply_seconds)
    return Learned(row, params, fitted, holdout, times, splits.predicted, predicted.prob, choice)


def _fit(
    row: MethodSpec, batch: Batch, params: Params, sides: SideInputs, seed: int, listener: Listener
) -> tuple[Calibrator, float]:
    started = time.perf_counter()
    with stage(listener, f"fitting {row.name}"), _told(listener):
        fitted = calibrator.fit(row, batch, params, sides=sides, seed=seed)
    return fitted, time.perf_counter() - started


def _told(listener: Listener) -> AbstractContextManager[None]:
    """What a method says of a long fit stands beside the bar of the stage."""
    return told(lambda what: listener.advance(0, what))
