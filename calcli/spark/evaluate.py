"""`evaluate` on a cluster: in one pass the workers sum their rows, as for tables that are too large to keep."""

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
from calcli.errors import UsageError
from calcli.evaluation.clusters import Clustering, clustering_of_artifacts
from calcli.evaluation.compared_scores import ComparedScore, NamedScores, all_features, bind_scores, scale_checks
from calcli.evaluation.request import EvaluateRequest
from calcli.evaluation.score_buffer import SummedScores
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options, Scored
from calcli.reports.measuring import class_names, class_weights, report_on
from calcli.reports.schema import Report, Seconds
from calcli.spark import session as spark
from calcli.spark.table import example_of, facts_of_sums, scaled
from calcli.tables.binding_types import Binding
from calcli.tables.load import columns_of, encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scale import Scale


def evaluate(
    request: EvaluateRequest, named_scores: NamedScores, chosen: tuple[metrics.MetricSpec, ...], listener: Listener
) -> Report:
    """Measure every score, in the metrics that follow from sums over the rows."""
    # Flags that need all rows in one place.
    more = {"--clusters-from": request.clusters_from, "--edges": request.edges}
    _refuse(request.whole_for() or next((flag for flag, value in more.items() if value is not None), None))
    paths = paths_of(request.data, request.input_format, request.delimiter)
    name = ", ".join(paths)
    with spark.session(request.master) as session:
        table = spark.read(session, paths)
        # Binding looks at a small table with the same columns and labels.
        known = next((model.binding for model in named_scores.models.values()), None)
        example = example_of(table, name, request.flags, known)
        scores = bind_scores(example, request.flags, named_scores, listener)
        _refuse(request.whole_for(scores))
        scores = (replace(scores[0], binding=scaled(table, scores[0].binding, name)), *scores[1:])
        by_cluster = any(metric.clusters for metric in chosen)
        clusters = clustering_of_artifacts(scores, named_scores.models) if by_cluster else None
        # A pass that counts rows, if the number of bins follows from it; then the only pass over all columns.
        keep_going, options = request.bad_rows == "null", request.options
        if options.bins == "auto":
            bindings = [score.binding for score in scores]
            counting, reads = CountingRows(name, bindings, keep_going), columns_of(bindings, features=False)
            with stage(listener, "counting rows on Spark"):
                options = options.of_rows(spark.total(table, reads, counting, name))
        evaluating = Evaluating(name, scores, clusters, chosen, options, request.kinds, keep_going)
        with stage(listener, "measuring on Spark"):
            total = spark.total(table, columns_of(evaluating.bindings), evaluating, name)
    # Bad rows are known only now.
    for scale in total.suspect:
        if scale is not None:
            scale.judge()
    total.count.judge()
    binding = scores[0].binding
    measured = total.sums.measured([(score.name, score.source, Seconds()) for score in scores])
    data = facts_of_sums(total.count, total.weight, binding)
    return report_on("evaluate", request.seed, data, replace(binding, features=all_features(scores)), measured)


def _refuse(what: str | None) -> None:
    """Refuse a flag or a score for which sums are not enough."""
    if what is not None:
        raise UsageError(
            f"{what} needs all rows at once, and --engine spark has only sums over parts of them",
            hint=f"leave out {what}, or evaluate a sample of the rows on one machine",
        )


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

    def __iadd__(self, other: Evaluated) -> Self:
        self.count = self.count + other.count
        self.suspect = [
            None if here is None or there is None else here + there
            for here, there in zip(self.suspect, other.suspect, strict=True)
        ]
        self.weight = self.weight + other.weight
        self.sums += other.sums
        return self


@dataclass(frozen=True)
class Evaluating:
    """On a worker, the sums over the rows of one task. It is pickled, with the calibrators in it."""

    name: str
    scores: Sequence[ComparedScore]
    clusters: Clustering | None
    chosen: Sequence[metrics.MetricSpec]
    options: Options
    kinds: tuple[Kind, ...]
    keep_going: bool

    @property
    def bindings(self) -> list[Binding]:
        """Of the scores, and last that of the clusters."""
        clusters = [] if self.clusters is None else [self.clusters.binding]
        return [score.binding for score in self.scores] + clusters

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Evaluated:
        classes = class_names(self.bindings[0])
        total = Evaluated(
            Count(self.name, keep_going=self.keep_going),
            scale_checks(self.scores) + ([] if self.clusters is None else [None]),
            np.zeros(len(classes)),
            SummedScores.nothing([score.name for score in self.scores], classes, self.chosen, self.options, self.kinds),
        )
        for frame in frames:
            # Rows are checked, and bad ones left out; the driver judges the counts of all tasks.
            chunk = encode_chunk(frame, self.bindings, total.count, total.suspect)
            if chunk is None:
                continue
            batches = chunk.batches
            label, weight = batches[0].labels, batches[0].weight
            clusters = None if self.clusters is None else self.clusters.clusters(self.clusters.place(batches[-1]))
            total.weight += class_weights(label, weight, len(classes))
            total.sums.add(
                [
                    Scored(label, score.predict(batch), weight, clusters, odds=score.odds(batch))
                    for score, batch in zip(self.scores, batches, strict=False)
                ]
            )
        return total
