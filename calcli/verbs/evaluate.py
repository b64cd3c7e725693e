"""`evaluate`: how good are these scores, and does an artifact make them better?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from calcli.batch import Edges, IntArray, SamplingUnits
from calcli.errors import UsageError, unknown_name
from calcli.listener import SILENT, Listener, stage
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Definition, Options
from calcli.models.base import kept_at, open_model
from calcli.models.calibrator import CalibratorModel
from calcli.models.multi import MultiModel
from calcli.models.side_inputs import read_edges
from calcli.numeric.bins import BINS
from calcli.places import folder
from calcli.reports.baseline import Baseline
from calcli.reports.conditions import check_gates
from calcli.reports.gates import Gate, parse
from calcli.reports.groups import (
    LabelCheck,
    TableRows,
    distinct_groups,
    groups,
    linked_rows,
    related_rows,
    score_warnings,
    units_of,
    values_of,
)
from calcli.reports.measuring import (
    Measurements,
    Resampling,
    class_names,
    facts_of,
    measure_all,
    measure_groups,
    rejection_curves,
    report_on,
    units_fact,
    with_adjusted,
)
from calcli.reports.schema import RAW, Report, ReportWarning
from calcli.reports.score_sums import GroupedSums, SummedScores
from calcli.reports.segments import MOST_SEGMENTS
from calcli.reports.several import of_labels
from calcli.state import Json
from calcli.tables.binding_types import Binding
from calcli.tables.checks import Tally, doubt_of_scale
from calcli.tables.pairs import STAR, joint_binding, label_tables, name_of_labels
from calcli.tables.passes import ClusterTable, LocalTable, Passed, Table
from calcli.tables.request import check_master, open_table
from calcli.tables.source import Source
from calcli.verbs.clusters import Clustering, clustering
from calcli.verbs.compared_scores import (
    USUAL_SEGMENTS,
    ComparedScore,
    EvaluateRequest,
    NamedScores,
    all_features,
    bind_scores,
    check_several,
    seen_before,
    split_names,
)
from calcli.verbs.engine import grouped, needs_all_rows, opened
from calcli.verbs.score_passes import BufferedScores, RowCountPass, ScoredRows, ScorePass, ScoreTotal


def evaluate(request: EvaluateRequest, listener: Listener = SILENT) -> Report:
    """Measure the raw score, each artifact's and each column on the same rows."""
    if request.audit:
        request = replace(request, find_segments=request.find_segments or USUAL_SEGMENTS, every_curve=True)
    # The request is checked before any rows are read.
    check_master(request.engine, request.master)
    chosen = metrics.choose(request.metrics, clusters=True, ordered=request.ordered)
    gates = [parse(expression) for expression in request.fail_if]
    baseline = None if request.baseline is None else Baseline.read(request.baseline)
    if not 0 <= request.find_segments <= MOST_SEGMENTS:
        raise UsageError(f"--find-segments {request.find_segments}: give a number up to {MOST_SEGMENTS}")
    if request.of_class is not None and not request.find_segments:
        raise UsageError("--class is for --find-segments", hint="add --find-segments")
    if request.state is not None and request.drift is None:
        raise UsageError("--state stores the result of --drift", hint="add --drift ARTIFACT")
    if request.drift is not None and request.state is None:
        kept_at(request.drift)  # beside which the log is
    given, columns = split_names(request.all_artifacts, request.scores)
    models = {name: open_model(artifact) for name, artifact in given.items()}
    several = {name: model for name, model in models.items() if isinstance(model, MultiModel)}
    if several or request.flags.multi is not None:
        check_several(request, [*models.values()], columns)
        return _of_each_label(request, several, columns, chosen, gates, listener)
    calibrators = {name: model for name, model in models.items() if isinstance(model, CalibratorModel)}
    if len(calibrators) < len(models):
        if calibrators or columns:
            raise UsageError("intervals of amounts are not compared with scores", hint="evaluate them on their own")
        from calcli.verbs.policies import evaluate_decisions

        return evaluate_decisions(request, models, listener)
    named_scores = NamedScores(calibrators, columns)
    against = _against(request, named_scores)
    if request.engine != "local":
        _refuse_what_needs_rows(request, named_scores)
    # The metrics.
    edges = _edges(request, chosen, named_scores)
    if edges is not None:
        named_scores = named_scores.linked_by(edges)
    report = _Evaluation(request, named_scores, chosen, against, edges, listener).report()
    for note in _without_effect(request.options, report.definitions):
        listener.note(note)
    # The changes since the baseline, and the gates.
    if baseline is not None:
        report = replace(report, baseline=baseline.to_json(), changes=baseline.changes(report))
    return replace(report, gates=check_gates(gates, report, allow_null=request.allow_null))


def _of_each_label(
    request: EvaluateRequest,
    models: Mapping[str, MultiModel],
    columns: Mapping[str, str],
    chosen: tuple[metrics.MetricSpec, ...],
    gates: Sequence[Gate],
    listener: Listener,
) -> Report:
    """The report of several labels, each of which is measured by itself, as a group of its own."""
    first = next(iter(models.values()), None)
    by = name_of_labels(request.flags) or str(first and first.binding.label)
    reports = {}
    with open_table(request) as source:
        tables = label_tables(source, request.flags, listener, None if first is None else first.bindings, by)
        for label, one in tables.items():
            scores = {name: column.replace(STAR, label) for name, column in columns.items()}
            named_scores = NamedScores({name: model.member(label) for name, model in models.items()}, scores)
            asked = replace(request, flags=one.flags, by=(by, *request.by))
            evaluation = _Evaluation(asked, named_scores, chosen, _against(asked, named_scores), None, listener)
            report = evaluation.report_of(LocalTable.of(one.source, keep_going=request.bad_rows == "null"))
            reports[label] = replace(report, gates=check_gates(gates, report, allow_null=request.allow_null))
        bindings = [Binding.from_json(report.binding) for report in reports.values()]
        return of_labels(by, reports, joint_binding(by, bindings), source.rows())


def _without_effect(options: Options, definitions: Mapping[str, Definition]) -> Iterator[str]:
    """Notes on options that none of the measured metrics follows."""
    used = definitions.values()
    shuffled = any(one.binning == "shuffled" for one in used)
    in_bins = (one for one in used if one.binning in ("width", "mass"))
    if options.bins != BINS and not any(one.auto_bins or one.bins == options.bins for one in in_bins):
        of_mvce = "; the groups of mvce have a size of their own, --bin-size" if shuffled else ""
        yield f"--bins changes none of these metrics{of_mvce}"
    if options.bin_size is not None and not shuffled:
        yield "--bin-size changes none of these metrics: it is for mvce"


def _against(request: EvaluateRequest, named_scores: NamedScores) -> tuple[str, ...]:
    """The scores from which the others' differences are shown: the raw one, and that of --versus."""
    names = [RAW, *named_scores.models, *named_scores.columns]
    if request.versus is None:
        return (RAW,)
    if request.versus not in names:
        raise UsageError(f"--versus: {unknown_name('score', request.versus, names)}")
    return tuple(dict.fromkeys((RAW, request.versus)))


def _refuse_what_needs_rows(request: EvaluateRequest, named_scores: NamedScores) -> None:
    """Refuse what a cluster cannot measure, which has only sums over parts of the rows."""
    for flag, given in (("--edges", request.edges is not None), ("--audit", request.audit)):
        if given:
            raise needs_all_rows(flag)
    if request.by and request.resample_by is not None:
        raise UsageError(
            "--by with --resample-by needs all rows at once, and --engine spark has only sums over parts of them",
            hint="give one of them, or evaluate a sample of the rows on one machine",
        )
    for name, model in named_scores.models.items():
        if model.policy is not None:
            raise needs_all_rows(f"the policy of {name}")


def _edges(request: EvaluateRequest, chosen: Sequence[metrics.MetricSpec], named_scores: NamedScores) -> Edges | None:
    """The edge list, if one is given; a metric or an artifact must use it."""
    if request.edges is None:
        return None
    if not named_scores.linked and all(metric.family != "linked" for metric in chosen):
        raise UsageError(
            "--edges is used by the metric tv and by artifacts fitted with --edges",
            hint="try: --metrics default,tv",
        )
    return read_edges(request.edges)[0]


class _Gathered(NamedTuple):
    """The pass that was made over all rows, its findings, and the facts about rows beside scores and labels."""

    measuring: ScorePass
    passed: Passed[ScoreTotal]
    units_fact: Mapping[str, Json] | None
    """The report's `data.units`."""

    units: SamplingUnits | None = None
    """The unit of each row."""

    groupings: Sequence[tuple[str, tuple[tuple[str | None, ...], IntArray]]] = ()
    """For each column of --by the names of its groups, and the group of each row."""

    linked: IntArray | None = None
    """The pairs of rows that are linked, or the group of each row; see `Scored`."""


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """The scores that a request compares, and the metrics in which it does."""

    request: EvaluateRequest
    named_scores: NamedScores
    chosen: tuple[metrics.MetricSpec, ...]
    against: tuple[str, ...]
    edges: Edges | None
    listener: Listener

    def report(self) -> Report:
        with opened(self.request) as table:
            return self.report_of(table)

    def report_of(self, table: LocalTable | ClusterTable) -> Report:
        request = replace(self.request, by=grouped(table, self.request.by, self.listener))
        return replace(self, request=request)._measured(table)

    def _measured(self, table: LocalTable | ClusterTable) -> Report:
        request, listener = self.request, self.listener
        here = isinstance(table, LocalTable)
        with stage(listener, "looking at the columns"):
            example, scores = self._bound(table)
        binding = scores[0].binding
        if any(metric.family == "ordered" for metric in self.chosen):
            listener.note(f"the order of the classes: {' < '.join(class_names(binding))}; --classes gives another")
        with stage(listener, "reading" if here else "measuring on Spark"):
            gathered = self._gathered(table, example, scores)
        passed, units = gathered.passed, gathered.units
        with stage(listener, "measuring"):
            # All metrics of all rows, or those that follow from sums where the rows are not all here.
            rows = gathered.measuring.held(passed.total)
            if rows is None:
                measured = self._from_sums(gathered)
            else:
                rows = rows if units is None else replace(rows, together=units.rank)
                measured = self._from_rows(rows, class_names(binding), gathered, halved=binding.soft)
        count, share = passed.count, passed.total.share
        facts = facts_of(example, binding, count.facts, share)
        report = report_on(
            "evaluate",
            request.seed,
            replace(facts, units=gathered.units_fact),
            replace(binding, features=all_features(scores)),
            replace(measured, groups=with_adjusted(measured.groups)),
            warnings=() if request.options.in_sample else seen_before(example, self.named_scores.models),
        )
        if rows is not None:
            report = replace(report, warnings=(*self._doubts(example, binding, rows), *report.warnings))
        report = replace(report, drift=self._drift(table, gathered, rows))
        if request.find_segments and rows is not None and isinstance(table, LocalTable):
            from calcli.verbs.audit import segments_of

            with stage(listener, "looking for segments"):
                found = segments_of(request, rows, table.tally, scores, listener)
            report = replace(report, segments=found.found, segment_search=found.searches)
        elif request.find_segments and not here:
            sampled = self._of_sample()
            report = replace(report, segments=sampled.segments, segment_search=sampled.segment_search)
        if rows is not None and isinstance(table, LocalTable):
            if any(model.policy is not None for model in self.named_scores.models.values()):
                from calcli.verbs.policies import measured_policies

                decisions = measured_policies(request, self.named_scores, rows, table.tally, units)
                report = replace(report, decisions=decisions)
            if request.audit:
                from calcli.verbs.audit import with_recalibration

                report = with_recalibration(report, request, table.tally.source, scores, listener)
        return report

    def _bound(self, table: Table) -> tuple[Source, tuple[ComparedScore, ...]]:
        """The scores, bound to their columns in the table or in an example of it."""
        request = self.request
        known = next((model.binding for model in self.named_scores.models.values()), None)
        groups = [*request.by, *([] if request.clusters_from is None else [request.clusters_from])]
        example = table.example(request.flags, known, groups)
        scores = bind_scores(example, request.flags, self.named_scores, self.listener)
        if request.engine != "local":
            for score in scores:
                if score.whole_table:
                    raise needs_all_rows(score.name)
        else:
            self.named_scores.note_links(scores, example, self.listener)
        raw, *others = scores
        return example, (replace(raw, binding=table.with_weight_scale(raw.binding)), *others)

    def _gathered(
        self, table: LocalTable | ClusterTable, example: Source, scores: Sequence[ComparedScore]
    ) -> _Gathered:
        """The rows under each score, held here, or summed on a cluster. Features are read in chunks, and never kept."""
        request, options = self.request, self.request.options
        rows = ScoredRows(scores, self._clustering(example, scores))
        if isinstance(table, LocalTable):
            auto = "--bins auto" if options.bins == "auto" else None
            soft = f"the soft label {scores[0].binding.label!r}" if scores[0].binding.soft else None
            whole_for = request.whole_for(scores) or auto or soft
            measuring = ScorePass(rows, self._no_sums(scores, options), holds=True, whole_for=whole_for)
            passed, tally = table.run(measuring), table.tally
            linked, units = self._linked(scores, tally), units_of(tally, request.resample_by)
            groupings = [(column, groups(tally, column)) for column in request.by]
            return _Gathered(measuring, passed, units_fact(units), units, groupings, linked)
        fact: dict[str, Json] | None = None
        if (column := request.resample_by) is not None:
            fact = {"column": column, "count": table.count_units(column, "--resample-by"), "in_order": False}
        if options.bins == "auto":
            with stage(self.listener, "counting rows on Spark"):
                options = options.of_rows(table.run(RowCountPass(rows)).total)
        sums, examples = self._no_sums(scores, options), Tally(example, keep_going=True)
        of_groups = [
            GroupedSums(by, distinct_groups(values_of(examples, by, "--by"), by), sums, options) for by in request.by
        ]
        key = None
        if sums.units is not None:
            table = table.with_units(column, request.seed)
            key = table.unit_key
        measuring = ScorePass(rows, sums, of_groups, key)
        return _Gathered(measuring, table.run(measuring), fact)

    def _linked(self, scores: Sequence[ComparedScore], rows: TableRows) -> IntArray | None:
        """The rows that --edges links, or else those that the first artifact with a graph links by its relation."""
        node_id = next((score.binding.node_id for score in scores if score.binding.node_id is not None), None)
        if self.edges is not None:
            return linked_rows(rows, node_id, self.edges)
        if all(metric.family != "linked" for metric in self.chosen):
            return None
        bindings = {score.name: score.binding for score in scores}
        for name, model in self.named_scores.models.items():
            linked = related_rows(rows, bindings[name], model.calibrator)
            if linked is not None:
                self.listener.note(f"tv is of rows that are linked as {name} links them")
                return linked
        return None

    def _no_sums(self, scores: Sequence[ComparedScore], options: Options) -> SummedScores:
        return SummedScores.nothing(
            [score.name for score in scores],
            class_names(scores[0].binding),
            self.chosen,
            options,
            self.request.kinds,
            against=self.against,
            by_unit=self.request.bootstrap > 0,
            together=self.request.resample_by is not None,
        )

    def _clustering(self, example: Source, scores: Sequence[ComparedScore]) -> Clustering | None:
        """The clusters of the rows, where a metric has them for bins."""
        request, here = self.request, self.request.engine == "local"
        if any(metric.family == "clustered" for metric in self.chosen):
            models = self.named_scores.models
            return clustering(
                example, scores, models, request.clusters_from, request.flags, request.seed, from_features=here
            )
        if request.clusters_from is not None and here:
            raise UsageError(
                "--clusters-from is for the metric cece, which is not measured here", hint="add cece to --metrics"
            )
        return None

    def _from_sums(self, gathered: _Gathered) -> Measurements:
        total, replicates = gathered.passed.total, None
        if self.request.bootstrap and total.sums.units is not None:
            replicates = total.sums.units.bootstrap(self.request.bootstrap, self.request.seed)
        groups = tuple(entry for grouped in total.groups for entry in grouped.entries())
        return replace(gathered.measuring.measured(total, replicates), groups=groups)

    def _from_rows(
        self, rows: BufferedScores, names: tuple[str, ...], gathered: _Gathered, *, halved: bool
    ) -> Measurements:
        request, candidates = self.request, rows.candidates
        options = request.options.of_rows(candidates[0].scored(rows).rows)  # of groups as of all rows
        resampling = Resampling(request.bootstrap, request.seed, rows.together) if request.bootstrap else None
        measured = measure_all(
            candidates,
            rows,
            self.chosen,
            options,
            names,
            against=self.against,
            resampling=resampling,
            clusters=rows.clusters,
            edges=gathered.linked,
            kinds=request.kinds,
            halved=halved,
        )
        groups = tuple(
            entry
            for column, codes in gathered.groupings
            for entry in measure_groups(
                candidates, rows, self.chosen, options, names, column, codes, rows.clusters, halved=halved
            )
        )
        rejection = rejection_curves(candidates, rows) if request.rejection else ()
        return replace(measured, groups=groups, rejection=rejection)

    def _of_sample(self) -> Report:
        """The report of a sample of a table on a cluster, for what needs the rows themselves."""
        from calcli.models.cluster import cluster

        request, flags = replace(self.request, options=Options()), self.request.flags
        known = next((model.binding for model in self.named_scores.models.values()), None)
        drawn = cluster(request.engine).sampled_table(request, flags, request.resample_by, self.listener, known)
        with drawn as sample:
            here = replace(
                request,
                data=sample.source.raw.collect(),
                engine="local",
                master=None,
                flags=replace(flags, ignore=()),
                by=(),
                bootstrap=0,
                drift=None,
            )
            return replace(self, request=here, chosen=metrics.choose("nll"), against=(RAW,)).report()

    def _doubts(self, source: Source, binding: Binding, rows: BufferedScores) -> tuple[ReportWarning, ...]:
        """Warnings of a score that may be another one, or of another scale."""
        raw = rows.candidates[0].scored(rows)
        doubts = tuple(score_warnings(LabelCheck.of_scored(raw, len(class_names(binding))), raw.prob, binding))
        if self.named_scores.models and (doubt := doubt_of_scale(source, binding)) is not None:
            return (ReportWarning("scale", doubt), *doubts)
        return doubts

    def _drift(
        self, table: LocalTable | ClusterTable, gathered: _Gathered, rows: BufferedScores | None
    ) -> Mapping[str, Json] | None:
        """Whether the calibration of the artifact of --drift has moved, and its policy keeps its promise."""
        if self.request.drift is None:
            return None
        from calcli.verbs.drift import new_rows_on_cluster, observe, of_no_rows, rows_of

        place = self.request.all_artifacts.index(self.request.drift)
        model = list(self.named_scores.models.values())[place]
        state = folder(self.request.state or f"{model.path}.drift.json")
        names = class_names(gathered.measuring.rows.scores[0].binding)
        if isinstance(table, LocalTable):
            assert rows is not None  # `whole_for` has refused too many
            from calcli.verbs.policies import promises_of

            prob = rows.candidates[1 + place].prob  # the raw score is the first
            promises = promises_of(model, prob, rows, table.tally, gathered.units)
            new_rows = rows_of(table.tally, prob, rows.labels, rows.weight, promises)
            never = of_no_rows(promises, len(prob))
            return observe(model, state, names, new_rows, never, self.listener).to_json()
        new_there = partial(new_rows_on_cluster, table, gathered.measuring.rows, 1 + place)
        with stage(self.listener, "testing for drift on Spark"):
            return observe(model, state, names, new_there, listener=self.listener).to_json()
