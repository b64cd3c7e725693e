"""How an ensemble comes about: trained, member by member, or taken from a model that the user has."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.checkpoint import Checkpoint
from calcli.artifacts.manifest import JsonObject
from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch
from calcli.engines.listener import Listener, stage
from calcli.errors import FitError
from calcli.fitting.manifest import versions
from calcli.numeric.threads import threads
from calcli.state import State, nest
from calcli.tables.binding import Binding
from calcli.uncertainty.ensemble import Ensemble
from calcli.uncertainty.ood import SeenColumn
from calcli.uncertainty.settings import DEPTHS, RATES, Settings, Task
from calcli.uncertainty.training import Trainer, Trial
from calcli.uncertainty.user_models import UserModel

if TYPE_CHECKING:
    from catboost import Pool

CHECKED_ROWS = 10_000
"""So many of the training rows are predicted before an ensemble is kept."""

_KEY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class TrainedEnsemble:
    """An ensemble, and how it came about; settings as they were resolved."""

    ensemble: Ensemble
    seen: SeenColumn
    settings: JsonObject
    trials: tuple[Trial, ...] = ()


def trainer_of(binding: Binding, rows: Batch, seed: int) -> Trainer:
    """What is to be trained on these rows."""
    task: Task = "regression" if binding.regression else "binary" if binding.binary else "multiclass"
    if not binding.regression and len(np.unique(rows.labels)) < 2:
        raise FitError("all rows that can be used are of one class: there is nothing to tell apart")
    return Trainer(rows, task, len(binding.classes), seed)


def key_of(trainer: Trainer, settings: Settings, *, tune: bool) -> str:
    """A hash of all that the bytes of a model depend on."""
    rows = trainer.rows
    asked = {"settings": asdict(settings), "tune": tune, "task": trainer.task, "classes": trainer.classes}
    about = asked | {"seed": trainer.seed, "threads": threads(), "versions": versions("catboost")}
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, column in rows.features.items():
        digest.update(json.dumps([name, column.role, column.levels]).encode())
        digest.update(column.values.tobytes())
    for part in (rows.label, rows.target, rows.weight):
        digest.update(b"-" if part is None else part.tobytes())
    return digest.hexdigest()[:_KEY_DIGITS]


def trained(
    trainer: Trainer, settings: Settings, kept: Checkpoint, listener: Listener, *, tune: bool
) -> TrainedEnsemble:
    """Train every member that an earlier run has not left behind."""
    trials: tuple[Trial, ...] = ()
    if tune:
        trials = _tuned(trainer, settings, kept, listener)
        settings = min(trials, key=lambda trial: trial.loss).settings
        listener.note(
            f"least log-loss on held-out rows: learning rate {settings.learning_rate}, depth {settings.depth}"
        )
    found = {place: file for place in range(settings.models) if (file := kept.get(_part(place))) is not None}
    if found:
        listener.note(f"{len(found)} of {settings.models} models are there from a run that was stopped: going on")
    data = trainer.pool()
    try:
        with stage(listener, "training", settings.models):
            listener.advance(len(found))
            for place in range(settings.models):
                if place not in found:
                    found[place] = _one(trainer, data, settings, place, listener)
                    kept.put(_part(place), found[place])
                    listener.advance(1)
    except BaseException:
        if found:
            listener.note(f"{len(found)} of {settings.models} models are kept: the same command goes on from there")
        raise
    files = tuple(found[place] for place in range(settings.models))
    ensemble = Ensemble(settings.kind, trainer.task, settings.members, files)
    rate = ensemble.models[0].get_all_params()["learning_rate"]
    resolved = asdict(settings) | {"learning_rate": float(f"{rate:.7g}")}  # CatBoost keeps it as float32
    return TrainedEnsemble(ensemble, SeenColumn.of(trainer.rows.features), resolved, trials)


def _one(trainer: Trainer, data: Pool, settings: Settings, place: int, listener: Listener) -> bytes:
    with stage(listener, f"model {place + 1} of {settings.models}", settings.trees):
        return trainer.member(data, settings, place, lambda: listener.advance(1))


def _tuned(trainer: Trainer, settings: Settings, kept: Checkpoint, listener: Listener) -> tuple[Trial, ...]:
    """Every cell of the grid; one whose training diverged has an infinite loss."""

    def known(name: str) -> float | None:
        found = kept.get(f"trial-{name}")
        return None if found is None else float(found)

    trials: list[Trial] = []
    with stage(listener, "tuning", len(RATES) * len(DEPTHS)):
        for trial in trainer.trials(settings, known):
            if known(trial.name) is None:
                kept.put(f"trial-{trial.name}", repr(trial.loss).encode())
            trials.append(trial)
            listener.advance(1, f"learning rate {trial.settings.learning_rate}, depth {trial.settings.depth}")
    if not any(math.isfinite(trial.loss) for trial in trials):
        raise FitError("no learning rate and depth gave finite predictions", hint="look for extreme labels")
    return tuple(trials)


def taken(trainer: Trainer, own: UserModel, members: int) -> TrainedEnsemble:
    """The user's model as an ensemble."""
    ensemble = Ensemble("virtual", own.task, members, (own.file,), own.names)
    settings = as_json(asdict(Settings("virtual", members, own.trees)))
    known: JsonObject = {"depth": own.depth, "learning_rate": own.learning_rate}
    return TrainedEnsemble(ensemble, SeenColumn.of(trainer.rows.features), settings | known)


def _part(place: int) -> str:
    return f"member-{place}"


def check(ensemble: Ensemble, rows: Batch) -> None:
    """What cannot predict the rows that it was trained on is not kept."""
    ensemble.members({name: column.take(slice(CHECKED_ROWS)) for name, column in rows.features.items()})


def states_of(made: TrainedEnsemble, own: UserModel | None) -> dict[str, State]:
    """What the artifact keeps; a user's model beside the state and unchanged, as its hash is its identity."""
    ensemble = made.ensemble.to_state()
    if own is None:
        return {store.STATE: nest({"ensemble": ensemble, "seen": made.seen.to_state()})}
    state = nest({"ensemble": replace(ensemble, blobs={}), "seen": made.seen.to_state()})
    return {store.STATE: state, "model": State(blobs={"model.cbm": own.file})}
