"""`compare`: every method on the same rows, the uncalibrated score among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, get_args

from calcli.batch import Batch
from calcli.diagrams.curves import Kind
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.local import BadRows
from calcli.engines.options import Engine, check_master
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.fitting.model_selection import (
    IDENTITY,
    Choice,
    Outcome,
    choice_warnings,
    choose,
    criterion,
    criterion_rows,
    cross_validate,
)
from calcli.fitting.recipe import AUTO, params_by_method
from calcli.fitting.requests import FitRequest, FitResult
from calcli.fitting.side_inputs import NO_SIDE_FILES, SideFiles, load_side_inputs
from calcli.fitting.splits import Holdout, split_rows
from calcli.methods import catalog
from calcli.methods.base import Params, ParamValue
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Folds, Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.standing import standings
from calcli.reports.groups import in_units
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import (
    Candidate,
    Measurements,
    class_names,
    data_facts,
    measure_all,
    raw_candidate,
    raw_probabilities,
    report_on,
)
from calcli.reports.schema import DataFacts, Report, ScoreRow, ScoreSource, Seconds
from calcli.reports.score_check import score_warnings
from calcli.reports.unit_check import unit_warnings
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.load import Loaded, load
from calcli.tables.source import Data, Source, open_source
from calcli.verbs.fit import fit

if TYPE_CHECKING:
    from calcli.spark.sample import TableSample


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """The request of `compare`.

    Attributes
    ----------
    data
        Paths, globs, directories, ``-``, or a frame.
    methods
        ``all``, or names separated by commas; the identity is always among them.
    params
        Parameters that differ from the defaults, as ``METHOD.KEY``.
    folds
        The number of cross-validation folds.
    resample_by
        A column; rows that agree in it are never on both sides of a split.
    order_by
        A column; rows are predicted from those before them.
    criterion
        The metric by which the method is chosen: a mean over rows, never a calibration error.
    budget
        Seconds; a method that has not finished by then is reported as skipped. None is no limit.
    every_curve
        Whether the report has curves of all kinds, as a page shows them.
    select
        Where the chosen method is kept, fitted on all rows.
    engine, master, sample
        As for `fit`; of a cluster a sample of the rows is compared on, and all others are measured on.
    """

    data: Data
    methods: str = "all"
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    folds: int = 5
    resample_by: str | None = None
    order_by: str | None = None
    criterion: str = "nll"
    budget: float | None = None
    every_curve: bool = False
    select: str | Path | None = None
    metrics: str = "default"
    options: Options = Options()
    flags: Flags = Flags()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    delimiter: str | None = None
    bad_rows: BadRows = "fail"
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    sample: int | None = None


@dataclass(frozen=True, slots=True)
class CompareResult:
    """The leaderboard, which method it chooses and why, and the fit of that one if it was asked for."""

    report: Report
    choice: Choice
    selected: FitResult | None = None


def compare(request: CompareRequest, listener: Listener = SILENT) -> CompareResult:
    """Predict held-out rows with every method, under the same splits."""
    check_master(request.engine, request.master, request.sample)
    # Check the request before any rows are read.
    asked = _asked(request)
    if request.engine == "local":
        with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
            report, choice = _compare(request, asked, source, listener)
    else:
        from calcli.spark.sample import sampled_table

        with sampled_table(request, request.flags, request.resample_by, listener) as sample:
            report, choice = _compare(request, asked, sample.source, listener, sample)

    # Fit the chosen method, if it is to be kept.
    selected = None if request.select is None else fit(_fit_request(request, choice), listener)
    return CompareResult(report, choice, selected)


class _Asked(NamedTuple):
    """What is compared, with which parameters, and how."""

    specs: Sequence[MethodSpec]
    params: Mapping[str, Mapping[str, ParamValue]]
    metrics: tuple[MetricSpec, ...]
    criterion: MetricSpec


def _asked(request: CompareRequest) -> _Asked:
    params = params_by_method(request.params, AUTO)
    specs = _specs(request, params)
    request.sides.check(specs, request.flags)
    _installed(specs, request, params)
    return _Asked(specs, params, metrics.choose(request.metrics), criterion(request.criterion))


class _Compared(NamedTuple):
    """What every method predicts for the held-out rows, and the choice by that."""

    loaded: Loaded
    rows: Batch
    folds: Folds | None
    outcomes: tuple[Outcome, ...]
    choice: Choice


def _compare(
    request: CompareRequest, of: _Asked, source: Source, listener: Listener, sample: TableSample | None = None
) -> tuple[Report, Choice]:
    """Compare on these rows; if they are a sample, measure on the others."""
    features = any(spec.needs_features for spec in of.specs)
    # Bind columns to roles.
    with stage(listener, "looking at the columns"):
        held_out_by = request.resample_by or request.order_by
        binding = bind(source, request.flags, features=features, held_out_by=held_out_by)
    asked, not_installed = _installed(of.specs, request, of.params, len(binding.features))
    for note in binding.notes:
        listener.note(note)

    # Load.
    with stage(listener, "reading"):
        loaded = load(source, binding, features=features, bad_rows=request.bad_rows)
        loaded = in_units(loaded, request.resample_by, request.order_by)
        batch = loaded.batch
        splits = split_rows(len(batch), Holdout("cv", folds=request.folds), request.seed, batch.units)
        side_inputs = load_side_inputs(request.sides, binding)

    # Predict held-out rows with every method, and choose one.
    others = None if sample is None or request.order_by is not None or sample.others is None else sample
    outcomes = cross_validate(
        asked,
        batch,
        splits,
        budget=request.budget,
        seed=request.seed,
        listener=listener,
        sides=side_inputs.sides,
        settle=others is not None,
    )
    outcomes = outcomes if others is None else tuple(map(_row_by_row, outcomes))
    choice = replace(choose(outcomes, batch, splits, of.criterion), not_installed=not_installed)
    compared = _Compared(loaded, batch.take(splits.predicted), splits.folds, outcomes, choice)

    # Measure the predictions.
    if others is None:
        measured, data = _measured_here(request, of, compared, listener), data_facts(loaded)
    else:
        measured, data = _measured_there(request, of, compared, others, listener)
    scores = _with_standings(measured.scores, outcomes, of.criterion, compared.rows, request.seed)
    report = report_on(
        "compare",
        request.seed,
        data,
        binding,
        replace(measured, scores=(*scores, *_without_predictions(outcomes))),
        artifact=None if request.select is None else as_text(request.select),
        chosen=choice.name,
        warnings=(
            *([] if sample is None or sample.sampled is None else [sample.sampled.warning]),
            *score_warnings(LabelCheck.of(batch), raw_probabilities(batch), binding),
            *unit_warnings(loaded),
            *choice_warnings(choice),
        ),
    )
    return report, choice


def _kinds(request: CompareRequest) -> tuple[Kind, ...]:
    return get_args(Kind) if request.every_curve else ("reliability",)


def _measured_here(request: CompareRequest, of: _Asked, compared: _Compared, listener: Listener) -> Measurements:
    """By the predictions of the held-out rows."""
    with stage(listener, "measuring"):
        return measure_all(
            _candidates(compared),
            compared.rows,
            of.metrics,
            request.options,
            class_names(compared.loaded.binding),
            against=(IDENTITY, compared.choice.name),
            folds=compared.folds,
            kinds=_kinds(request),
        )


def _measured_there(
    request: CompareRequest, of: _Asked, compared: _Compared, others: TableSample, listener: Listener
) -> tuple[Measurements, DataFacts]:
    """On the rows of a cluster outside the sample, and the facts of all rows."""
    sums = others.measure(
        {
            one.spec.name: one.fitted
            for one in compared.outcomes
            if one.spec.name != IDENTITY and one.predicted is not None and one.fitted is not None
        },
        None,
        compared.loaded.binding,
        of.metrics,
        request.options,
        listener,
        bad_rows=request.bad_rows,
        raw=IDENTITY,
        against=tuple(dict.fromkeys((IDENTITY, compared.choice.name))),
        kinds=_kinds(request),
    )
    sources = [(one.name, one.source, one.seconds) for one in _candidates(compared)]
    return sums.measured(sources), sums.data(compared.loaded)


def _specs(request: CompareRequest, params: Mapping[str, Mapping[str, ParamValue]]) -> list[MethodSpec]:
    """The identity and the requested methods, the simplest first: the budget then skips the most complex."""
    names = catalog.names() if request.methods == "all" else tuple(name.strip() for name in request.methods.split(","))
    for name in names:
        catalog.find(name)
    for name in params:
        if name not in names:
            raise UsageError(f"parameters are given for {name}, which is not compared", hint=f"try: --methods {name}")
    specs = (spec for spec in catalog.specs() if spec.name in {IDENTITY, *names})
    return sorted(specs, key=lambda spec: spec.simplicity)


def _installed(
    specs: Sequence[MethodSpec],
    request: CompareRequest,
    params: Mapping[str, Mapping[str, ParamValue]],
    features: int = 0,
) -> tuple[dict[MethodSpec, Params], dict[str, str]]:
    """The methods with their parameters, and what is not installed of the packages that others need.

    A method that is named must not lack any; of ``all`` those are compared that do not.
    """
    asked = {spec: spec.resolve(params.get(spec.name)) for spec in specs}
    if request.methods != "all":
        for spec, resolved in asked.items():
            catalog.require(spec, resolved, features, request.sides.roles)
    return catalog.installed(asked, features, request.sides.roles)


def _row_by_row(outcome: Outcome) -> Outcome:
    """The outcome, unless what its calibrator says of a row depends on the rows beside it."""
    if outcome.fitted is None or not outcome.fitted.whole_table:
        return outcome
    return Outcome(outcome.spec, "skipped", reason="its predictions need all rows of a table at once")


def _with_standings(
    scores: tuple[ScoreRow, ...],
    outcomes: tuple[Outcome, ...],
    metric: MetricSpec,
    rows: Batch,
    seed: int,
) -> Iterator[ScoreRow]:
    """The report's entries of methods that have predictions, with how likely each is the best by the criterion."""
    losses = [
        criterion_rows(metric, Scored(rows.labels, outcome.predicted.prob, rows.weight))
        for outcome in outcomes
        if outcome.predicted is not None
    ]
    for score, standing in zip(scores, standings(losses, rows.weight, rows.together, seed), strict=True):
        yield replace(score, best=standing.best, as_good=standing.as_good)


def _candidates(compared: _Compared) -> list[Candidate]:
    """The predictions of every method; those of no calibration are the raw score itself."""
    candidates = []
    for outcome in compared.outcomes:
        if (predicted := outcome.predicted) is not None:
            name, source = outcome.spec.name, ScoreSource("method", method=outcome.spec.name)
            candidate = Candidate(name, source, predicted.prob, fits=predicted.fits)
            if name == IDENTITY:
                candidate = raw_candidate(compared.rows, name, source)
            candidates.append(replace(candidate, seconds=Seconds(predicted.fit_seconds, predicted.apply_seconds)))
    return candidates


def _without_predictions(outcomes: tuple[Outcome, ...]) -> Iterator[ScoreRow]:
    """The report's entries of methods that failed or were skipped."""
    for outcome in outcomes:
        if outcome.predicted is None:
            name = outcome.spec.name
            source = ScoreSource("method", method=name)
            yield ScoreRow(name, source, metrics={}, status=outcome.status, reason=outcome.reason)


def _fit_request(request: CompareRequest, choice: Choice) -> FitRequest:
    table = ("data", "flags", "sides", "input_format", "delimiter", "bad_rows", "resample_by", "order_by")
    shared = (*table, "metrics", "options", "seed", "engine", "master", "sample")
    return FitRequest(
        method=choice.name,
        output=request.select,
        params={key: value for key, value in request.params.items() if key.rpartition(".")[0] == choice.name},
        **{name: getattr(request, name) for name in shared},
    )
