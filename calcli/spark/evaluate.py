"""`evaluate` on a cluster: in one pass the workers sum their rows, as for tables that are too large to keep."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.decisions.measure import Promised
from calcli.errors import UsageError
from calcli.evaluation.clusters import Clustering, by_column, clustering_of_artifacts
from calcli.evaluation.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, scale_checks
from calcli.evaluation.drift import RowsHere, drift_asked, observe
from calcli.evaluation.grouped_sums import GroupedSums
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import SummedScores
from calcli.listener import Listener, stage
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.numeric.e_process import NightSums
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.groups import distinct_groups, values_of
from calcli.reports.measuring import class_names, class_weights, report_on, with_adjusted
from calcli.reports.schema import Report, Seconds
from calcli.spark.rows import KEY, count_rows, distinct_values, files_of, of_files, read_table, with_units
from calcli.spark.session import spark_session
from calcli.spark.table import example_of, facts_of_sums, judge, of_both, scaled
from calcli.spark.totals import total_of
from calcli.state import Json
from calcli.tables.binding_types import Binding
from calcli.tables.load import columns_of, encode_chunk
from calcli.tables.request import paths_of
from calcli.tables.row_counts import Count, Tally
from calcli.tables.scores import Scale
from calcli.tables.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def evaluate(
    request: EvaluateRequest,
    named_scores: NamedScores,
    chosen: tuple[metrics.MetricSpec, ...],
    against: Sequence[str],
    listener: Listener,
) -> Report:
    """Measure every score, in the metrics that follow from sums over the rows."""
    if request.edges is not None:
        raise _whole("--edges")
    if request.by and request.resample_by is not None:
        raise UsageError(
            "--by with --resample-by needs all rows at once, and --engine spark has only sums over parts of them",
            hint="give one of them, or evaluate a sample of the rows on one machine",
        )
    deciding = next((name for name, model in named_scores.models.items() if model.policy is not None), None)
    if deciding is not None:
        raise _whole(f"the policy of {deciding}")
    paths = paths_of(request.data, request.input_format, request.delimiter)
    name = ", ".join(paths)
    with spark_session(request.master) as session:
        table = read_table(session, paths)
        # Binding looks at a small table with the same columns, labels and groups.
        known = next((model.binding for model in named_scores.models.values()), None)
        columns = [*request.by, *([] if request.clusters_from is None else [request.clusters_from])]
        example = example_of(table, name, request.flags, known, columns)
        scores = bind_scores(example, request.flags, named_scores, listener)
        if (whole := next((score.name for score in scores if score.whole_table), None)) is not None:
            raise _whole(whole)
        scores = (replace(scores[0], binding=scaled(table, scores[0].binding, name)), *scores[1:])
        clusters = _clusters(request, example, scores, named_scores, chosen)
        rows = ScoredRows(name, scores, clusters, keep_going=request.bad_rows == "null")
        units = _units(request, table)
        # A pass that counts rows, if the number of bins follows from it; then the only pass over all columns.
        options = request.options
        if options.bins == "auto":
            counting = CountingRows(name, rows.bindings, rows.keep_going)
            with stage(listener, "counting rows on Spark"):
                options = options.of_rows(total_of(table, columns_of(rows.bindings, features=False), counting, name))
        evaluating = Evaluating(rows, *_nothing(request, options, example, scores, chosen, against))
        with stage(listener, "measuring on Spark"):
            numbered = table
            if evaluating.units is not None:
                numbered = with_units(table, request.resample_by, request.seed)
            total = total_of(numbered, evaluating.reads, evaluating, name)
        # Bad rows are known only now.
        judge(total.suspect, total.count)
        drift = None
        if request.drift is not None:
            with stage(listener, "testing for drift on Spark"):
                place, model, state = drift_asked(request, request.drift, named_scores)
                new_rows = partial(RowsThere.of, table, rows, place)
                drift = observe(model, state, class_names(scores[0].binding), new_rows).to_json()
    binding = scores[0].binding
    replicates = None
    if request.bootstrap and total.sums.units is not None:
        replicates = total.sums.units.bootstrap(request.bootstrap, request.seed)
    measured = total.sums.measured([(score.name, score.source, Seconds()) for score in scores], replicates)
    report = report_on(
        "evaluate",
        request.seed,
        facts_of_sums(total.count, total.weight, binding, units),
        replace(binding, features=all_features(scores)),
        measured,
        groups=with_adjusted([entry for grouped in total.groups for entry in grouped.entries()]),
    )
    return replace(report, drift=drift)


def _whole(what: str) -> UsageError:
    """A flag or a score for which sums are not enough."""
    return UsageError(
        f"{what} needs all rows at once, and --engine spark has only sums over parts of them",
        hint=f"leave out {what}, or evaluate a sample of the rows on one machine",
    )


def _clusters(
    request: EvaluateRequest,
    example: Source,
    scores: Sequence[ComparedScore],
    named_scores: NamedScores,
    chosen: Sequence[metrics.MetricSpec],
) -> Clustering | None:
    if not any(metric.family == "clustered" for metric in chosen):
        return None
    if request.clusters_from is not None:
        return by_column(example, scores[0].binding, request.clusters_from, "--clusters-from")[1]
    return clustering_of_artifacts(scores, named_scores.models)


def _units(request: EvaluateRequest, table: DataFrame) -> dict[str, Json] | None:
    """The report's `data.units`."""
    if request.resample_by is None:
        return None
    count = distinct_values(table, request.resample_by)
    return {"column": request.resample_by, "count": count, "in_order": False}


def _nothing(
    request: EvaluateRequest,
    options: Options,
    example: Source,
    scores: Sequence[ComparedScore],
    chosen: Sequence[metrics.MetricSpec],
    against: Sequence[str],
) -> tuple[SummedScores, list[GroupedSums]]:
    """The sums over no rows: of all, and of the groups of each column of --by."""
    names, classes = [score.name for score in scores], class_names(scores[0].binding)
    sums = SummedScores.nothing(
        names,
        classes,
        chosen,
        options,
        request.kinds,
        against=against,
        by_unit=request.bootstrap > 0,
        together=request.resample_by is not None,
    )
    groups = [
        GroupedSums(column, distinct_groups(values, column), names, classes, chosen, options)
        for column in request.by
        for values in [values_of(Tally(example, keep_going=True), column, "--by")]
    ]
    return sums, groups


@dataclass(frozen=True)
class ScoredRows:
    """The rows of the table under each score, on a worker. It is pickled, with the calibrators in it."""

    name: str
    scores: Sequence[ComparedScore]
    clusters: Clustering | None
    keep_going: bool

    @property
    def bindings(self) -> list[Binding]:
        """Of the scores, and last that of the clusters."""
        clusters = [] if self.clusters is None else [self.clusters.binding]
        return [score.binding for score in self.scores] + clusters

    def of(
        self, frames: Iterator[pl.DataFrame], count: Count, suspect: Sequence[Scale | None]
    ) -> Iterator[tuple[list[Scored], pl.DataFrame]]:
        """The good rows in chunks, under each score and as they are; the driver judges the counts of all tasks."""
        for frame in frames:
            chunk = encode_chunk(frame, self.bindings, count, suspect)
            if chunk is None:
                continue
            batches = chunk.batches
            label, weight = batches[0].labels, batches[0].weight
            clusters = None if self.clusters is None else self.clusters.clusters(self.clusters.place(batches[-1]))
            scored = [
                Scored(label, score.predict(batch), weight, clusters, odds=score.odds(batch))
                for score, batch in zip(self.scores, batches, strict=False)
            ]
            yield scored, frame if chunk.row_numbers is None else frame[chunk.row_numbers]


@dataclass(frozen=True)
class CountingRows:
    """On a worker, how many good rows of one task have a positive weight. It is pickled."""

    name: str
    bindings: Sequence[Binding]
    keep_going: bool

    def __call__(self, frames: Iterator[pl.DataFrame]) -> int:
        count, unchecked = Count(self.name, keep_going=self.keep_going), [None] * len(self.bindings)
        chunks = (encode_chunk(frame, self.bindings, count, unchecked, features=False) for frame in frames)
        return sum(int(np.count_nonzero(chunk.batches[0].weights)) for chunk in chunks if chunk is not None)


@dataclass(slots=True)
class Evaluated:
    """The sums over rows: how many there are, the scale of the scores, the weight of each class, metrics and curves."""

    count: Count
    suspect: list[Scale | None]
    weight: FloatArray
    sums: SummedScores
    groups: list[GroupedSums]

    def __iadd__(self, other: Evaluated) -> Self:
        self.count = self.count + other.count
        self.suspect = of_both(self.suspect, other.suspect)
        self.weight = self.weight + other.weight
        self.sums += other.sums
        for place, there in enumerate(other.groups):
            self.groups[place] += there
        return self


@dataclass(frozen=True)
class Evaluating:
    """On a worker, the sums over the rows of one task, from those over none."""

    rows: ScoredRows
    sums: SummedScores
    groups: list[GroupedSums]

    @property
    def units(self) -> str | None:
        """The column that says which unit a row is of, if there is one."""
        return None if self.sums.units is None else KEY

    @property
    def reads(self) -> list[str]:
        units = [] if self.units is None else [self.units]
        return list(dict.fromkeys([*columns_of(self.rows.bindings), *(one.by for one in self.groups), *units]))

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Evaluated:
        rows = self.rows
        suspect = scale_checks(rows.scores) + ([] if rows.clusters is None else [None])
        classes = len(class_names(rows.bindings[0]))
        sums, groups = copy.deepcopy((self.sums, self.groups))
        total = Evaluated(Count(rows.name, keep_going=rows.keep_going), suspect, np.zeros(classes), sums, groups)
        for scored, frame in rows.of(frames, total.count, suspect):
            total.weight += class_weights(scored[0].label, scored[0].weight, classes)
            total.sums.add(scored, None if self.units is None else frame[self.units].to_numpy())
            for grouped in total.groups:
                grouped.add(scored, frame[grouped.by])
        return total


@dataclass(frozen=True)
class RowsThere:
    """The rows of --drift on a cluster: those of files that were not tested before."""

    table: DataFrame
    rows: ScoredRows
    place: int
    files: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, table: DataFrame, rows: ScoredRows, place: int, known: frozenset[str]) -> Self | None:
        """The rows under the score at a place."""
        files = [(path, sha256) for path, sha256 in files_of(table) if sha256 not in known]
        return cls(of_files(table, [path for path, _ in files]), rows, place, files) if files else None

    @property
    def count(self) -> int:
        return count_rows(self.table)

    def nights(self, baseline: DriftBaseline) -> list[NightSums]:
        return self._summed(methodcaller("nights", baseline))

    def log_expected(
        self, baseline: DriftBaseline, nights: Sequence[NightSums], strengths: Sequence[FloatArray]
    ) -> list[FloatArray]:
        return self._summed(methodcaller("log_expected", baseline, nights, strengths))

    def promised(self) -> list[Promised]:
        return []

    def _summed(self, sums: Callable[[RowsHere], list[Any]]) -> list[Any]:
        """The sums of each class, in a pass over the rows."""
        adding = partial(_of_classes, self.rows, self.place, sums)
        return total_of(self.table, columns_of(self.rows.bindings), adding, self.rows.name).sums


@dataclass
class _OfClasses:
    """Sums for each class."""

    sums: list[Any]

    def __iadd__(self, other: _OfClasses) -> Self:
        self.sums = [one + more for one, more in zip(self.sums, other.sums, strict=True)]
        return self


def _of_classes(
    rows: ScoredRows, place: int, sums: Callable[[RowsHere], list[Any]], frames: Iterator[pl.DataFrame]
) -> _OfClasses:
    """On a worker, the sums over the rows of one task under the score at a place; bad rows were judged before."""
    nothing = Scored.empty(len(class_names(rows.bindings[0])))
    total = _OfClasses(sums(RowsHere(nothing.prob, nothing.label, np.zeros(0))))
    for scored, _ in rows.of(frames, Count(rows.name, keep_going=True), [None] * len(rows.bindings)):
        one = scored[place]
        total += _OfClasses(
            sums(RowsHere(one.prob, one.label, np.ones(len(one)) if one.weight is None else one.weight))
        )
    return total
