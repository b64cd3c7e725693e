"""`evaluate`: how good are these scores, and does an artifact make them better?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from calcli.batch import Batch, FloatArray
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.errors import UsageError
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.tables.binding import Binding, Flags, bind
from calcli.tables.checks import Loaded
from calcli.tables.checks import load as load_rows
from calcli.tables.source import Data, Source, open_source
from calcli.verbs.columns import groups, ranks
from calcli.verbs.gate import judge, parse
from calcli.verbs.load import Model, load
from calcli.verbs.measuring import (
    Candidate,
    Resampling,
    class_names,
    data_facts,
    measure_all,
    measure_groups,
    raw_probabilities,
)
from calcli.verbs.report import RAW, Report, ScoreSource, Seconds
from calcli.version import VERSION


@dataclass(frozen=True, slots=True)
class EvaluateRequest:
    """What `evaluate` is asked.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    artifacts
        Directories, each as ``DIR`` or ``NAME=DIR``.
    metrics
        ``default``, ``all``, or names separated by commas.
    bootstrap
        How often rows are drawn anew for intervals; 0 for none.
    resample_by
        A column whose values are drawn together: rows of one user, one day.
    by
        Columns; the metrics are shown within each of their values too.
    fail_if
        Expressions; the report's `gates` say of which numbers they are true.
    allow_null
        Let a gate pass over a number that is not defined.
    """

    data: Data
    artifacts: tuple[str, ...] = ()
    metrics: str = "default"
    options: Options = Options()
    bootstrap: int = 0
    resample_by: str | None = None
    by: tuple[str, ...] = ()
    fail_if: tuple[str, ...] = ()
    allow_null: bool = False
    flags: Flags = Flags()
    input_format: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0


def evaluate(request: EvaluateRequest, listener: Listener = SILENT) -> Report:
    """Measure the raw score and each artifact's on the same rows."""
    chosen = metrics.choose(request.metrics)
    gates = [parse(expression) for expression in request.fail_if]
    models = named_models(request.artifacts)
    with open_source(request.data, format=request.input_format) as source:
        features = any(model.needs_features for model in models.values())
        binding = common_binding(source, request.flags, models, features=features)
        for note in binding.notes:
            listener.note(note)
        with stage(listener, "reading"):
            loaded = load_rows(source, binding, features=features, bad_rows=request.bad_rows, check_scale=not models)
            resampling = _resampling(request, source, loaded)
            parts = [(column, groups(source, column, loaded)) for column in request.by]
        with stage(listener, "measuring"):
            candidates = [Candidate(RAW, ScoreSource("raw"), raw_probabilities(loaded.batch, binding))]
            candidates += [_candidate(name, model, loaded.batch) for name, model in models.items()]
            names = class_names(binding)
            measured = measure_all(candidates, loaded.batch, chosen, request.options, names, resampling=resampling)
            grouped = [
                entry
                for column, part in parts
                for entry in measure_groups(candidates, loaded.batch, chosen, request.options, names, column, part)
            ]
        report = Report(
            command="evaluate",
            version=VERSION,
            seed=request.seed,
            data=data_facts(source, loaded, binding),
            binding=binding.to_json(),
            definitions=measured.definitions,
            scores=measured.scores,
            differences=measured.differences,
            groups=tuple(grouped),
        )
    judged = judge(gates, report, allow_null=request.allow_null)
    return replace(report, gates=tuple(result.to_json() for result in judged))


def _resampling(request: EvaluateRequest, source: Source, loaded: Loaded) -> Resampling | None:
    if request.bootstrap == 0:
        if request.resample_by is not None:
            raise UsageError("--resample-by says what is drawn, but nothing is", hint="add --bootstrap 1000")
        return None
    units = None
    if request.resample_by is not None:
        units = ranks(source, request.resample_by, loaded, "--resample-by")
    return Resampling(request.bootstrap, request.seed, units)


def named_models(artifacts: Sequence[str]) -> dict[str, Model]:
    """The models by the name they have in the report: as given, or the base name of the directory."""
    models: dict[str, Model] = {}
    for text in artifacts:
        name, separator, path = text.partition("=")
        if not separator:
            name, path = Path(text).resolve().name, text
        if name == RAW:
            raise UsageError(f"'{RAW}' is the name of the uncalibrated score", hint=f"try: --with NAME={path}")
        if name in models:
            raise UsageError(f"two scores are named {name!r}", hint=f"try: --with NAME={path}")
        models[name] = load(path)
    return models


def common_binding(source: Source, flags: Flags, models: dict[str, Model], *, features: bool) -> Binding:
    """The binding under which all models can be applied: that of the first, if there is one."""
    known = next(iter(models.values())).binding if models else None
    binding = bind(source, flags, known=known, features=features)
    for name, model in models.items():
        if model.binding.classes != binding.classes:
            raise UsageError(
                f"{name} was fitted on the classes {_listed(model.binding.classes)}, not on {_listed(binding.classes)}",
                hint="evaluate it on its own",
            )
        if model.binding.score != binding.score:
            theirs, ours = model.binding.score, binding.score
            raise UsageError(
                f"{name} reads the {theirs.kind} in {_listed(theirs.columns)}, not the {ours.kind} in "
                f"{_listed(ours.columns)}, which is what is evaluated here",
                hint="evaluate it on its own",
            )
    return binding


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(str, names))


def _candidate(name: str, model: Model, batch: Batch) -> Candidate:
    started = time.perf_counter()
    prob: FloatArray = model.calibrator.predict(batch)
    source = ScoreSource("artifact", path=str(model.path), method=model.method, sha256=model.sha256)
    return Candidate(name, source, prob, Seconds(apply=time.perf_counter() - started))
