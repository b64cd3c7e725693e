"""`fit` on a cluster, in three passes over the table: workers add up their rows, the driver finishes from the sums.

Both run the code that fits on one machine. Of the rows only an example for binding comes to the driver.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from calcli.reports.schema import RAW, Report, ScoreSource, Seconds
from calcli.spark import session as spark
from calcli.spark.passes import FitSums, KeyedRows, MetricsPass, MetricSums, ResidualsPass, SumsPass
from calcli.spark.table import example_of, facts_of_sums, scaled
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def fit(request: FitRequest, listener: Listener) -> FitResult:
    """Fit a calibrator from sums, measure it on held-out rows, and keep it."""
    # What is asked, before Spark is started.
    chosen, guard = request.check()
    spec = _spec(request.method)
    for flag, column in (("--resample-by", request.resample_by), ("--order-by", request.order_by)):
        if column is not None:
            raise UsageError(f"{flag} needs all rows at once, and --engine spark fits from sums over them")
    if request.options.bins == "auto":
        raise UsageError(
            "--bins auto needs the number of held-out rows before they are summed, and --engine spark counts them then",
            hint="give a number, such as --bins 100",
        )
    params = request.resolve(spec)
    paths = paths_of(request.data, request.input_format, request.delimiter)
    if request.output is None:
        raise UsageError("with --engine spark the artifact must be named", hint=f"try: -o NAME.{spec.name}")
    target = folder(request.output)
    store.check_target(target)
    name = ", ".join(paths)
    with spark.session(request.master) as session:
        # The columns, and the fold of each row: a hash of its features and score, so that copies of a row are in one.
        table = spark.read(session, paths)
        binding = _bound(table, name, spec, request, listener)
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
        fitted, held_out = _finished(request, spec, params, rows, known)
        seconds = time.perf_counter() - started
        # Second pass: the metrics of held-out rows.
        measuring = MetricsPass(rows, spec.name, held_out, fitted.post_processing, chosen, request.options)
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


def _bound(table: DataFrame, name: str, spec: MethodSpec, request: FitRequest, listener: Listener) -> Binding:
    """The binding, if the method is fitted from sums for so many classes."""
    binding = bind(example_of(table, name, request.flags), request.flags, features=False)
    for note in binding.notes:
        listener.note(note)
    classes = len(binding.classes)
    if not spec.from_sums(classes):
        raise _only_sums(
            f"{spec.name} is fitted from sums for two classes only, and there are {classes}",
            [other for other in catalog.specs() if other.from_sums(classes)],
        )
    return binding


def _spec(method: str) -> MethodSpec:
    """The method, if it is fitted from sums."""
    if method != AUTO and catalog.find(method).sums != "no":
        return catalog.find(method)
    what = "auto compares methods on" if method == AUTO else f"{method} needs"
    raise _only_sums(
        f"{what} all rows at once, and --engine spark fits from sums over them",
        [spec for spec in catalog.specs() if spec.sums != "no"],
    )


def _only_sums(what: str, possible: Sequence[MethodSpec]) -> UsageError:
    names = ", ".join(spec.name for spec in possible)
    return UsageError(what, hint=f"choose one of {names}; or fit on a sample of the rows, on one machine")


def _finished(
    request: FitRequest, spec: MethodSpec, params: Params, rows: KeyedRows, known: FitSums
) -> tuple[FittedMethod, dict[int, FittedMethod]]:
    """From the sums the calibrator to keep, and for each held-out fold one that was fitted without it."""
    holdout = rows.folds.holdout
    post_processing = PostProcessing(
        request.exact, prior_ratio_of(request.prior_shift, known.weight, class_names(rows.binding))
    )

    def without(fold: int | None = None) -> FittedMethod:
        parts = [sums for place, sums in sorted(known.sums.items()) if place != fold]
        if not parts:
            raise FitError("all rows would be held out: too few of them differ", hint="try: --holdout none")
        fitted = calibrator.finish(spec, sum(parts[1:], parts[0]), params, classes=len(known.weight))
        return fitted.with_post_processing(post_processing)

    held_out = {fold: without(fold) for fold in sorted(known.sums) if fold in rows.folds.tests}
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
    warnings = learned.warnings(numbers.differences)
    return report_on("fit", request.seed, data, binding, numbers, chosen=name, warnings=warnings)
