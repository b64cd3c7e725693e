"""`fit`: learn how wrong the scores are, check it on held-out rows, keep it as an artifact."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.options import check_master
from calcli.fitting.learn import learn
from calcli.fitting.manifest import keep, target_of
from calcli.fitting.requests import FitRequest, FitResult
from calcli.fitting.side_inputs import load_side_inputs
from calcli.reports.groups import in_units
from calcli.reports.measuring import class_names, data_facts, measure_all, raw_candidate, raw_probabilities, report_on
from calcli.reports.schema import RAW, ScoreSource, Seconds
from calcli.reports.score_check import score_warnings
from calcli.reports.unit_check import unit_warnings
from calcli.tables.binding import bind
from calcli.tables.load import judge_scale, load
from calcli.tables.source import Source, open_source

if TYPE_CHECKING:
    from calcli.spark.sample import TableSample


def fit(request: FitRequest, listener: Listener = SILENT) -> FitResult:
    """Fit a calibrator, measure it on rows that it has not seen, and keep it."""
    check_master(request.engine, request.master, request.sample)
    # Check the request before any rows are read.
    request.check()
    if request.engine == "local":
        with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
            return _fit(request, source, listener)

    from calcli.spark.fit import checked
    from calcli.spark.fit import fit as fit_from_sums
    from calcli.spark.sample import sampled_table
    from calcli.spark.session import spark_session

    checked(request)
    with spark_session(request.master):
        found = fit_from_sums(request, listener)
        if found is not None:
            return found
        with sampled_table(request, request.flags, request.resample_by, listener) as sample:
            return _fit(request, sample.source, listener, sample)


def _fit(request: FitRequest, source: Source, listener: Listener, sample: TableSample | None = None) -> FitResult:
    """Fit on these rows; if they are a sample, measure on the others."""
    chosen, guard = request.check()
    features = request.needs_features
    # Bind columns to roles.
    target = target_of(source, request.output, request.method)
    with stage(listener, "looking at the columns"):
        held_out_by = request.resample_by or request.order_by
        binding = bind(source, request.flags, features=features, held_out_by=held_out_by)
    request.check_installed(request.sides.roles, len(binding.features))
    if request.dry_run:
        judge_scale(source, binding)
        return FitResult(binding, target)
    for note in binding.notes:
        listener.note(note)

    # Load.
    with stage(listener, "reading"):
        loaded = load(source, binding, features=features, bad_rows=request.bad_rows, check_scale=request.check_scale)
        loaded = in_units(loaded, request.resample_by, request.order_by)
        side_inputs = load_side_inputs(request.sides, binding)
    classes = class_names(binding)

    # Learn: select a method, predict held-out rows, fit.
    others = sample is not None and sample.measures(request)
    recipe = replace(request, holdout="none") if others else request
    learned = learn(recipe, loaded.batch, classes, seed=request.seed, listener=listener, sides=side_inputs.sides)
    learned = learned if sample is None else replace(learned, sampled=sample.sampled)
    if learned.choice is not None:
        listener.note(learned.choice.why)
    for remark in learned.calibrator.remarks():
        listener.note(remark)

    # Measure the raw score and the calibrated one on the held-out rows.
    if sample is not None and others:
        name = learned.spec.name
        calibrators, bad_rows = {name: learned.calibrator}, request.bad_rows
        sums = sample.measure(calibrators, name, binding, chosen, request.options, listener, bad_rows=bad_rows)
        learned, data = sums.learned(learned), sums.data(loaded)
        measured = sums.measured([(RAW, ScoreSource("raw"), Seconds()), (name, learned.source, learned.seconds)])
    else:
        rows = learned.held_out(loaded.batch)
        candidates = [raw_candidate(rows), *learned.candidates]
        measured = measure_all(candidates, rows, chosen, request.options, classes, folds=learned.folds)
        measured = replace(measured, differences=learned.allowing_for_choice(measured.differences))
        data = data_facts(loaded)
    report = report_on(
        "fit",
        request.seed,
        data,
        binding,
        measured,
        chosen=learned.spec.name,
        warnings=(
            *score_warnings(learned.label_check, raw_probabilities(loaded.batch), binding),
            *unit_warnings(loaded),
            *learned.warnings(measured.differences),
        ),
    )

    # Keep it, unless the guard refuses.
    return keep(request, learned, binding, report, guard, target, side_inputs)
