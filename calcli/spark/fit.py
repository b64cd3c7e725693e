"""`fit` from sums on a cluster, in three passes over the table: workers add up rows, the driver finishes from the sums.

Both run the code that fits on one machine. Of the rows only an example for binding comes to the driver. Methods that
need more than sums are fitted on a sample (`calcli.spark.sample`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from calcli.artifacts import store
from calcli.engines.listener import Listener, stage
from calcli.engines.options import paths_of
from calcli.errors import FitError, UsageError
from calcli.fitting.learn import Learned
from calcli.fitting.manifest import keep
from calcli.fitting.prior_shift import prior_ratio_of
from calcli.fitting.recipe import AUTO
from calcli.fitting.requests import FitRequest, FitResult
from calcli.fitting.splits import Holdout, KeyedFolds
from calcli.methods import calibrator, catalog
from calcli.methods.base import Params
from calcli.methods.calibrator import FittedMethod, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.places import folder
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.measuring import class_names, report_on
from calcli.reports.schema import RAW, Report, ReportWarning, ScoreSource, Seconds
from calcli.spark import session as spark
from calcli.spark.passes import MOST_SCORES, FitSums, KeyedRows, MetricsPass, MetricSums, ResidualsPass, SumsPass
from calcli.spark.table import example_of, facts_of_sums, refuse_auto_bins, scaled
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding


def fit(request: FitRequest, listener: Listener) -> FitResult | None:
    """Fit a calibrator from sums, measure it on held-out rows, and keep it; None where it is no method of sums."""
    # What is asked, before Spark is started.
    chosen, guard = request.check()
    if request.output is None:
        raise UsageError("with --engine spark the artifact must be named", hint=f"try: -o NAME.{request.method}")
    refuse_auto_bins(request.options)
    target = folder(request.output)
    store.check_target(target)
    paths = paths_of(request.data, request.input_format, request.delimiter)
    rows_needed = request.sample or request.resample_by or request.order_by
    if rows_needed or request.method == AUTO or catalog.find(request.method).sums == "no":
        return None
    spec = catalog.find(request.method)
    params = request.resolve(spec)
    name = ", ".join(paths)
    with spark.session(request.master) as session:
        # The columns, and the fold of each row: a hash of its features and score, so that copies of a row are in one.
        table = spark.read(session, paths)
        binding = bind(example_of(table, name, request.flags), request.flags, features=False)
        if spec.load_sums(len(binding.classes)) is None:
            return None
        for note in binding.notes:
            listener.note(note)
        if request.dry_run:
            return FitResult(binding, target)
        binding = scaled(table, binding, name)
        folds = KeyedFolds(Holdout.parse(request.holdout, spark.rows(table)), spark.KEYS)
        rows = KeyedRows(name, binding, folds, keep_going=request.bad_rows == "null")
        outcome = [column for column in (binding.label, binding.weight) if column is not None]
        keyed = spark.with_keys(table, outcome, request.seed)
        # First pass: the sums of the method by fold, from which all calibrators follow.
        started = time.perf_counter()
        with stage(listener, f"gathering the sums of {spec.name} on Spark"):
            known = spark.total(keyed, rows.reads, SumsPass(rows, spec, params), name)
        known.judge()
        fitted, held_out = _finished(request, spec, params, binding, folds, known)
        seconds = time.perf_counter() - started
        # Second pass: the metrics of held-out rows.
        calibrators = {spec.name: held_out}
        measuring = MetricsPass(rows, calibrators, spec.name, fitted.post_processing, chosen, request.options)
        with stage(listener, f"checking {spec.name} on held-out rows on Spark"):
            measured = spark.total(keyed, rows.reads, measuring, name)
        # Third pass: their residuals, which `evaluate --drift` compares with. It needs the log-odds of the second.
        residuals = None
        if held_out:
            with stage(listener, f"looking at the residuals of {spec.name} on Spark"):
                products = spark.total(keyed, rows.reads, ResidualsPass(measuring, measured.log_odds), name)
            residuals = DriftBaseline.of_sums(measured.log_odds, products)
    rows_held_out = measured.rows if held_out else 0
    learned = Learned(
        spec, params, fitted, folds.holdout, Seconds(fit=seconds), known.ranking, residuals, rows_held_out
    )
    report = _report(request, learned, rows, known, measured)
    return keep(request, learned, binding, report, guard, target)


def _finished(
    request: FitRequest, spec: MethodSpec, params: Params, binding: Binding, folds: KeyedFolds, known: FitSums
) -> tuple[FittedMethod, dict[int, FittedMethod]]:
    """From the sums the calibrator to keep, and for each held-out fold one that was fitted without it."""
    holdout = folds.holdout
    post_processing = PostProcessing(
        request.exact, prior_ratio_of(request.prior_shift, known.weight, class_names(binding))
    )

    def without(fold: int | None = None) -> FittedMethod:
        parts = [sums for place, sums in sorted(known.sums.items()) if place != fold]
        if not parts:
            raise FitError("all rows would be held out: too few of them differ", hint="try: --holdout none")
        fitted = calibrator.finish(spec, sum(parts[1:], parts[0]), params, classes=len(known.weight))
        return fitted.with_post_processing(post_processing)

    held_out = {fold: without(fold) for fold in sorted(known.sums) if fold in folds.tests}
    if holdout.kind == "none":
        return without(), {}
    if not held_out:
        raise FitError(f"a share of {holdout} of the rows leaves nothing to hold out", hint="try: --holdout cv:5")
    return without() if holdout.refit_on_all else held_out[0], held_out


def _report(request: FitRequest, learned: Learned, rows: KeyedRows, known: FitSums, measured: MetricSums) -> Report:
    name, binding = learned.spec.name, rows.binding
    scores = [(RAW, ScoreSource("raw"), Seconds())]
    if learned.holdout.kind != "none":
        scores.append((name, ScoreSource("method", method=name), learned.seconds))
    numbers = measured.sums.measured(scores)
    data = facts_of_sums(known.count, known.weight, binding)
    warnings = [*learned.warnings(numbers.differences), *_pooled(known.step)]
    return report_on("fit", request.seed, data, binding, numbers, chosen=name, warnings=warnings)


def _pooled(step: float) -> Iterator[ReportWarning]:
    """That scores were made one, and how far they were moved at most."""
    if step:
        yield ReportWarning(
            "pooled",
            f"the scores have more than {MOST_SCORES:,} distinct values: those within {step:g} of log-odds count as "
            f"one, none is moved by more than {step / 2:g}",
        )
