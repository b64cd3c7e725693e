"""`auto`: which method suits these rows, by log-loss on held-out rows, the identity among them.

Never by ECE: over 832 experiments of the CalArena benchmark the method with the lowest ECE was worse than no
calibration by the Brier score in 56 %.
"""

from __future__ import annotations

from dataclasses import dataclass

from calcli.batch import NO_SIDE_INPUTS, Batch, SideInputs
from calcli.engines.listener import Listener
from calcli.fitting.cross_validation import HeldOutPredictions
from calcli.fitting.model_selection import Choice, choose, criterion, cross_validate
from calcli.fitting.recipe import Recipe
from calcli.fitting.splits import Holdout, split_rows
from calcli.methods import catalog
from calcli.methods.spec import MethodSpec
from calcli.numeric.folds import held_out
from calcli.numeric.rng import stream

MOST_ROWS = 200_000
"""More rows than this do not change the choice; a sample of them is compared."""

FOLDS = Holdout("cv", folds=5)
"""How rows are held out."""


def candidates_for(classes: int) -> list[MethodSpec]:
    """The methods that `auto` compares, the simplest first."""
    kind = "binary" if classes == 2 else "multiclass"
    return sorted((row for row in catalog.specs() if row.auto in ("yes", kind)), key=lambda row: row.simplicity)


@dataclass(frozen=True, slots=True)
class Selection:
    """What was chosen, and how.

    Attributes
    ----------
    predicted
        What the chosen method predicted for the rows of `FOLDS`; None where only a sample of them was compared.
    """

    choice: Choice
    predicted: HeldOutPredictions | None

    def under(self, holdout: Holdout) -> HeldOutPredictions | None:
        """What the chosen method predicts for rows that are held out in this way, if that is known."""
        return self.predicted if holdout == FOLDS else None


def select(
    recipe: Recipe, batch: Batch, *, seed: int, listener: Listener, sides: SideInputs = NO_SIDE_INPUTS
) -> Selection:
    """The simplest method within half a standard error of the best."""
    by, everyone = criterion(recipe.criterion), len(batch) <= MOST_ROWS
    if not everyone:
        batch = batch.take(held_out(batch.labels, MOST_ROWS / len(batch), stream(seed, "selection")))
    splits = split_rows(batch.labels, FOLDS, seed)
    contenders = {row: recipe.resolve(row) for row in candidates_for(batch.classes) if not row.lacks_columns(batch)}
    outcomes = cross_validate(
        contenders, batch, splits, budget=recipe.budget, seed=seed, listener=listener, sides=sides
    )
    choice = choose(outcomes, batch, splits, by)
    chosen = next(outcome for outcome in outcomes if outcome.row.name == choice.name)
    return Selection(choice, chosen.predicted if everyone else None)
