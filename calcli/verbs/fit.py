"""`fit`: learn how wrong the scores are, check it on held-out rows, keep it as an artifact."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from calcli.artifacts import store
from calcli.batch import Batch, FloatArray
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.errors import UsageError
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params, ParamValue
from calcli.methods.calibrator import Calibrator
from calcli.methods.row import Row
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.numeric.links import probabilities
from calcli.tables.binding import Binding, Flags, bind
from calcli.tables.checks import Loaded, load
from calcli.tables.source import Data, Source, open_source
from calcli.verbs.crossfit import predict_held_out
from calcli.verbs.load import Model
from calcli.verbs.measuring import Candidate, class_names, data_facts, measure_all
from calcli.verbs.record import Recipe, manifest_of
from calcli.verbs.report import RAW, Report, ScoreSource, Seconds, Warned
from calcli.verbs.splits import Holdout, split_rows
from calcli.version import VERSION


@dataclass(frozen=True, slots=True)
class FitRequest:
    """What `fit` is asked.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    method
        A name of the catalog.
    output
        The artifact's directory. None is ``<input stem>.<method>`` in the current one; frames are then kept nowhere.
    params
        Parameters of the method that differ from its defaults or its `preset`.
    holdout
        ``cv:5``, ``0.1``, ``none``; None is 5-fold up to a million rows and one 90/10 split above.
    dry_run
        Find out what would be bound to what, and stop.
    """

    data: Data
    method: str
    output: str | Path | None = None
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    preset: str | None = None
    holdout: str | None = None
    metrics: str = "default"
    options: Options = Options()
    flags: Flags = Flags()
    input_format: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class FitResult:
    """What was learned.

    Attributes
    ----------
    binding
        Which column plays which part.
    model
        The calibrator, ready to predict; None after a dry run.
    report
        Before and after, on held-out rows; None after a dry run.
    path
        The artifact, if it was kept.
    """

    binding: Binding
    path: Path | None
    model: Model | None = None
    report: Report | None = None


def fit(request: FitRequest, listener: Listener = SILENT) -> FitResult:
    """Fit a calibrator, measure it on rows that it has not seen, and keep it."""
    row = catalog.find(request.method)
    params = row.resolve(request.params, request.preset)
    chosen = metrics.choose(request.metrics)
    with open_source(request.data, format=request.input_format) as source:
        target = _target(request, source)
        if target is not None:
            store.check_target(target)
        binding = bind(source, request.flags, features=row.needs_features)
        for note in binding.notes:
            listener.note(note)
        if request.dry_run:
            return FitResult(binding, target)
        with stage(listener, "reading"):
            loaded = load(source, binding, features=row.needs_features, bad_rows=request.bad_rows)
        holdout = Holdout.parse(request.holdout, len(loaded.batch))
        checked = _check(row, loaded.batch, params, holdout, request.seed, listener)
        with stage(listener, f"fitting {row.name}"):
            fitted, seconds = _final(row, loaded.batch, params, checked, request.seed)
        report = _report(request, source, binding, loaded, checked, seconds, chosen, target)
    held_out = 0 if checked.prob is None else len(checked.batch)
    manifest = manifest_of(_recipe(request), row, params, binding, report, holdout, held_out)
    if target is not None:
        manifest = store.write(target, manifest, {store.STATE: fitted.to_state()})
    return FitResult(binding, target, Model(target, manifest, binding, None, fitted), report)


@dataclass(frozen=True, slots=True)
class _Checked:
    """The rows on which the method was checked, and what it said of them.

    `final` is the one calibrator of a single split: it is evaluated as it is kept.
    """

    batch: Batch
    prob: FloatArray | None
    seconds: Seconds
    final: Calibrator | None = None


def _check(row: Row, batch: Batch, params: Params, holdout: Holdout, seed: int, listener: Listener) -> _Checked:
    if holdout.kind == "none":
        return _Checked(batch, None, Seconds())
    splits = split_rows(batch.labels, holdout, seed)
    with stage(listener, f"checking {row.name} on held-out rows", len(splits)):
        predicted = predict_held_out(row, batch, params, splits, seed=seed, done=lambda: listener.advance(1))
    seconds = Seconds(fit=predicted.fit_seconds, apply=predicted.apply_seconds)
    final = None if holdout.refit_on_all else predicted.last
    return _Checked(batch.take(splits.predicted), predicted.prob, seconds, final)


def _final(row: Row, batch: Batch, params: Params, checked: _Checked, seed: int) -> tuple[Calibrator, float]:
    """The calibrator that is kept, and the time its fit took."""
    if checked.final is not None:
        return checked.final, checked.seconds.fit or 0.0
    started = time.perf_counter()
    fitted = calibrator.fit(row, batch, params, seed=seed)
    return fitted, time.perf_counter() - started


def _report(
    request: FitRequest,
    source: Source,
    binding: Binding,
    loaded: Loaded,
    checked: _Checked,
    fit_seconds: float,
    chosen: tuple[metrics.Row, ...],
    target: Path | None,
) -> Report:
    candidates = [Candidate(RAW, ScoreSource("raw"), probabilities(checked.batch.score))]
    if checked.prob is not None:
        origin = ScoreSource("method", method=request.method)
        seconds = Seconds(fit=fit_seconds, apply=checked.seconds.apply)
        candidates.append(Candidate(request.method, origin, checked.prob, seconds))
    measured = measure_all(candidates, checked.batch, chosen, request.options, class_names(binding))
    worse = [
        Warned(
            "not-better", f"on held-out rows {request.method} has a log-loss {each.value:+.6f} beside no calibration"
        )
        for each in measured.differences
        if each.metric == "nll" and each.value is not None and each.value > 0
    ]
    return Report(
        command="fit",
        version=VERSION,
        seed=request.seed,
        artifact=None if target is None else str(target),
        chosen=request.method,
        data=data_facts(source, loaded, binding),
        binding=binding.to_json(),
        definitions=measured.definitions,
        scores=measured.scores,
        differences=measured.differences,
        warnings=tuple(worse),
    )


def _recipe(request: FitRequest) -> Recipe:
    return Recipe(
        method=request.method,
        params=request.params,
        preset=request.preset,
        flags=request.flags,
        holdout=request.holdout,
        metrics=request.metrics,
        bad_rows=request.bad_rows,
    )


def _target(request: FitRequest, source: Source) -> Path | None:
    """Where the artifact goes."""
    if request.output is not None:
        return Path(request.output)
    if source.format is None:  # a frame
        return None
    if source.stem is None:
        raise UsageError(
            "the name of the artifact follows from one input file; for several, a directory or stdin it must be given",
            hint=f"try: -o NAME.{request.method}",
        )
    return Path(f"{source.stem}.{request.method}")
