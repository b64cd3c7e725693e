"""Training an ensemble member by member, or taking a user's model for one; and the content of its artifact."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass

import numpy as np

from calcli.artifacts.checkpoint import Checkpoint
from calcli.artifacts.manifest import JsonObject, Manifest
from calcli.artifacts.strictjson import as_json
from calcli.batch import Batch
from calcli.errors import FitError
from calcli.listener import Listener, stage
from calcli.models import manifests
from calcli.numeric.side_by_side import as_they_come
from calcli.numeric.threads import threads
from calcli.reports.schema import DataFacts, finite
from calcli.tables.binding_types import Binding
from calcli.uncertainty.decomposition import SeenFeatures
from calcli.uncertainty.ensemble import DEPTHS, HELD_OUT, RATES, Ensemble, GridCell, Settings, Task, Trainer, UserModel

CHECKED_ROWS = 10_000
"""How many of the training rows are predicted before an ensemble is kept."""

_KEY_DIGITS = 16


@dataclass(frozen=True, slots=True)
class EnsembleDraft:
    """An ensemble before it is kept: its models, with the settings of their training and the grid that chose them."""

    ensemble: Ensemble
    seen: SeenFeatures
    settings: JsonObject
    trials: tuple[GridCell, ...] = ()


def trainer_of(binding: Binding, rows: Batch, seed: int) -> Trainer:
    """The trainer for these rows."""
    task: Task = "regression" if binding.regression else "binary" if binding.binary else "multiclass"
    if not binding.regression and len(np.unique(rows.labels)) < 2:
        raise FitError("all usable rows have the same class; an ensemble needs two classes or more")
    return Trainer(rows, task, len(binding.classes), seed)


def checkpoint_key(trainer: Trainer, settings: Settings, *, tune: bool) -> str:
    """A hash of all that the bytes of a model depend on."""
    rows = trainer.rows
    facts = {"settings": asdict(settings), "tune": tune, "task": trainer.task, "classes": trainer.classes}
    facts |= {"seed": trainer.seed, "threads": threads(), "versions": manifests.versions("catboost")}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name, column in rows.features.items():
        digest.update(json.dumps([name, column.role, column.levels]).encode())
        digest.update(column.values.tobytes())
    for part in (rows.label, rows.target, rows.weight):
        digest.update(b"-" if part is None else part.tobytes())
    return digest.hexdigest()[:_KEY_DIGITS]


def train_ensemble(
    trainer: Trainer, settings: Settings, saved: Checkpoint, listener: Listener, *, tune: bool
) -> EnsembleDraft:
    """Train the models of an ensemble, except those that an earlier run has saved."""
    # Learning rate and depth.
    trials: tuple[GridCell, ...] = ()
    if tune:
        trials = _tune(trainer, settings, saved, listener)
        settings = min(trials, key=lambda trial: trial.loss).settings
        listener.note(
            f"least log-loss on held-out rows: learning rate {settings.learning_rate}, depth {settings.depth}"
        )
    # The models, each saved as soon as it is trained.
    files = _train_models(trainer, settings, saved, listener)
    # What an artifact keeps.
    ensemble = Ensemble(settings.kind, trainer.task, settings.members, files)
    rate = ensemble.models[0].get_all_params()["learning_rate"]
    resolved = asdict(settings) | {"learning_rate": float(f"{rate:.7g}")}  # CatBoost keeps it as float32
    return EnsembleDraft(ensemble, SeenFeatures.of(trainer.rows.features), resolved, trials)


def _train_models(trainer: Trainer, settings: Settings, saved: Checkpoint, listener: Listener) -> tuple[bytes, ...]:
    names = [f"member-{member}" for member in range(settings.models)]
    files = {name: file for name in names if (file := saved.get(name)) is not None}
    if files:
        listener.note(f"{len(files)} of {settings.models} models are there from a stopped run: resuming")
    pool, todo = trainer.pool(), [member for member, name in enumerate(names) if name not in files]

    def train(member: int) -> bytes:
        return trainer.train(pool, settings, "member", member, each=lambda: listener.advance(1))

    try:
        # An interrupt begins no other model.
        with stage(listener, "training", settings.models * settings.trees), closing(as_they_come(train, todo)) as made:
            listener.advance(len(files) * settings.trees)
            for place, file in made:
                saved.put(names[todo[place]], file)
                files[names[todo[place]]] = file
                listener.advance(0, f"{len(files)} of {settings.models} models")
    except BaseException:
        if files:
            listener.note(f"{len(files)} of {settings.models} models are kept: the same command resumes from there")
        raise
    return tuple(files[name] for name in names)


def _tune(trainer: Trainer, settings: Settings, saved: Checkpoint, listener: Listener) -> tuple[GridCell, ...]:
    """Every cell of the grid; one whose training diverged has an infinite loss."""
    cells = [*trainer.trials(settings)]
    known = {name: float(content) for name, _, _ in cells if (content := saved.get(f"trial-{name}")) is not None}
    todo = [(name, cell, compute) for name, cell, compute in cells if name not in known]
    losses = as_they_come(lambda each: each[2](), todo)
    with stage(listener, "tuning", len(RATES) * len(DEPTHS)), closing(losses):
        listener.advance(len(known))
        for place, loss in losses:
            name, cell, _ = todo[place]
            saved.put(f"trial-{name}", repr(loss).encode())
            known[name] = loss
            listener.advance(1, f"learning rate {cell.learning_rate}, depth {cell.depth}")
    trials = [GridCell(cell, known[name]) for name, cell, _ in cells]
    if not any(math.isfinite(trial.loss) for trial in trials):
        raise FitError("no learning rate and depth gave finite predictions", hint="look for extreme labels")
    return tuple(trials)


def adopt_model(trainer: Trainer, model: UserModel, members: int) -> EnsembleDraft:
    """The user's model as a virtual ensemble."""
    ensemble = Ensemble("virtual", model.task, members, (model.file,), model.names)
    settings = as_json(asdict(Settings("virtual", members, model.trees)))
    resolved: JsonObject = settings | {"depth": model.depth, "learning_rate": model.learning_rate}
    return EnsembleDraft(ensemble, SeenFeatures.of(trainer.rows.features), resolved)


def check_predicts(ensemble: Ensemble, rows: Batch) -> None:
    """Refuse an ensemble that cannot predict the rows that it was trained on."""
    ensemble.members({name: column.take(slice(CHECKED_ROWS)) for name, column in rows.features.items()})


def manifest_of(
    asked: Mapping[str, object],
    data: DataFacts,
    binding: Binding,
    made: EnsembleDraft,
    sides: tuple[JsonObject, ...],
    seed: int,
) -> Manifest:
    """The manifest of a fit, all but the payloads; `asked` is what the user asked for."""
    kind, rows = made.ensemble.kind, data.rows - data.rows_bad
    held_out = {"scheme": f"{HELD_OUT:g}", "rows": round(HELD_OUT * rows), "refit_on_all": True}
    trials = [
        {"learning_rate": trial.settings.learning_rate, "depth": trial.settings.depth, "nll": finite(trial.loss)}
        for trial in made.trials
    ]
    return manifests.manifest_of(
        data,
        binding,
        kind="ensemble",
        task=made.ensemble.task,
        method=kind,
        requested=kind,
        preset=None,
        params={key: value for key, value in made.settings.items() if key != "kind"},
        seed=seed,
        recipe=asked,
        # Ensembles have no score before them: only `--tune` measures, on held-out rows.
        fit={
            "holdout": held_out if made.trials else {"scheme": "none", "rows": 0, "refit_on_all": True},
            "before": {},
            "after": {},
            "difference": {},
            "trials": trials,
        },
        definitions={},
        sides=sides,
        contains_rows=False,
        packages=("catboost",),
    )
