"""`fit`: learn how wrong the scores are, check it on held-out rows, keep it as an artifact."""

from __future__ import annotations

from pathlib import Path

from calcli.artifacts import store
from calcli.batch import Batch
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.options import check_master
from calcli.errors import UsageError
from calcli.fitting.learn import Learned, learn
from calcli.fitting.requests import FitRequest, FitResult, checked, keep, needs_features, warnings_on
from calcli.fitting.side_inputs import load_side_inputs
from calcli.metrics import catalog as metrics
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import Candidate, class_names, measure_all, raw_probabilities, report_on
from calcli.reports.schema import RAW, Report, ScoreSource
from calcli.tables.binding import Binding, bind
from calcli.tables.load import Loaded, load
from calcli.tables.source import Source, open_source


def fit(request: FitRequest, listener: Listener = SILENT) -> FitResult:
    """Fit a calibrator, measure it on rows that it has not seen, and keep it."""
    check_master(request.engine, request.master)
    if request.engine == "spark":
        from calcli.spark.fit import fit as fit_on_spark

        return fit_on_spark(request, listener)
    return _here(request, listener)


def _here(request: FitRequest, listener: Listener) -> FitResult:
    """On this machine."""
    recipe = request.recipe
    chosen, guard = checked(request)
    features = needs_features(recipe)
    with open_source(request.data, format=request.input_format) as source:
        target = target_of(source, request.output, request.method)
        if target is not None:
            store.check_target(target)
        binding = bind(source, request.flags, features=features)
        for note in binding.notes:
            listener.note(note)
        if request.dry_run:
            return FitResult(binding, target)
        with stage(listener, "reading"):
            loaded = load(source, binding, features=features, bad_rows=request.bad_rows)
            beside = load_side_inputs(request.sides, binding)
        learned = learn(
            recipe, loaded.batch, class_names(binding), seed=request.seed, listener=listener, sides=beside.sides
        )
        if learned.choice is not None:
            listener.note(learned.choice.why)
        for remark in learned.calibrator.remarks():
            listener.note(remark)
        report = _report(request, source, binding, loaded, learned, chosen)
    held_out = 0 if learned.rows is None else int(learned.rows.sum())
    ranking, residuals = LabelCheck.of(loaded.batch), learned.residuals(loaded.batch)
    return keep(request, learned, binding, report, guard, target, held_out, ranking, residuals, beside)


def _report(
    request: FitRequest,
    source: Source,
    binding: Binding,
    loaded: Loaded,
    learned: Learned,
    chosen: tuple[metrics.MetricSpec, ...],
) -> Report:
    rows: Batch = learned.held_out(loaded.batch)
    name = learned.row.name
    candidates = [Candidate(RAW, ScoreSource("raw"), raw_probabilities(rows, binding))]
    if learned.prob is not None:
        candidates.append(Candidate(name, ScoreSource("method", method=name), learned.prob, learned.seconds))
    measured = measure_all(candidates, rows, chosen, request.options, class_names(binding))
    warnings = warnings_on(learned, measured.differences)
    return report_on("fit", request.seed, source, loaded, binding, measured, chosen=name, warnings=warnings)


def target_of(source: Source, output: str | Path | None, suffix: str) -> Path | None:
    """Where the artifact goes; by default ``<input stem>.<suffix>``, and nowhere for a frame."""
    if output is not None:
        return Path(output)
    if source.format is None:  # a frame
        return None
    if source.stem is None:
        raise UsageError(
            "the name of the artifact follows from one input file; for several, a directory or stdin it must be given",
            hint=f"try: -o NAME.{suffix}",
        )
    return Path(f"{source.stem}.{suffix}")
