"""`evaluate` on a cluster: the workers add up what every score says of their rows, as one machine does of too many."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.diagrams.curves import Kind
from calcli.engines.listener import Listener, stage
from calcli.engines.options import paths_of
from calcli.errors import DataError, UsageError
from calcli.evaluation.clusters import Clustering, clustering_of_artifacts
from calcli.evaluation.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, scale_checks
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import SummedScores
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.metrics.gathered import Gathered
from calcli.reports.curves import CurveBuilder
from calcli.reports.measuring import class_names, class_weights, report_on
from calcli.reports.schema import Report, Seconds
from calcli.spark import session as spark
from calcli.spark.table import example_of, facts_of_sums, refuse_huge
from calcli.tables.binding import Binding
from calcli.tables.load import columns_of, encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scale import Scale


def evaluate(
    request: EvaluateRequest, named: NamedScores, chosen: tuple[metrics.MetricSpec, ...], listener: Listener
) -> Report:
    """Measure every score, as far as sums over the rows tell."""
    more = {"--clusters-from": request.clusters_from, "--resample-by": request.resample_by, "--edges": request.edges}
    _refuse(request.whole_for() or next((name for name, given in more.items() if given is not None), None))
    paths = paths_of(request.data, request.input_format)
    name = ", ".join(paths)
    with spark.session(request.master) as session:
        table = spark.read(session, paths)
        known = next((model.binding for model in named.models.values()), None)
        entrants = bind_scores(example_of(table, name, request.flags, known), request.flags, named, listener)
        _refuse(request.whole_for(entrants))
        clusters = clustering_of_artifacts(entrants, named.models) if any(row.clusters for row in chosen) else None
        kinds = request.kinds
        evaluating = Evaluating(
            name, entrants, clusters, chosen, request.options, kinds, keep_going=request.bad_rows == "null"
        )
        with stage(listener, "measuring on Spark"):
            found = spark.total(table, columns_of(evaluating.bindings), evaluating)
    if found is None:
        raise DataError(f"{name} has no rows")
    for scale in found.suspect:
        if scale is not None:
            scale.judge()
    found.count.judge()
    binding = entrants[0].binding
    scores = tuple((one.name, one.source, Seconds()) for one in entrants)
    measured = SummedScores(chosen, found.gathered, found.tracing, scores).measured(class_names(binding))
    data = facts_of_sums(found.count, found.weight, binding)
    return report_on("evaluate", request.seed, data, replace(binding, features=all_features(entrants)), measured)


def _refuse(what: str | None) -> None:
    """Refuse a flag or a score that sums cannot tell."""
    if what is not None:
        raise UsageError(
            f"{what} needs all rows at once, and --engine spark adds up parts of them",
            hint=f"leave out {what}, or evaluate a sample of the rows on one machine",
        )


@dataclass(slots=True)
class Evaluated:
    """What rows add up to: how many there are, what the scores look like, how much each class weighs, the metrics."""

    count: Count
    suspect: list[Scale | None]
    weight: FloatArray
    gathered: Gathered
    tracing: CurveBuilder

    def __iadd__(self, other: Evaluated) -> Self:
        self.count = self.count + other.count
        self.suspect = [
            None if one is None or two is None else one + two
            for one, two in zip(self.suspect, other.suspect, strict=True)
        ]
        self.weight = self.weight + other.weight
        self.gathered += other.gathered
        self.tracing += other.tracing
        return self


@dataclass(frozen=True)
class Evaluating:
    """What a worker makes of its rows."""

    name: str
    entrants: Sequence[ComparedScore]
    clusters: Clustering | None
    chosen: Sequence[metrics.MetricSpec]
    options: Options
    kinds: tuple[Kind, ...]
    keep_going: bool

    @property
    def bindings(self) -> list[Binding]:
        """Of the scores, and last that of the clusters."""
        return [one.binding for one in self.entrants] + ([] if self.clusters is None else [self.clusters.binding])

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Evaluated:
        found = self._nothing()
        for frame in frames:
            chunk = encode_chunk(frame, self.bindings, found.count, found.suspect)
            if chunk is None:
                continue
            batches = chunk.batches
            label, weight = batches[0].labels, batches[0].weight
            refuse_huge(weight)
            clusters = None if self.clusters is None else self.clusters.clusters(self.clusters.place(batches[-1]))
            probs = [one.predict(batch) for one, batch in zip(self.entrants, batches, strict=False)]
            scored = [Scored(label, prob, weight, clusters) for prob in probs]
            found.weight += class_weights(label, weight, len(found.weight))
            found.gathered.add(scored)
            found.tracing.add(scored)
        return found

    def _nothing(self) -> Evaluated:
        binding = self.bindings[0]
        nothing = Scored.nothing_of(len(binding.classes))
        return Evaluated(
            Count(self.name, keep_going=self.keep_going),
            scale_checks(self.entrants) + ([] if self.clusters is None else [None]),
            np.zeros(len(binding.classes)),
            Gathered(self.chosen, self.options, [nothing for _ in self.entrants]),
            CurveBuilder([one.name for one in self.entrants], class_names(binding), self.kinds),
        )
