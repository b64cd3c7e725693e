"""`uncertainty evaluate`: how well ensembles predict, and how well their uncertainty finds errors and foreign rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

from calcli import extras
from calcli.batch import Batch, Column, FloatArray
from calcli.diagrams.image import image_format_of
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.ensembles.load import EnsembleModel, load_ensemble
from calcli.ensembles.metrics import EnsembleMetrics, compare_ensemble, measurements
from calcli.ensembles.picture import FORMATS, draw
from calcli.errors import DataError, UsageError
from calcli.files import base_name
from calcli.reports.measuring import data_facts, report_on
from calcli.reports.schema import DataFacts, Report, ReportWarning
from calcli.tables.auxiliary import load_auxiliary, load_numbers
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import load as load_rows
from calcli.tables.source import Data, Source, open_source
from calcli.tables.training_binding import bind_unscored
from calcli.uncertainty.ood import SeenFeatures, make

COMMAND = "uncertainty evaluate"

Preset = Literal["paper"]


@dataclass(frozen=True, slots=True)
class EnsembleEvaluateRequest:
    """The request of `uncertainty evaluate`.

    Attributes
    ----------
    data
        Rows with labels that the ensembles were not trained on.
    ensembles
        Directories, each as ``DIR`` or ``NAME=DIR``.
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
    ensembles: tuple[str, ...]
    ood: Data | None = None
    make_ood: Data | None = None
    preset: Preset | None = None
    output: str | Path | None = None
    flags: Flags = Flags()
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0

    def check(self) -> None:
        """Refuse options that exclude each other."""
        if self.output is not None:
            extras.require("matplotlib", f"a picture as {image_format_of(self.output, FORMATS)}")
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
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        # The rows, with the features that any of the ensembles reads.
        binding = _common_binding(source, request.flags, models)
        for note in binding.notes:
            listener.note(note)
        with stage(listener, "reading"):
            loaded = load_rows(source, binding, features=True, bad_rows=request.bad_rows)
            foreign = None if request.make_ood is None else _numbers(request.make_ood)
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
        warnings = tuple(_warnings(models, facts))
        report = report_on(COMMAND, request.seed, facts, binding, measurements(measured, rows), warnings=warnings)
    if request.output is not None:
        with stage(listener, "drawing"):
            draw(report, request.output)
    return report


def _load_named(ensembles: Sequence[str]) -> dict[str, EnsembleModel]:
    """The ensembles by the name they have in the report: as given, or the base name of the directory."""
    models: dict[str, EnsembleModel] = {}
    for text in ensembles:
        name, separator, path = text.partition("=")
        if not separator:
            name, path = base_name(text), text
        if name in models:
            raise UsageError(f"two ensembles are named {name!r}", hint=f"try: --with NAME={path}")
        models[name] = load_ensemble(path)
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


def _numbers(data: Data) -> FloatArray:
    with open_source(data) as source:
        return load_numbers(source)


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


def _warnings(models: Mapping[str, EnsembleModel], facts: DataFacts) -> Iterator[ReportWarning]:
    measured = {file["sha256"] for file in facts.files}
    for name, model in models.items():
        trained = cast("list[dict[str, object]]", model.manifest.data.get("files", []))
        if measured & {file["sha256"] for file in trained}:
            yield ReportWarning(
                "training-rows", f"{name} was trained on these rows: on others it is worse than this says"
            )
