"""Training the models of an ensemble, and choosing learning rate and depth on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.errors import FitError
from calcli.learners import catboost
from calcli.numeric.losses import log_loss, mixture_log_loss
from calcli.numeric.seeded import held_out, stream
from calcli.uncertainty.decomposition import Members, decompose
from calcli.uncertainty.ensemble import DEPTHS, RATES, Ensemble, Settings, Task

if TYPE_CHECKING:
    from catboost import Pool

HELD_OUT = 0.2
"""The share of the rows on which learning rate and depth are chosen."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """A cell of the grid, with the log-loss of a single model on held-out rows."""

    settings: Settings
    loss: float


@dataclass(frozen=True)
class Trainer:
    """Training rows and the target."""

    rows: Batch
    task: Task
    classes: int
    """K; 0 for a regression."""

    seed: int

    def pool(self) -> Pool:
        """The rows as CatBoost takes them; made once for all models."""
        rows = self.rows
        return catboost.pool(rows.features, rows.targets if self.task == "regression" else rows.labels, rows.weight)

    def train(self, pool: Pool, settings: Settings, *key: str | int, each: Callable[[], None] | None = None) -> bytes:
        """A model, as a file. Its seed depends on the ensemble's and on the `key` alone, such as the member's number.

        `each` is called after each tree.
        """
        params, rng = settings.params(self.task, self.classes), stream(self.seed, "uncertainty", *key)
        return catboost.to_bytes(catboost.train(pool, params, seed=int(rng.integers(2**31 - 1)), each=each))

    def trials(self, settings: Settings) -> Iterator[tuple[str, Settings, Callable[[], float]]]:
        """The name and settings of each cell of the grid, and the function that computes its `GridCell.loss`."""
        rows = self.rows
        apart = held_out(len(rows), HELD_OUT, stream(self.seed, "uncertainty", "tune"))
        if self.task != "regression":  # models are trained on all classes: none is held out whole
            apart &= np.bincount(rows.labels[~apart], minlength=self.classes)[rows.labels] > 0
        if not apart.any() or apart.all():
            raise FitError(f"{len(rows):,} rows are too few to hold out some", hint="leave out --tune")
        inside, outside = replace(self, rows=rows.take(~apart)), rows.take(apart)
        pool = inside.pool()
        for rate, depth in product(RATES, DEPTHS):
            name, cell = f"{rate}-{depth}", replace(settings, learning_rate=rate, depth=depth)
            yield name, cell, partial(inside._loss, pool, name, cell, outside)

    def _loss(self, pool: Pool, name: str, settings: Settings, outside: Batch) -> float:
        """The log-loss of one model on the rows outside; infinite where it predicts no finite number."""
        model = Ensemble("sgb", self.task, 1, (self.train(pool, settings, "trial", name),))
        try:
            loss = log_loss_rows(model.members(outside.features), outside)
        except FitError:
            return math.inf
        return float(np.average(loss, weights=outside.weights)) if outside.weights.sum() > 0 else math.inf


def log_loss_rows(members: Members, rows: Batch) -> FloatArray:
    """The log-loss of each row for the members' mean probability, or for the mixture of their distributions."""
    if members.variance is not None:
        return mixture_log_loss(members.mean, members.variance, rows.targets)
    return log_loss(decompose(members).mean, rows.labels)
