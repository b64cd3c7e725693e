"""`compare`: every method on the same rows, the uncalibrated score among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

from calcli.batch import Batch
from calcli.diagrams.curves import Kind
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.homes import Brief
from calcli.listener import SILENT, Listener, stage
from calcli.methods import catalog
from calcli.methods.base import Params, ParamValue
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.joint_test import quantile
from calcli.metrics.multiple import standings
from calcli.metrics.paired import Z975
from calcli.models.held_out import Holdout, split_rows
from calcli.models.model_selection import (
    IDENTITY,
    Choice,
    Outcome,
    choice_warnings,
    choose,
    criterion,
    criterion_rows,
    cross_validate,
)
from calcli.models.recipe import AUTO, params_by_method
from calcli.models.requests import FitRequest, FitResult
from calcli.models.side_inputs import NO_SIDE_FILES, SideFiles
from calcli.models.trial import Contender, Judgement, Trial, TrialRows, bind_trial
from calcli.reports.groups import LabelCheck, score_warnings, unit_warnings
from calcli.reports.measuring import raw_probabilities, report_on
from calcli.reports.schema import Difference, Report, ScoreRow, ScoreSource, Seconds
from calcli.tables.request import Engine, RowsRequest, check_master
from calcli.tables.source import Data
from calcli.verbs.fit import fit, trial_rows


@dataclass(frozen=True, slots=True)
class CompareRequest(RowsRequest):
    """The request of `compare`.

    Attributes
    ----------
    methods
        ``all``, or names separated by commas; the identity is always among them.
    params
        Parameters that differ from the defaults, as ``METHOD.KEY``.
    folds
        The number of cross-validation folds.
    resample_by
        A column; rows that agree in it are never on both sides of a split.
    criterion
        The metric by which the method is chosen: a mean over rows, never a calibration error.
    budget
        Seconds; a method that has not finished by then is reported as skipped. None is no limit.
    select
        Where the chosen method is kept, fitted on all rows.
    engine, master, sample
        As for `fit`; of a cluster a sample of the rows is compared on, and all others are measured on.
    """

    data: Data
    methods: str | Sequence[str] = "all"
    params: Mapping[str, ParamValue] = field(default_factory=dict)
    folds: int = 5
    resample_by: str | None = None
    order_by: str | None = None
    criterion: str = "nll"
    budget: float | None = None
    every_curve: bool = False
    select: str | Path | None = None
    metrics: str | Sequence[str] = "default"
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    seed: int = 0
    engine: Engine = "local"
    master: str | None = None
    sample: int | None = None


@dataclass(frozen=True, slots=True, repr=False)
class CompareResult(Brief):
    """The leaderboard, which method it chooses and why, and the fit of that one if it was asked for."""

    report: Report
    choice: Choice
    selected: FitResult | None = None


def compare(request: CompareRequest, listener: Listener = SILENT) -> CompareResult:
    """Predict held-out rows with every method, under the same splits."""
    check_master(request.engine, request.master, request.sample)
    # Check the request before any rows are read.
    params = params_by_method(request.params, AUTO)
    specs = _specs(request, params)
    request.sides.check(specs, request.flags)
    _installed(specs, request, params)
    _metrics(request)
    with trial_rows(request, request.flags, request.resample_by, listener) as rows:
        report, choice = _compare(request, specs, params, rows, listener)

    # Fit the chosen method, if it is to be kept.
    selected = None if request.select is None else fit(_fit_request(request, choice), listener)
    return CompareResult(report, choice, selected)


def _compare(
    request: CompareRequest,
    specs: Sequence[MethodSpec],
    params: Mapping[str, Mapping[str, ParamValue]],
    rows: TrialRows,
    listener: Listener,
) -> tuple[Report, Choice]:
    """Compare on these rows; if they are a sample, measure on the others."""
    features, (chosen, decisive) = any(spec.needs_features for spec in specs), _metrics(request)
    # Bind columns to roles.
    binding = bind_trial(rows.source, request, listener, features=features)
    candidates, not_installed = _installed(specs, request, params, len(binding.features))
    for note in binding.notes:
        listener.note(note)
    trial = Trial.read(rows, binding, request, request.sides, listener, features=features)
    batch = trial.batch
    splits = split_rows(len(batch), Holdout("cv", folds=request.folds), request.seed, batch.units)

    # Predict held-out rows with every method, and choose one.
    others = rows.has_others and request.order_by is None
    outcomes = cross_validate(
        candidates,
        batch,
        splits,
        budget=request.budget,
        seed=request.seed,
        listener=listener,
        sides=trial.sides.sides,
        settle=others,
    )
    outcomes = tuple(map(_row_by_row, outcomes)) if others else outcomes
    choice = replace(choose(outcomes, batch, splits, decisive), not_installed=not_installed)

    # Measure the predictions.
    against = tuple(dict.fromkeys((IDENTITY, choice.name)))
    kinds: tuple[Kind, ...] = get_args(Kind) if request.every_curve else ("reliability",)
    judgement = Judgement(chosen, request.options, against, kinds=kinds)
    contenders, held_out = list(_contenders(outcomes)), batch.take(splits.predicted)
    if others:
        measured, data, _ = trial.elsewhere(contenders, judgement)
    else:
        with stage(listener, "measuring"):
            measured, data = trial.here(contenders, judgement, held_out, splits.folds)
        many = len(contenders) - 1
        measured = replace(measured, differences=_given_chosen(measured.differences, choice.name, many))
    scores = _with_standings(measured.scores, outcomes, decisive, held_out, request.seed)
    report = report_on(
        "compare",
        request.seed,
        data,
        binding,
        replace(measured, scores=(*scores, *_without_predictions(outcomes))),
        artifact=None if request.select is None else as_text(request.select),
        chosen=choice.name,
        warnings=(
            *([] if rows.sampled is None else [rows.sampled.warning]),
            *score_warnings(LabelCheck.of(batch), raw_probabilities(batch), binding),
            *unit_warnings(trial.loaded),
            *choice_warnings(choice),
        ),
    )
    return report, choice


def _metrics(request: CompareRequest) -> tuple[tuple[MetricSpec, ...], MetricSpec]:
    """The metrics to measure, and the one that chooses."""
    return metrics.choose(request.metrics), criterion(request.criterion)


def _given_chosen(differences: Sequence[Difference], chosen: str, many: int) -> tuple[Difference, ...]:
    """The differences; those of the chosen method and no calibration allow for a choice among so many methods.

    The end of the interval that luck has moved lies so far out that not one of as many methods would pass it in 97.5 %
    of tables, whichever is chosen and however alike they are (Bonferroni).
    """

    def allowing(one: Difference) -> Difference:
        if {one.score, one.versus} != {chosen, IDENTITY} or one.value is None or one.lo is None or one.hi is None:
            return one
        further = max(1.0, quantile(1.0 - 0.025 / many) / Z975)
        lo, hi = ((end - one.value) * further + one.value for end in (one.lo, one.hi))
        p = None if one.p is None else min(1.0, many * one.p)
        return replace(one, hi=hi, p=p) if one.value < 0.0 else replace(one, lo=lo, p=p)

    return tuple(map(allowing, differences))


def _contenders(outcomes: Sequence[Outcome]) -> Iterator[Contender]:
    """Every method that has predictions; those of no calibration are the raw score itself."""
    for outcome in outcomes:
        if (predicted := outcome.predicted) is not None:
            name, seconds = outcome.spec.name, Seconds(predicted.fit_seconds, predicted.apply_seconds)
            contender = Contender(name, ScoreSource("method", method=name), seconds)
            if name != IDENTITY:
                contender = contender._replace(fitted=outcome.fitted, prob=predicted.prob, fits=predicted.fits)
            yield contender


def _specs(request: CompareRequest, params: Mapping[str, Mapping[str, ParamValue]]) -> list[MethodSpec]:
    """The identity and the requested methods, the simplest first: the budget then skips the most complex."""
    methods = request.methods.split(",") if isinstance(request.methods, str) else request.methods
    names = catalog.names() if request.methods == "all" else tuple(name.strip() for name in methods)
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
    scores: tuple[ScoreRow, ...], outcomes: tuple[Outcome, ...], metric: MetricSpec, rows: Batch, seed: int
) -> Iterator[ScoreRow]:
    """The report's entries of methods that have predictions, with how likely each is the best by the criterion."""
    losses = [
        criterion_rows(metric, Scored(rows.labels, outcome.predicted.prob, rows.weight))
        for outcome in outcomes
        if outcome.predicted is not None
    ]
    for score, standing in zip(scores, standings(losses, rows.weight, rows.together, seed), strict=True):
        yield replace(score, best=standing.best, as_good=standing.as_good)


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
