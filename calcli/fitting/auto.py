"""`auto`: a pool of all methods, or a single one that is as good, or no calibration where nothing is shown to help.

Every method is fitted on all rows once, which settles what it chooses by itself, and then on the rows outside each
fold, so that each row has a prediction of each method from other rows. From these predictions alone follow the weights
of the pool and the choice. In the report the rows of a fold are predicted with the weights that follow from the other
folds, and the interval of the gain allows for it having been large enough to be chosen.

It never selects by ECE: over 832 experiments of the CalArena benchmark the method with the lowest ECE was worse than no
calibration by the Brier score in 56 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray, SideInputs
from calcli.engines.listener import Listener
from calcli.fitting.contest import Contest
from calcli.fitting.model_selection import IDENTITY, OUT_OF_TIME, Choice, criterion, cross_validate
from calcli.fitting.recipe import Recipe
from calcli.fitting.splits import Holdout, Mask, Splits, split_rows
from calcli.methods import catalog, pool
from calcli.methods.base import Params, number
from calcli.methods.calibrator import FittedMethod, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics.base import Folds
from calcli.numeric.seeded import folds, group_folds, stream

FOLDS, ONE_FOLD = Holdout("cv", folds=5), Holdout("share", share=0.2)

HOLDOUTS = ((20_000, FOLDS), (50_000, Holdout("cv", folds=3)))
"""How up to so many rows are held out; more are by `ONE_FOLD`. Of many, two thirds are enough to fit on."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The choice, and what was found on the way to it.

    Attributes
    ----------
    fitted
        The calibrator of all rows; None where a sample of them was compared.
    rows, prob
        The rows that were held out, and the predictions of the choice for them.
    folds
        Of the held-out rows, where several calibrators have predicted them.
    least_gain
        How much a method had to lower the mean log-loss to be chosen; None where nothing was.
    """

    choice: Choice
    spec: MethodSpec
    params: Params
    fitted: FittedMethod | None
    holdout: Holdout
    rows: Mask
    prob: FloatArray
    folds: Folds | None
    least_gain: float | None


def select(
    recipe: Recipe, batch: Batch, *, seed: int, listener: Listener, sides: SideInputs = NO_SIDE_INPUTS
) -> Selection:
    """Compare the methods that suit the rows, weigh them, and choose."""
    post_processing = PostProcessing(recipe.exact)
    # The rows that are compared, and which of them are held out.
    compared = pool.compared_rows(len(batch), seed)
    rows = batch if compared.all() else batch.take(compared)
    holdout = next((holdout for most, holdout in HOLDOUTS if len(rows) <= most), ONE_FOLD)
    if recipe.holdout not in (None, "none"):
        holdout = Holdout.parse(recipe.holdout, len(rows))
    splits = split_rows(len(rows), holdout, seed, rows.units)

    # What every method predicts for them.
    candidates, not_installed = catalog.installed(
        {spec: recipe.resolve(spec) for spec in catalog.suited_to(batch)}, len(batch.features), sides.roles
    )
    outcomes = cross_validate(
        candidates,
        rows,
        splits,
        budget=recipe.budget,
        seed=seed,
        listener=listener,
        sides=sides,
        settle=True,
        post_processing=post_processing,
    )
    prob = {one.spec.name: one.predicted.prob for one in outcomes if one.predicted is not None}
    held = rows.take(splits.predicted)
    most = int(number(recipe.resolve(catalog.find(pool.POOL)), "most"))
    contest = Contest(prob, held, _parts(splits, held, seed), criterion(recipe.criterion), most)

    # The choice, and its calibrator of all rows.
    chosen = contest.choose()
    members = {one.spec.name: one.fitted for one in outcomes if one.fitted is not None}
    params: Params
    if chosen.name == pool.POOL:
        losses = pool.held_out_losses(prob, chosen.weights, held.labels, held.weight)
        state = pool.mixture(members, chosen.weights, losses)
        fitted = FittedMethod(catalog.find(pool.POOL), batch.classes, len(rows), state, post_processing)
        params = {**fitted.spec.resolve(), **fitted.settings, "most": most}
    else:
        fitted = members[chosen.name]
        params = recipe.resolve(fitted.spec)
    late = tuple(one.spec.name for one in outcomes if one.reason == OUT_OF_TIME)
    choice = Choice(chosen.name, chosen.best, chosen.why, late, not_installed)
    compared[compared] = splits.predicted
    kept = fitted if rows is batch else None
    least = None if chosen.name == IDENTITY else contest.least_gain(chosen)
    return Selection(
        choice, fitted.spec, params, kept, holdout, compared, contest.predicted(chosen), splits.folds, least
    )


def _parts(splits: Splits, held: Batch, seed: int) -> IntArray:
    """Which held-out rows are mixed with weights that follow from all others: those of a fold, or of units."""
    if splits.folds is not None:
        return splits.folds.fold_of
    if held.units is not None and np.ptp(held.units.rank) > 0:
        return group_folds(held.units.rank, FOLDS.folds, stream(seed, "parts"))
    return folds(len(held), FOLDS.folds, stream(seed, "parts"))
