"""`evaluate`: how good are these scores, and does an artifact make them better?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from calcli.batch import Edges
from calcli.engines.listener import SILENT, Listener, stage
from calcli.engines.options import check_master
from calcli.errors import UsageError
from calcli.evaluation.clusters import Clustering, clustering
from calcli.evaluation.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, scale_checks
from calcli.evaluation.drift import observe
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import BufferedScores, ScoreBuffer, SummedScores
from calcli.fitting.side_inputs import read_edges
from calcli.metrics import catalog as metrics
from calcli.reports.baseline import Baseline
from calcli.reports.curves import CurveBuilder
from calcli.reports.gate_results import check_gates
from calcli.reports.gates import parse
from calcli.reports.groups import Numbered, groups, linked_rows, ranks
from calcli.reports.measuring import (
    Resampling,
    class_names,
    facts_of,
    measure_all,
    measure_groups,
    rejection_curves,
    report_on,
)
from calcli.reports.schema import Report
from calcli.state import Json
from calcli.tables.load import read_batches
from calcli.tables.row_counts import Tally
from calcli.tables.source import Source, open_source


def evaluate(request: EvaluateRequest, listener: Listener = SILENT) -> Report:
    """Measure the raw score, each artifact's and each column on the same rows."""
    check_master(request.engine, request.master)
    chosen = metrics.choose(request.metrics, clusters=True)
    gates = [parse(expression) for expression in request.fail_if]
    baseline = None if request.baseline is None else Baseline.read(request.baseline)
    if request.state is not None and request.drift is None:
        raise UsageError("--state keeps what --drift has found", hint="add --drift ARTIFACT")
    named = NamedScores.parse(request.all_artifacts, request.scores)
    if request.engine == "spark":
        from calcli.spark.evaluate import evaluate as evaluate_on_spark

        report = evaluate_on_spark(request, named, chosen, listener)
    else:
        report = _here(request, named, chosen, listener)
    if baseline is not None:
        report = replace(report, baseline=baseline.to_json(), changes=baseline.changes(report))
    judged = check_gates(gates, report, allow_null=request.allow_null)
    return replace(report, gates=tuple(result.to_json() for result in judged))


def _here(
    request: EvaluateRequest, named: NamedScores, chosen: tuple[metrics.MetricSpec, ...], listener: Listener
) -> Report:
    """On this machine."""
    edges = _edges(request, chosen, named)
    if edges is not None:
        named = named.linked_by(edges)
    with open_source(request.data, format=request.input_format) as source:
        entrants = bind_scores(source, request.flags, named, listener)
        binding = entrants[0].binding
        tally = Tally(source.name, keep_going=request.bad_rows == "null")
        with stage(listener, "reading"):
            clusters = _clustering(request, source, entrants, named, chosen)
            collected = _collect(request, source, entrants, tally, chosen, clusters)
            resampling = _resampling(request, source, tally)
            parts = [(column, groups(source, column, tally)) for column in request.by]
            node_id = next((one.binding.node_id for one in entrants if one.binding.node_id is not None), None)
            linked = None if edges is None else linked_rows(source, node_id, edges, tally)
        with stage(listener, "measuring"):
            names = class_names(binding)
            rows, options = collected.done(), request.options
            if isinstance(rows, SummedScores):
                measured, grouped, rejected = rows.measured(names), [], []
            else:
                measured = measure_all(
                    rows.candidates,
                    rows,
                    chosen,
                    options,
                    names,
                    resampling=resampling,
                    clusters=rows.clusters,
                    edges=linked,
                    kinds=request.kinds,
                )
                grouped = [
                    entry
                    for column, part in parts
                    for entry in measure_groups(
                        rows.candidates, rows, chosen, options, names, column, part, rows.clusters
                    )
                ]
                rejected = rejection_curves(rows.candidates, rows) if request.rejection else []
        report = report_on(
            "evaluate",
            request.seed,
            facts_of(source, binding, tally.rows, tally.rows_bad, collected.share),
            replace(binding, features=all_features(entrants)),
            measured,
            groups=grouped,
            rejection=rejected,
        )
        if isinstance(rows, BufferedScores):
            report = replace(report, drift=_drift(request, named, rows, report, names))
    return report


def _edges(request: EvaluateRequest, chosen: Sequence[metrics.MetricSpec], named: NamedScores) -> Edges | None:
    """The edge list, if there is one and something here looks at it."""
    if request.edges is None:
        return None
    if not named.linked and all(row.family != "linked" for row in chosen):
        raise UsageError(
            "--edges is of use to the metric tv, and to artifacts that were fitted with --edges",
            hint="try: --metrics default,tv",
        )
    return read_edges(request.edges)[0]


def _clustering(
    request: EvaluateRequest,
    source: Source,
    entrants: Sequence[ComparedScore],
    named: NamedScores,
    chosen: tuple[metrics.MetricSpec, ...],
) -> Clustering | None:
    """What forms clusters of the rows, where a metric has them for bins."""
    if any(row.clusters for row in chosen):
        return clustering(source, entrants, named.models, request.clusters_from, request.flags, request.seed)
    if request.clusters_from is not None:
        raise UsageError(
            "--clusters-from says what CECE has for bins, but it is not measured", hint="add cece to --metrics"
        )
    return None


def _collect(
    request: EvaluateRequest,
    source: Source,
    entrants: Sequence[ComparedScore],
    tally: Tally,
    chosen: tuple[metrics.MetricSpec, ...],
    clusters: Clustering | None,
) -> ScoreBuffer:
    """What each score says of every good row, and its cluster. Features pass by, and are never held."""
    classes = len(entrants[0].binding.classes)
    tracing = CurveBuilder([one.name for one in entrants], class_names(entrants[0].binding), request.kinds)
    whole = request.whole_for(entrants)
    rows = ScoreBuffer(entrants, classes, chosen, request.options, tracing, clusters, whole_for=whole)
    bindings, suspect = [one.binding for one in entrants], scale_checks(entrants)
    if clusters is not None:
        bindings.append(clusters.binding)
        suspect.append(None)
    for batches in read_batches(source, bindings, tally, suspect):
        rows.add(batches)
    return rows


def _drift(
    request: EvaluateRequest, named: NamedScores, rows: BufferedScores, report: Report, names: Sequence[str]
) -> Mapping[str, Json] | None:
    """Whether the calibration of the artifact that is asked about has moved."""
    if request.drift is None:
        return None
    place = request.all_artifacts.index(request.drift)
    model = list(named.models.values())[place]
    prob = rows.candidates[1 + place].prob  # the raw score comes first
    state = Path(request.state or f"{model.path}.drift.json")
    return observe(model, prob, rows.labels, rows.weight, report.data.files, state, names).to_json()


def _resampling(request: EvaluateRequest, source: Source, rows: Numbered) -> Resampling | None:
    if request.bootstrap == 0:
        if request.resample_by is not None:
            raise UsageError("--resample-by says what is drawn, but nothing is", hint="add --bootstrap 1000")
        return None
    units = None
    if request.resample_by is not None:
        units = ranks(source, request.resample_by, rows, "--resample-by")
    return Resampling(request.bootstrap, request.seed, units)
