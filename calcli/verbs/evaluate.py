"""`evaluate`: how good are these scores, and does an artifact make them better?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from calcli.batch import Edges, IntArray, Units
from calcli.errors import UsageError, unknown_name
from calcli.evaluation.clusters import Clustering, clustering
from calcli.evaluation.compared_scores import (
    ComparedScore,
    NamedScores,
    all_features,
    bind_scores,
    read_named,
    scale_checks,
    seen_before,
)
from calcli.evaluation.drift import drift_asked, observe, of_no_rows, rows_of
from calcli.evaluation.policies import evaluate_intervals, interval_models, measured_policies, promises_of
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import BufferedScores, ScoreBuffer, SummedScores
from calcli.fitting.side_inputs import read_edges
from calcli.listener import SILENT, Listener, stage
from calcli.metrics import catalog as metrics
from calcli.reports.baseline import Baseline
from calcli.reports.checks import LabelCheck, score_warnings
from calcli.reports.conditions import check_gates
from calcli.reports.gates import parse
from calcli.reports.groups import TableRows, groups, linked_rows, units_of
from calcli.reports.measuring import (
    Measurements,
    Resampling,
    class_names,
    facts_of,
    measure_all,
    measure_groups,
    rejection_curves,
    report_on,
    with_adjusted,
)
from calcli.reports.schema import RAW, Report, ReportWarning
from calcli.state import Json
from calcli.tables.load import doubt_of_scale, read_batches
from calcli.tables.request import check_master
from calcli.tables.row_counts import Tally
from calcli.tables.source import Source, open_source


def evaluate(request: EvaluateRequest, listener: Listener = SILENT) -> Report:
    """Measure the raw score, each artifact's and each column on the same rows."""
    # What is asked, before any rows are read.
    check_master(request.engine, request.master)
    chosen = metrics.choose(request.metrics, clusters=True)
    gates = [parse(expression) for expression in request.fail_if]
    baseline = None if request.baseline is None else Baseline.read(request.baseline)
    if request.state is not None and request.drift is None:
        raise UsageError("--state stores the result of --drift", hint="add --drift ARTIFACT")
    artifacts, columns = read_named(request.all_artifacts, request.scores)
    if (intervals := interval_models(request, artifacts)) is not None:
        if request.engine != "local":
            raise UsageError("--engine spark measures scores, and not intervals", hint="evaluate a sample of the rows")
        return evaluate_intervals(request, intervals, listener)
    named_scores = NamedScores.of(artifacts, columns)
    against = _against(request, named_scores)
    # The metrics.
    if request.engine == "spark":
        from calcli.spark.evaluate import evaluate as evaluate_on_spark

        report = evaluate_on_spark(request, named_scores, chosen, against, listener)
    else:
        report = _here(request, named_scores, chosen, against, listener)
    # What follows from them: the changes since the baseline, and the gates.
    if baseline is not None:
        report = replace(report, baseline=baseline.to_json(), changes=baseline.changes(report))
    results = check_gates(gates, report, allow_null=request.allow_null)
    return replace(report, gates=tuple(result.to_json() for result in results))


def _against(request: EvaluateRequest, named_scores: NamedScores) -> tuple[str, ...]:
    """The scores from which the others' differences are shown: the raw one, and that of --versus."""
    names = [RAW, *named_scores.models, *named_scores.columns]
    if request.versus is None:
        return (RAW,)
    if request.versus not in names:
        raise UsageError(f"--versus: {unknown_name('score', request.versus, names)}")
    return tuple(dict.fromkeys((RAW, request.versus)))


def _here(
    request: EvaluateRequest,
    named_scores: NamedScores,
    chosen: tuple[metrics.MetricSpec, ...],
    against: Sequence[str],
    listener: Listener,
) -> Report:
    """On this machine."""
    edges = _edges(request, chosen, named_scores)
    if edges is not None:
        named_scores = named_scores.linked_by(edges)
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        # Every score is bound to its columns.
        with stage(listener, "looking at the columns"):
            scores = bind_scores(source, request.flags, named_scores, listener)
        binding = scores[0].binding
        tally = Tally(source, keep_going=request.bad_rows == "null")
        with stage(listener, "reading"):
            clusters = _clustering(request, source, scores, named_scores, chosen)
            buffer = _read(request, scores, tally, chosen, clusters, against)
            beside = _Beside.of(request, scores, tally, edges)
        with stage(listener, "measuring"):
            # All metrics of all rows, or those that follow from sums where the rows were too many to keep.
            rows, names = buffer.done(), class_names(binding)
            if isinstance(rows, Measurements):
                measured = _Measured(rows)
            else:
                rows = rows if beside.units is None else replace(rows, together=beside.units.rank)
                measured = _Measured.of(request, rows, beside, chosen, names, against)
        report = report_on(
            "evaluate",
            request.seed,
            facts_of(source, binding, tally.rows_counted, tally.rows_bad, buffer.share, beside.units),
            replace(binding, features=all_features(scores)),
            measured.all_rows,
            warnings=() if request.options.in_sample else seen_before(source, named_scores.models),
            groups=with_adjusted(measured.groups),
            rejection=measured.rejection,
        )
        if isinstance(rows, BufferedScores):
            raw = rows.candidates[0].scored(rows)
            doubts = tuple(score_warnings(LabelCheck.of_scored(raw, len(names)), raw.prob, binding))
            if named_scores.models and (doubt := doubt_of_scale(source, binding)) is not None:
                doubts = (ReportWarning("scale", doubt), *doubts)
            drift = _drift(request, named_scores, rows, tally, names, beside.units)
            decisions = measured_policies(request, named_scores, rows, tally, beside.units)
            report = replace(report, drift=drift, decisions=decisions, warnings=(*doubts, *report.warnings))
    return report


class _Beside(NamedTuple):
    """What rows have beside scores and labels: units, groups by each column of --by, and the pairs that are linked."""

    units: Units | None
    groupings: Sequence[tuple[str, tuple[tuple[str | None, ...], IntArray]]]
    linked: IntArray | None

    @classmethod
    def of(
        cls, request: EvaluateRequest, scores: Sequence[ComparedScore], rows: TableRows, edges: Edges | None
    ) -> _Beside:
        units = units_of(rows, request.resample_by)
        groupings = [(column, groups(rows, column)) for column in request.by]
        node_id = next((score.binding.node_id for score in scores if score.binding.node_id is not None), None)
        return cls(units, groupings, None if edges is None else linked_rows(rows, node_id, edges))


class _Measured(NamedTuple):
    """The numbers of all rows, and of groups of them, and the rejection curves."""

    all_rows: Measurements
    groups: Sequence[dict[str, Json]] = ()
    rejection: Sequence[dict[str, Json]] = ()

    @classmethod
    def of(
        cls,
        request: EvaluateRequest,
        rows: BufferedScores,
        beside: _Beside,
        chosen: tuple[metrics.MetricSpec, ...],
        names: tuple[str, ...],
        against: Sequence[str],
    ) -> _Measured:
        options = request.options.of_rows(rows.candidates[0].scored(rows).rows)  # of groups as of all rows
        resampling = Resampling(request.bootstrap, request.seed, rows.together) if request.bootstrap else None
        measured = measure_all(
            rows.candidates,
            rows,
            chosen,
            options,
            names,
            against=against,
            resampling=resampling,
            clusters=rows.clusters,
            edges=beside.linked,
            kinds=request.kinds,
        )
        grouped = [
            entry
            for column, codes in beside.groupings
            for entry in measure_groups(rows.candidates, rows, chosen, options, names, column, codes, rows.clusters)
        ]
        return cls(measured, grouped, rejection_curves(rows.candidates, rows) if request.rejection else ())


def _edges(request: EvaluateRequest, chosen: Sequence[metrics.MetricSpec], named_scores: NamedScores) -> Edges | None:
    """The edge list, which must be of use to a metric or an artifact."""
    if request.edges is None:
        return None
    if not named_scores.linked and all(metric.family != "linked" for metric in chosen):
        raise UsageError(
            "--edges is used by the metric tv and by artifacts fitted with --edges",
            hint="try: --metrics default,tv",
        )
    return read_edges(request.edges)[0]


def _clustering(
    request: EvaluateRequest,
    source: Source,
    scores: Sequence[ComparedScore],
    named_scores: NamedScores,
    chosen: tuple[metrics.MetricSpec, ...],
) -> Clustering | None:
    """The clusters of the rows, where a metric has them for bins."""
    if any(metric.family == "clustered" for metric in chosen):
        return clustering(source, scores, named_scores.models, request.clusters_from, request.flags, request.seed)
    if request.clusters_from is not None:
        raise UsageError(
            "--clusters-from is for the metric cece, which is not measured here", hint="add cece to --metrics"
        )
    return None


def _read(
    request: EvaluateRequest,
    scores: Sequence[ComparedScore],
    tally: Tally,
    chosen: tuple[metrics.MetricSpec, ...],
    clusters: Clustering | None,
    against: Sequence[str],
) -> ScoreBuffer:
    """The probabilities of every good row, and its cluster. Features are read in chunks, and never kept."""
    names = [score.name for score in scores]
    classes = class_names(scores[0].binding)
    sums = SummedScores.nothing(names, classes, chosen, request.options, request.kinds, against=against)
    auto = "--bins auto" if request.options.bins == "auto" else None
    buffer = ScoreBuffer(scores, sums, clusters, whole_for=request.whole_for(scores) or auto)
    bindings, suspect = [score.binding for score in scores], scale_checks(scores)
    if clusters is not None:
        bindings.append(clusters.binding)
        suspect.append(None)
    for batches in read_batches(tally, bindings, suspect):
        buffer.add(batches)
    return buffer


def _drift(
    request: EvaluateRequest,
    named_scores: NamedScores,
    rows: BufferedScores,
    tally: Tally,
    names: Sequence[str],
    units: Units | None,
) -> Mapping[str, Json] | None:
    """Whether the calibration of the artifact of --drift has moved, and its policy keeps its promise."""
    if request.drift is None:
        return None
    place, model, state = drift_asked(request, request.drift, named_scores)
    prob = rows.candidates[place].prob
    promises = promises_of(model, prob, rows, tally, units)
    new_rows = rows_of(tally, prob, rows.labels, rows.weight, promises)
    return observe(model, state, names, new_rows, of_no_rows(promises, len(prob))).to_json()
