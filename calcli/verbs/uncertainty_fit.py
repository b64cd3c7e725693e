"""`uncertainty fit`: train an ensemble of CatBoost models, and write it to an artifact.

A fit that is killed goes on where it stopped: trained models are saved beside the artifact, under a hash of the rows,
of all settings and of the number of threads, until the artifact is written.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from calcli import extras
from calcli.artifacts import store
from calcli.artifacts.checkpoint import checkpoint
from calcli.artifacts.manifest import JsonObject
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.ensembles.load import EnsembleModel
from calcli.ensembles.train import (
    adopt_model,
    check_predicts,
    checkpoint_key,
    manifest_of,
    states_of,
    train_ensemble,
    trainer_of,
)
from calcli.errors import UsageError
from calcli.fitting.manifest import target_of
from calcli.fitting.side_inputs import read_model
from calcli.places import Url
from calcli.reports.measuring import data_facts
from calcli.tables.binding_types import Binding, Dropped, Flags
from calcli.tables.load import load
from calcli.tables.source import Data, Source, open_source
from calcli.tables.training_binding import Task, bind_unscored, model_features
from calcli.uncertainty.ensemble import Kind, Settings, UserModel, read_user_model
from calcli.uncertainty.training import GridCell


@dataclass(frozen=True, slots=True)
class EnsembleRequest:
    """The request of `uncertainty fit`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame: features and a label, no score.
    output
        The artifact's directory. None is ``<input stem>.<ensemble>`` in the current one; frames are then kept nowhere.
    ensemble
        ``sglb``, ``sgb`` or ``virtual``; None is ``sglb``, or ``virtual`` with a `model`.
    members, trees, depth, learning_rate
        As of `Settings`; None is its default.
    task
        ``class`` or ``regression``; None takes whole numbers with at most 50 different values for classes.
    tune
        Choose learning rate and depth on held-out rows.
    model
        A CatBoost model of the user's, to take as a virtual ensemble; then nothing is trained.
    dry_run
        Bind columns, and stop.
    """

    data: Data
    output: str | Path | None = None
    ensemble: Kind | None = None
    members: int = 10
    trees: int | None = None
    depth: int | None = None
    learning_rate: float | None = None
    task: Task | None = None
    tune: bool = False
    model: str | Path | None = None
    flags: Flags = Flags()
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0
    dry_run: bool = False

    @property
    def recipe(self) -> dict[str, object]:
        """All options, but for the data and where things go."""
        left_out = {"data", "output", "model", "input_format", "delimiter", "seed", "dry_run", "flags"}
        options = {name: getattr(self, name) for name in self.__slots__ if name not in left_out}
        return options | {"flags": asdict(self.flags)}

    def settings(self) -> Settings:
        """The settings, as far as they are known before any rows are read."""
        kind = self.ensemble or ("virtual" if self.model is not None else "sglb")
        if self.model is not None:
            self._refuse_training(kind)
            return Settings("virtual", self.members, trees=2 * self.members)
        if self.tune and (self.depth is not None or self.learning_rate is not None):
            raise UsageError("--tune chooses --depth and --learning-rate", hint="leave them out")
        default = Settings()
        return Settings(
            kind,
            self.members,
            default.trees if self.trees is None else self.trees,
            default.depth if self.depth is None else self.depth,
            self.learning_rate,
        )

    def _refuse_training(self, kind: Kind) -> None:
        if kind != "virtual":
            raise UsageError(
                f"--model is one model, but --ensemble {kind} trains several",
                hint="leave out --ensemble to use it as a virtual ensemble",
            )
        trained = {"--trees": self.trees, "--depth": self.depth, "--learning-rate": self.learning_rate}
        given = [flag for flag, value in trained.items() if value is not None] + ["--tune"] * self.tune
        if given:
            raise UsageError(f"{given[0]} is for training, but --model is already trained", hint="leave it out")


@dataclass(frozen=True, slots=True)
class EnsembleResult:
    """The ensemble, and how it was trained.

    Attributes
    ----------
    binding
        Which column plays which part.
    path
        The artifact, if it was kept; after a dry run, where it would be.
    model
        The ensemble, ready to predict; None after a dry run.
    trials
        The loss of each learning rate and depth, where they were tuned.
    seconds
        How long training took.
    warnings
        For a careful reader.
    """

    binding: Binding
    path: Path | Url | None
    model: EnsembleModel | None = None
    trials: tuple[GridCell, ...] = ()
    seconds: float = 0.0
    warnings: tuple[str, ...] = ()


def fit(request: EnsembleRequest, listener: Listener = SILENT) -> EnsembleResult:
    """Train an ensemble, or take a model for one, and keep it."""
    settings = request.settings()
    extras.require("catboost", "an ensemble")
    user_model, side = _user_model(request)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        target = target_of(source, request.output, settings.kind)
        binding = _bind(source, request, user_model)
        if request.dry_run:
            return EnsembleResult(binding, target)
        for note in binding.notes:
            listener.note(note)
        with stage(listener, "reading"):
            loaded = load(source, binding, features=True, bad_rows=request.bad_rows)
        # The ensemble: models that a killed run has saved are not trained again.
        started = time.perf_counter()
        trainer = trainer_of(binding, loaded.batch, request.seed)
        with checkpoint(target, checkpoint_key(trainer, settings, tune=request.tune)) as saved:
            if user_model is None:
                trained = train_ensemble(trainer, settings, saved, listener, tune=request.tune)
            else:
                trained = adopt_model(trainer, user_model, request.members)
            seconds = time.perf_counter() - started
            check_predicts(trained.ensemble, loaded.batch)
            # The artifact. Once it is written, the saved models are not needed any more.
            facts = data_facts(loaded)
            manifest = manifest_of(request.recipe, facts, binding, trained, side, request.seed)
            if target is not None:
                manifest = store.write(target, manifest, states_of(trained, user_model))
            saved.finish()
    model = EnsembleModel(target, manifest, binding, None, trained.ensemble, trained.seen)
    return EnsembleResult(binding, target, model, trained.trials, seconds, _warnings(request, user_model))


def _user_model(request: EnsembleRequest) -> tuple[UserModel | None, tuple[JsonObject, ...]]:
    if request.model is None:
        return None, ()
    content, fact = read_model(request.model)
    return read_user_model(content, str(request.model), request.members), (fact,)


def _bind(source: Source, request: EnsembleRequest, model: UserModel | None) -> Binding:
    """The binding; a user's model decides on the task, the classes and their order, and on the features."""
    if model is None:
        return bind_unscored(source, request.flags, task=request.task)
    flags = request.flags
    if model.classes:
        positive = model.classes[1] if len(model.classes) == 2 else None
        flags = replace(flags, classes=model.classes, positive=flags.positive or positive)
        if flags.positive != positive:
            raise UsageError(
                f"--positive {flags.positive}: the classes of the model are {positive}", hint="leave it out"
            )
    binding = bind_unscored(source, flags, task="class" if model.classes else "regression")
    chosen = binding.features if flags.features is not None else None
    features = model_features(source, model.names, model.categories, chosen)
    used = {feature.name for feature in features}
    rest = tuple(
        Dropped(feature.name, "not read by the model") for feature in binding.features if feature.name not in used
    )
    return replace(binding, features=features, dropped=(*binding.dropped, *rest))


def _warnings(request: EnsembleRequest, model: UserModel | None) -> tuple[str, ...]:
    if model is None or model.posterior:
        return ()
    return (
        f"{request.model} was not trained with posterior sampling: its members are no sample of models that fit the "
        "rows, and their disagreement says less about what is not known",
    )
