"""`auto`: which method suits these rows, by log-loss on held-out rows, the identity among them.

Never by ECE: over 832 experiments of the CalArena benchmark the method with the lowest ECE was worse than no
calibration by the Brier score in 56 %.
"""

from __future__ import annotations

from calcli.batch import NO_SIDES, Batch, Sides
from calcli.engines.listener import Listener
from calcli.methods import catalog
from calcli.methods.row import Row
from calcli.numeric.folds import held_out
from calcli.numeric.rng import stream
from calcli.verbs.contest import Choice, choose, criterion, run_contest
from calcli.verbs.recipe import Recipe
from calcli.verbs.splits import Holdout, split_rows

MOST_ROWS = 200_000
"""More rows than this do not change the choice; a sample of them is compared."""


def short_list(classes: int) -> list[Row]:
    """The methods that `auto` compares, the simplest first."""
    kind = "binary" if classes == 2 else "multiclass"
    return sorted((row for row in catalog.rows() if row.auto in ("yes", kind)), key=lambda row: row.simplicity)


def select(recipe: Recipe, batch: Batch, *, seed: int, listener: Listener, sides: Sides = NO_SIDES) -> Choice:
    """The simplest method within half a standard error of the best."""
    by = criterion(recipe.criterion)
    if len(batch) > MOST_ROWS:
        batch = batch.take(held_out(batch.labels, MOST_ROWS / len(batch), stream(seed, "selection")))
    splits = split_rows(batch.labels, Holdout("cv", folds=5), seed)
    contenders = {row: recipe.resolve(row) for row in short_list(batch.classes) if not row.lacks_columns(batch)}
    outcomes = run_contest(contenders, batch, splits, budget=recipe.budget, seed=seed, listener=listener, sides=sides)
    return choose(outcomes, batch, splits, by)
