"""`fit` from sums on a cluster, in three passes over the table: workers add up rows, the driver finishes from the sums.

Workers and driver run the code that fits on one machine. The driver gets no rows but an example for binding. The trees
of mbct need more passes, and a sample for what is chosen before they grow (`calcli.spark.trees`). Methods that need
more than sums are fitted on a sample alone (`calcli.spark.sample`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from calcli.artifacts import store
from calcli.errors import FitError, UsageError
from calcli.listener import Listener, stage
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics.catalog import MetricSpec
from calcli.models.held_out import Holdout, KeyedFolds
from calcli.models.learn import FitOutcome
from calcli.models.recipe import AUTO, prior_ratio_of
from calcli.models.requests import FitRequest, FitResult, keep
from calcli.places import Url, folder
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.measuring import class_names, facts_of, report_on
from calcli.reports.schema import RAW, DataFacts, Report, ReportWarning, ScoreSource, Seconds
from calcli.spark.engine import SparkTable, spark_table
from calcli.spark.passes import (
    MOST_SCORES,
    FitSums,
    KeyedRows,
    MetricsPass,
    MetricSums,
    ResidualsPass,
    SumsPass,
    outcome,
)
from calcli.spark.sample import default_rows, refuse_auto_bins
from calcli.spark.session import KEYS, connected, with_keys
from calcli.spark.trees import PLATT, PlanRows, can_grow, grown
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding
from calcli.tables.request import paths_of


def checked(request: FitRequest) -> Path | Url:
    """The path of the artifact; an impossible request is refused before Spark is started."""
    if request.output is None:
        raise UsageError("with --engine spark the artifact must be named", hint=f"try: -o NAME.{request.method}")
    refuse_auto_bins(request.options)
    target = folder(request.output)
    store.check_target(target)
    paths_of(request)
    return target


def fit(request: FitRequest, listener: Listener) -> FitResult | None:
    """Fit a calibrator from sums, measure it on held-out rows, and keep it; None where it is no method of sums."""
    (chosen, guard), target = request.check(), checked(request)
    rows_needed = request.sample or request.resample_by or request.order_by
    if rows_needed or request.method == AUTO or catalog.find(request.method).sums == "no":
        return None
    spec = catalog.find(request.method)
    params = request.resolve(spec)
    with spark_table(request, keep_going=request.bad_rows == "null") as table:
        # The columns, and the fold of each row: a hash of its features and score, so that copies of a row are in one.
        example = table.example(request.flags)
        binding = bind(example, request.flags, features=False)
        count = table.count_rows()
        grows, most = spec.sums == "levels", default_rows(example)
        if grows and (request.dry_run or not binding.binary or not can_grow(params) or count <= most):
            return None
        if grows and connected(table.rows.sparkSession):  # its trees need blocks that stay on the cluster
            return None
        if not grows and spec.load_sums(len(binding.classes)) is None:
            return None
        if request.dry_run:
            return FitResult(binding, target)
        for note in binding.notes:
            listener.note(note)
        binding = table.with_weight_scale(binding)
        folds = KeyedFolds(Holdout.parse(request.holdout, count), KEYS)
        rows = KeyedRows(binding, folds)
        keyed = replace(table, rows=with_keys(table.rows, outcome(binding), request.seed))
        # First pass: the sums of the method by fold, from which all calibrators follow, or on which trees begin.
        started = time.perf_counter()
        summed, settings = (PLATT, {}) if grows else (spec, params)
        with stage(listener, f"gathering the sums of {summed.name} on Spark"):
            passed = keyed.run(SumsPass(rows, summed, settings))
        known = passed.total
        finish: Finish = partial(_from_sums, spec, params, len(binding.classes))
        planned = None
        if grows:
            with stage(listener, "drawing a sample on Spark"):
                sample, rows = PlanRows.drawn(keyed, rows, most, request)
            for note in set(rows.binding.notes) - set(binding.notes):
                listener.note(note)
            finish, planned = partial(grown, keyed, rows, sample, params, request.seed, listener), sample.sampled
        fitted, held_out = _finished(request, binding, folds, known, finish)
        seconds = time.perf_counter() - started
        measured, residuals = _measured(request, spec, keyed, rows, chosen, fitted.post_processing, held_out, listener)
    rows_held_out = measured.rows if held_out else 0
    learned = FitOutcome(
        spec,
        params,
        fitted,
        folds.holdout,
        Seconds(fit=seconds),
        known.ranking,
        residuals,
        rows_held_out,
        planned=planned,
    )
    data = facts_of(example, rows.binding, passed.count.facts, known.weight)
    report = _report(request, learned, data, rows.binding, known, measured)
    return keep(request, learned, rows.binding, report, guard, target)


Finish = Callable[[Sums, int | None], FittedMethod]
"""A calibrator from the sums over the rows of all folds but one."""


def _from_sums(spec: MethodSpec, params: Params, classes: int, sums: Sums, without: int | None) -> FittedMethod:
    """A `Finish` that needs no more than the sums."""
    return calibrator.finish(spec, sums, params, classes=classes)


def _finished(
    request: FitRequest, binding: Binding, folds: KeyedFolds, known: FitSums, finish: Finish
) -> tuple[FittedMethod, dict[int, FittedMethod]]:
    """The calibrator to keep, and for each held-out fold one that was fitted without it, from the sums."""
    holdout = folds.holdout
    post_processing = PostProcessing(
        request.exact, prior_ratio_of(request.prior_shift, known.weight, class_names(binding))
    )

    def without(fold: int | None = None) -> FittedMethod:
        parts = [sums for place, sums in sorted(known.sums.items()) if place != fold]
        if not parts:
            raise FitError("all rows would be held out: too few of them differ", hint="try: --holdout none")
        return finish(sum(parts[1:], parts[0]), fold).with_post_processing(post_processing)

    held_out = {fold: without(fold) for fold in sorted(known.sums) if fold in folds.tests}
    if holdout.kind == "none":
        return without(), {}
    if not held_out:
        raise FitError(f"a share of {holdout} of the rows leaves nothing to hold out", hint="try: --holdout cv:5")
    return without() if holdout.refit_on_all else held_out[0], held_out


def _measured(
    request: FitRequest,
    spec: MethodSpec,
    keyed: SparkTable,
    rows: KeyedRows,
    chosen: Sequence[MetricSpec],
    post_processing: PostProcessing,
    held_out: dict[int, FittedMethod],
    listener: Listener,
) -> tuple[MetricSums, DriftBaseline | None]:
    """The metrics of held-out rows, and the baseline of `evaluate --drift`."""
    # Second pass: the metrics of held-out rows.
    measuring = MetricsPass(rows, {spec.name: held_out}, spec.name, post_processing, chosen, request.options)
    with stage(listener, f"checking {spec.name} on held-out rows on Spark"):
        measured = keyed.run(measuring).total
    if not held_out:
        return measured, None
    # Third pass: their residuals. It needs the log-odds of the second.
    with stage(listener, f"looking at the residuals of {spec.name} on Spark"):
        products = keyed.run(ResidualsPass(measuring, measured.log_odds)).total
    return measured, DriftBaseline.of_sums(measured.log_odds, products)


def _report(
    request: FitRequest, learned: FitOutcome, data: DataFacts, binding: Binding, known: FitSums, measured: MetricSums
) -> Report:
    name = learned.spec.name
    scores = [(RAW, ScoreSource("raw"), Seconds())]
    if learned.holdout.kind != "none":
        scores.append((name, ScoreSource("method", method=name), learned.seconds))
    numbers = measured.sums.measured(scores)
    warnings = [*learned.warnings(numbers.differences), *_pooled(known.step)]
    return report_on("fit", request.seed, data, binding, numbers, chosen=name, warnings=warnings)


def _pooled(step: float) -> Iterator[ReportWarning]:
    """A warning where scores were made one, with the farthest that one was moved."""
    if step:
        yield ReportWarning(
            "pooled",
            f"the scores have more than {MOST_SCORES:,} distinct values: those within {step:g} of log-odds count as "
            f"one, none is moved by more than {step / 2:g}",
        )
