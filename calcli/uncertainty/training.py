"""Training the models of an ensemble, and choosing how."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.errors import FitError
from calcli.learners import catboost
from calcli.numeric.folds import held_out
from calcli.numeric.losses import log_loss, mixture_log_loss
from calcli.numeric.rng import stream
from calcli.uncertainty.decomposition import Members, decompose
from calcli.uncertainty.ensemble import Ensemble
from calcli.uncertainty.settings import DEPTHS, RATES, Settings, Task

if TYPE_CHECKING:
    from catboost import Pool

HELD_OUT = 0.2
"""The share of the rows on which learning rate and depth are chosen."""


@dataclass(frozen=True)
class Trainer:
    """Rows to train on, and what is to be predicted.

    Attributes
    ----------
    classes
        K; 0 for a regression.
    """

    rows: Batch
    task: Task
    classes: int
    seed: int

    def pool(self) -> Pool:
        """The rows as CatBoost takes them; made once for all models."""
        rows = self.rows
        return catboost.pool(rows.features, rows.targets if self.task == "regression" else rows.labels, rows.weight)

    def member(self, data: Pool, settings: Settings, place: int, each: Callable[[], None] | None = None) -> bytes:
        """One model, as a file. Its seed depends on the ensemble's and on its place alone."""
        chance = stream(self.seed, "uncertainty", "member", place)
        return self._trained(data, settings, chance, each)

    def _trained(
        self, data: Pool, settings: Settings, chance: np.random.Generator, each: Callable[[], None] | None
    ) -> bytes:
        params = settings.params(self.task, self.classes)
        return catboost.to_bytes(catboost.train(data, params, seed=int(chance.integers(2**31 - 1)), each=each))

    def trials(self, settings: Settings, known: Callable[[str], float | None]) -> Iterator[Trial]:
        """What each learning rate and depth of the grid comes to on held-out rows; `known` remembers earlier ones."""
        rows = self.rows
        apart = held_out(
            np.zeros(len(rows), dtype=np.int64) if self.task == "regression" else rows.labels,
            HELD_OUT,
            stream(self.seed, "uncertainty", "tune"),
        )
        if not apart.any() or apart.all():
            raise FitError(f"{len(rows):,} rows are too few to hold some out", hint="leave out --tune")
        inside, outside = replace(self, rows=rows.take(~apart)), rows.take(apart)
        data = inside.pool()
        for rate in RATES:
            for depth in DEPTHS:
                trial = Trial(replace(settings, learning_rate=rate, depth=depth), math.inf)
                before = known(trial.name)
                loss = before if before is not None else inside._tried(data, trial, outside)
                yield replace(trial, loss=loss)

    def _tried(self, data: Pool, trial: Trial, outside: Batch) -> float:
        """The log-loss of one model on the rows outside; infinite where it predicts no finite number."""
        chance = stream(self.seed, "uncertainty", "trial", trial.name)
        file = self._trained(data, trial.settings, chance, None)
        model = Ensemble("sgb", self.task, 1, (file,))
        try:
            loss = log_loss_rows(model.members(outside.features), outside)
        except FitError:
            return math.inf
        return float(np.average(loss, weights=outside.weights)) if outside.weights.sum() > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Trial:
    """One cell of the grid, with the log-loss of a single model on held-out rows."""

    settings: Settings
    loss: float

    @property
    def name(self) -> str:
        return f"{self.settings.learning_rate}-{self.settings.depth}"


def log_loss_rows(members: Members, rows: Batch) -> FloatArray:
    """What each row adds to the log-loss of the ensemble: of the mean probability, or of the mixture."""
    if members.variance is not None:
        return mixture_log_loss(members.mean, members.variance, rows.targets)
    return log_loss(decompose(members).mean, rows.labels)
