"""`auto`: the method with the least log-loss on held-out rows; no calibration is always among the candidates.

It never selects by ECE: over 832 experiments of the CalArena benchmark the method with the lowest ECE was worse than no
calibration by the Brier score in 56 %.
"""

from __future__ import annotations

from calcli.batch import NO_SIDE_INPUTS, Batch, SideInputs
from calcli.engines.listener import Listener
from calcli.fitting.cross_validation import HeldOutPredictions
from calcli.fitting.model_selection import Choice, choose, criterion, cross_validate
from calcli.fitting.recipe import Recipe, candidates_for
from calcli.fitting.splits import Holdout, split_rows
from calcli.numeric.folds import held_out
from calcli.numeric.rng import stream

MOST_ROWS = 200_000
"""Methods are compared on a sample of so many rows; more do not change the choice."""

FOLDS = Holdout("cv", folds=5)
"""The folds of the comparison."""


def select(
    recipe: Recipe, batch: Batch, *, seed: int, listener: Listener, sides: SideInputs = NO_SIDE_INPUTS
) -> tuple[Choice, HeldOutPredictions | None]:
    """The simplest method within half a standard error of the best, and what it predicted for all rows under `FOLDS`.

    The predictions are None where only a sample of the rows was compared.
    """
    metric, sampled = criterion(recipe.criterion), len(batch) > MOST_ROWS
    if sampled:
        batch = batch.take(held_out(batch.labels, MOST_ROWS / len(batch), stream(seed, "selection")))
    splits = split_rows(batch.labels, FOLDS, seed)
    candidates = {spec: recipe.resolve(spec) for spec in candidates_for(batch.classes) if not spec.lacks_columns(batch)}
    outcomes = cross_validate(
        candidates, batch, splits, budget=recipe.budget, seed=seed, listener=listener, sides=sides
    )
    choice = choose(outcomes, batch, splits, metric)
    chosen = next(outcome for outcome in outcomes if outcome.spec.name == choice.name)
    return choice, None if sampled else chosen.predicted
