"""`fit`: learn how wrong the scores are, check it on held-out rows, keep it as an artifact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from calcli.errors import UsageError
from calcli.files import as_text
from calcli.listener import SILENT, Listener
from calcli.methods import catalog
from calcli.metrics import catalog as metrics
from calcli.models.calibrator import CalibratorModel
from calcli.models.cluster import cluster
from calcli.models.learn import FitOutcome, learn
from calcli.models.multi import MultiModel
from calcli.models.recipe import AUTO
from calcli.models.requests import FitRequest, FitResult, keep, target_of
from calcli.models.trial import AS_IT_IS, Contender, Judgement, Trial, TrialRows, TrialTable, bind_trial
from calcli.places import Url
from calcli.reports.groups import LabelCheck, score_warnings, unit_warnings
from calcli.reports.measuring import raw_probabilities, report_on
from calcli.reports.schema import Report
from calcli.reports.several import of_labels
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import judge_scale
from calcli.tables.pairs import joint_binding, label_tables, name_of_labels
from calcli.tables.request import check_master, open_table


def fit(request: FitRequest, listener: Listener = SILENT) -> FitResult:
    """Fit a calibrator, measure it on rows that it has not seen, and keep it."""
    check_master(request.engine, request.master, request.sample)
    # Check the request before any rows are read.
    request.check()
    several = request.flags.multi is not None
    if several and request.engine != "local":
        raise UsageError("--multi is for one machine", hint="leave it out, and fit one label: --label L --prob P")
    if request.engine == "local":
        with trial_rows(request, request.flags, request.resample_by, listener) as rows:
            target = target_of(rows.source, request.output, request.method)
            return (_fit_each if several else _fit)(request, rows, target, listener)

    engine = cluster(request.engine)
    with engine.fitting(request):
        found = engine.fit_from_sums(request, listener)
        if found is not None:
            return found
        with trial_rows(request, request.flags, request.resample_by, listener, method=request.method) as rows:
            return _fit(request, rows, target_of(rows.source, request.output, request.method), listener)


@contextmanager
def trial_rows(
    request: TrialTable,
    flags: Flags,
    unit: str | None,
    listener: Listener,
    known: Binding | None = None,
    method: str = AUTO,
) -> Iterator[TrialRows]:
    """The rows that calibrators are learned on, here or on a cluster. `unit` is the column whose values stay whole."""
    if request.engine == "local":
        with open_table(request) as source:
            yield TrialRows(source)
        return
    most = None if method == AUTO else catalog.find(method).sampled
    with cluster(request.engine).sampled_table(request, flags, unit, listener, known, most) as sample:
        yield sample


def _fit_each(request: FitRequest, rows: TrialRows, target: Path | Url | None, listener: Listener) -> FitResult:
    """Fit a calibrator for each of several labels; one artifact has them all, or none if the guard refuses one."""
    tables = label_tables(rows.source, request.flags, listener)
    requests = {name: replace(request, flags=one.flags) for name, one in tables.items()}
    # Bind the columns of all labels before a calibrator is fitted.
    bindings = [_bound(requests[name], TrialRows(one.source), SILENT) for name, one in tables.items()]
    pattern = name_of_labels(request.flags)
    if request.dry_run:
        return FitResult(joint_binding(pattern, bindings), target)
    results = {}
    for name, one in tables.items():
        listener.note(f"label {name}")
        results[name] = _fit(requests[name], TrialRows(one.source), None, listener)
    models = {name: result.model for name, result in results.items() if isinstance(result.model, CalibratorModel)}
    reports = {name: result.report for name, result in results.items() if result.report is not None}
    report = of_labels(pattern, reports, joint_binding(pattern, bindings), rows.source.rows(), request.method)
    model = MultiModel.of(None, models, request, report.data, request.seed)
    refused = [f"{name}: {result.refused}" for name, result in results.items() if result.refused is not None]
    if target is not None and not refused:
        model.save(target)
        model, report = replace(model, path=target), replace(report, artifact=as_text(target))
    return FitResult(model.binding, None if refused else target, model, report, "; ".join(refused) or None)


def _bound(request: FitRequest, rows: TrialRows, listener: Listener) -> Binding:
    binding = bind_trial(rows.source, request, listener, features=request.needs_features)
    request.check_installed(request.sides.roles, len(binding.features))
    return binding


def _fit(request: FitRequest, rows: TrialRows, target: Path | Url | None, listener: Listener) -> FitResult:
    """Fit on these rows; if they are a sample, measure on the others."""
    _, guard = request.check()
    # Bind columns to roles.
    binding = _bound(request, rows, listener)
    if request.dry_run:
        judge_scale(rows.source, binding)
        return FitResult(binding, target)
    for note in binding.notes:
        listener.note(note)
    trial, learned, report = tried(request, rows, binding, listener)

    # Keep it, unless the guard refuses.
    return keep(request, learned, binding, report, guard, target, trial.sides)


def tried(
    request: FitRequest, rows: TrialRows, binding: Binding, listener: Listener
) -> tuple[Trial, FitOutcome, Report]:
    """The trial of a fit, the calibrator that was learned, and the report on rows that it has not seen."""
    trial = Trial.read(
        rows,
        binding,
        request,
        request.sides,
        listener,
        features=request.needs_features,
        check_scale=request.check_scale,
    )

    # Learn: select a method, predict held-out rows, fit.
    others = rows.measures(request)
    recipe, sides = replace(request, holdout="none") if others else request, trial.sides.sides
    learned = learn(recipe, trial.batch, trial.classes, seed=request.seed, listener=listener, sides=sides)
    learned = replace(learned, sampled=rows.sampled)
    if learned.choice is not None:
        for text in filter(None, (learned.choice.why, learned.choice.cost)):
            listener.note(text)
    for remark in learned.calibrator.remarks():
        listener.note(remark)

    # Measure the raw score and the calibrated one on the held-out rows.
    chosen, new = metrics.choose(request.metrics), Contender.learned(learned)
    judgement = Judgement(chosen, request.options, main=learned.spec.name)
    if others:
        measured, data, sums = trial.elsewhere([AS_IT_IS, new], judgement)
        learned = sums.learned(learned)
    else:
        contenders = [AS_IT_IS] if new.prob is None else [AS_IT_IS, new]
        held_out = learned.held_out(trial.batch)
        measured, data = trial.here(contenders, judgement, held_out, learned.folds)
        measured = replace(measured, differences=learned.allowing_for_choice(measured.differences))
    # How well the raw scores rank all rows is in the report where these are the rows that were measured.
    raw = {} if others or held_out is not trial.batch or learned.folds else measured.scores[0].metrics
    known = LabelCheck.of_area(raw["auc"].value, trial.batch) if "auc" in raw else LabelCheck.of(trial.batch)
    learned = replace(learned, label_check=known)
    report = report_on(
        "fit",
        request.seed,
        data,
        binding,
        measured,
        chosen=learned.spec.name,
        warnings=(
            *score_warnings(learned.label_check, raw_probabilities(trial.batch), binding),
            *unit_warnings(trial.loaded),
            *learned.warnings(measured.differences),
        ),
    )
    return trial, learned, report
