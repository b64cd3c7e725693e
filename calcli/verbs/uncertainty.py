"""`uncertainty fit` trains an ensemble of CatBoost models and writes it to an artifact; `uncertainty evaluate` measures
how well ensembles predict, and how well their uncertainty finds errors and foreign rows.

A fit that is killed goes on where it stopped: trained models are saved beside the artifact, under a hash of the rows,
of all settings and of the number of threads, until the artifact is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, cast

from calcli import extras
from calcli.artifacts import store
from calcli.artifacts.checkpoint import checkpoint
from calcli.artifacts.manifest import JsonObject
from calcli.batch import Batch, Column, FloatArray
from calcli.diagrams.image import FORMATS, image_format_of
from calcli.errors import DataError, UsageError
from calcli.files import base_name
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.models.base import Given, name_of
from calcli.models.ensemble import EnsembleModel, load_ensemble
from calcli.models.ensemble_training import (
    adopt_model,
    check_predicts,
    checkpoint_key,
    manifest_of,
    train_ensemble,
    trainer_of,
)
from calcli.models.requests import target_of
from calcli.models.side_inputs import read_model
from calcli.places import Url
from calcli.reports.measuring import data_facts, report_on
from calcli.reports.schema import DataFacts, Report, ReportWarning
from calcli.tables.binding import Task, bind_unscored
from calcli.tables.binding_types import Binding, Dropped, Flags
from calcli.tables.features import model_features
from calcli.tables.load import load as load_rows
from calcli.tables.request import RowsRequest, open_table
from calcli.tables.side_tables import load_auxiliary, load_numbers
from calcli.tables.source import Data, Source, open_source
from calcli.uncertainty.decomposition import SeenFeatures, make
from calcli.uncertainty.ensemble import GridCell, Kind, Settings, UserModel, read_user_model
from calcli.verbs.ensemble_metrics import EnsembleMetrics, compare_ensemble, draw, measurements


@dataclass(frozen=True, slots=True)
class EnsembleRequest(RowsRequest):
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


@dataclass(frozen=True, slots=True, repr=False)
class EnsembleResult(Brief):
    """The ensemble, and how it was trained."""

    binding: Binding
    """Which column plays which part."""

    path: Path | Url | None
    """The artifact, if it was kept; after a dry run, where it would be."""

    model: EnsembleModel | None = None
    """The ensemble, ready to predict; None after a dry run."""

    trials: tuple[GridCell, ...] = ()
    """The loss of each learning rate and depth, where they were tuned."""

    seconds: float = 0.0
    """How long training took."""

    warnings: tuple[str, ...] = ()


def fit(request: EnsembleRequest, listener: Listener = SILENT) -> EnsembleResult:
    """Train an ensemble, or take a model for one, and keep it."""
    settings = request.settings()
    extras.require("catboost", "an ensemble")
    user_model: UserModel | None = None
    side: tuple[JsonObject, ...] = ()
    if request.model is not None:
        content, fact = read_model(request.model)
        user_model, side = read_user_model(content, str(request.model), request.members), (fact,)
    with open_table(request) as source:
        target = target_of(source, request.output, settings.kind)
        binding = _bind(source, request, user_model)
        if request.dry_run:
            return EnsembleResult(binding, target)
        for note in binding.notes:
            listener.note(note)
        with stage(listener, "reading"):
            loaded = load_rows(source, binding, features=True, bad_rows=request.bad_rows)
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
            model = EnsembleModel(target, manifest, binding, None, trained.ensemble, trained.seen)
            if target is not None:
                model = replace(model, manifest=store.write(target, manifest, model.states))
            saved.finished = True
    warnings: tuple[str, ...] = ()
    if user_model is not None and not user_model.posterior:
        warnings = (
            f"{request.model} was not trained with posterior sampling: its members are no sample of models that fit "
            "the rows, and their disagreement says less about what is not known",
        )
    return EnsembleResult(binding, target, model, trained.trials, seconds, warnings)


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


COMMAND = "uncertainty evaluate"

Preset = Literal["paper"]


@dataclass(frozen=True, slots=True)
class EnsembleEvaluateRequest(RowsRequest):
    """The request of `uncertainty evaluate`.

    Attributes
    ----------
    data
        Rows with labels that the ensembles were not trained on.
    ood
        Rows from out of the domain, with the same features; no label is needed.
    make_ood
        A table of something else: such rows are made from its numbers.
    preset
        ``paper``: made rows get the mean and deviation of the rows in `data`, not of those trained on, and come from
        the first rows of `make_ood`, as in the authors' code.
    output
        A file in which to draw the rejection curves: ``.png``, ``.svg`` or ``.pdf``.
    """

    data: Data
    ensembles: Sequence[Given]
    ood: Data | None = None
    make_ood: Data | None = None
    preset: Preset | None = None
    output: str | Path | None = None
    seed: int = 0
    bootstrap: int = 0

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.output is not None:
            image_format_of(self.output, FORMATS)
        if not self.ensembles:
            raise UsageError("which ensemble?", hint="name one or more: --with DIR")
        if self.ood is not None and self.make_ood is not None:
            raise UsageError("--ood and --make-ood are both given", hint="keep one")
        if self.preset is not None and self.make_ood is None:
            raise UsageError("--preset paper is for --make-ood", hint="add --make-ood FILE")


def evaluate(request: EnsembleEvaluateRequest, listener: Listener = SILENT) -> Report:
    """Measure each ensemble, and the single model that one would have without it, on the same rows."""
    request.check()
    models = _load_named(request.ensembles)
    with open_table(request) as source:
        # The rows, with the features that any of the ensembles reads.
        binding = _common_binding(source, request.flags, models)
        for note in binding.notes:
            listener.note(note)
        with stage(listener, "reading"):
            loaded = load_rows(source, binding, features=True, bad_rows=request.bad_rows)
            foreign = None
            if request.make_ood is not None:
                with open_source(request.make_ood) as other:
                    foreign = load_numbers(other)
        rows = loaded.batch
        if not rows.weights.sum() > 0:
            raise DataError("the weights add up to zero: no row counts")
        # Each ensemble on these rows, and on rows from out of its domain.
        measured: list[EnsembleMetrics] = []
        with stage(listener, "predicting", len(models)):
            for name, model in models.items():
                outside = _outside(request, model, rows, foreign)
                measured += compare_ensemble(name, model, rows, outside)
                listener.advance(1, name)
        # The report, and its picture.
        facts = data_facts(loaded)
        warnings = tuple(_seen_warnings(models, facts))
        with stage(listener, "measuring"):
            numbers = measurements(measured, rows, request.bootstrap, request.seed)
        report = report_on(COMMAND, request.seed, facts, binding, numbers, warnings=warnings)
    if request.output is not None:
        with stage(listener, "drawing"):
            draw(report, request.output)
    return report


def _load_named(ensembles: Sequence[Given]) -> dict[str, EnsembleModel]:
    """The ensembles by the name they have in the report: as given, or the base name of the directory."""
    models: dict[str, EnsembleModel] = {}
    for given in ensembles:
        name, separator, path = given.partition("=") if isinstance(given, str) else ("", "", name_of(given))
        if not separator:
            path = path or name
            name = base_name(path)
        if name in models:
            raise UsageError(f"two ensembles are named {name!r}", hint=f"try: --with NAME={path}")
        models[name] = load_ensemble(path if isinstance(given, str) else given)
    return models


def _common_binding(source: Source, flags: Flags, models: Mapping[str, EnsembleModel]) -> Binding:
    """The binding under which all ensembles can be applied: the first's, with the features of all."""
    names = list(models)
    first = models[names[0]].binding
    features = {feature.name: feature for feature in first.features}
    for name in names[1:]:
        other = models[name].binding
        if (other.classes, other.positive) != (first.classes, first.positive):
            raise UsageError(f"{name} and {names[0]} have different tasks", hint="evaluate it on its own")
        if flags.label is None and other.label != first.label:
            raise UsageError(
                f"{name} was fitted with the label {other.label}, not {first.label}", hint="evaluate it on its own"
            )
        for feature in other.features:
            if features.setdefault(feature.name, feature).role != feature.role:
                raise UsageError(
                    f"{name} takes {feature.name!r} as a {feature.role}, and {names[0]} does not",
                    hint="evaluate it on its own",
                )
    return bind_unscored(source, flags, known=replace(first, features=tuple(features.values())))


def _outside(
    request: EnsembleEvaluateRequest, model: EnsembleModel, rows: Batch, foreign: FloatArray | None
) -> Mapping[str, Column] | None:
    """The features of rows from out of the domain, if there are to be any."""
    if request.ood is not None:
        with open_source(request.ood) as source:
            return load_auxiliary(source, replace(model.binding, label=None), label=False).features
    if foreign is None:
        return None
    paper = request.preset == "paper"
    seen = SeenFeatures.of({name: rows.features[name] for name in model.features}) if paper else model.seen
    return make(model.features, seen, foreign, len(rows), seed=request.seed, first=paper)


def _seen_warnings(models: Mapping[str, EnsembleModel], facts: DataFacts) -> Iterator[ReportWarning]:
    measured = {file["sha256"] for file in facts.files}
    for name, model in models.items():
        trained = cast("list[dict[str, object]]", model.manifest.data.get("files", []))
        if measured & {file["sha256"] for file in trained}:
            yield ReportWarning(
                "training-rows", f"{name} was trained on these rows: on others it is worse than this says"
            )
