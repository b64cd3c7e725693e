"""From predictions to the rows of a report: the one place where verbs meet metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from calcli.artifacts.plain_json import as_json
from calcli.batch import Batch, FloatArray, IntArray, LabelArray
from calcli.diagrams.curves import Curve, Kind
from calcli.metrics.base import Clusters, Definition, Measured, Options, Scored
from calcli.metrics.catalog import MetricSpec, measure, settled
from calcli.metrics.groups import by_group
from calcli.metrics.paired import Paired, paired_sums
from calcli.metrics.rejection import by_rate, by_threshold
from calcli.numeric.links import CLIP, probabilities
from calcli.reports.curves import CurveBuilder
from calcli.reports.schema import (
    DataFacts,
    Difference,
    MetricValue,
    Report,
    ReportWarning,
    ScoreRow,
    ScoreSource,
    Seconds,
    finite,
)
from calcli.state import Json
from calcli.tables.arrays import index_order
from calcli.tables.binding import Binding
from calcli.tables.labels import class_text
from calcli.tables.load import Loaded
from calcli.tables.source import Source
from calcli.version import VERSION

if TYPE_CHECKING:
    from calcli.metrics.bootstrap import Bootstrap


_LEAST = 1.001 * CLIP
"""At most what a probability of 0 has become."""


class Labelled(Protocol):
    """Rows whose labels are known."""

    @property
    def labels(self) -> LabelArray: ...
    @property
    def weight(self) -> FloatArray | None: ...


@dataclass(frozen=True)
class Candidate:
    """A score to be measured: its name, where it comes from, its probabilities."""

    name: str
    source: ScoreSource
    prob: FloatArray
    seconds: Seconds = Seconds()

    def scored(self, rows: Labelled, clusters: Clusters | None = None, edges: IntArray | None = None) -> Scored:
        """With the labels of the same rows, their clusters, and which of them are linked."""
        return Scored(rows.labels, self.prob, rows.weight, clusters, edges)


@dataclass(frozen=True)
class Measurements:
    """What was measured: the report's `definitions`, `scores`, `differences` and `curves`."""

    definitions: Mapping[str, Definition]
    scores: tuple[ScoreRow, ...]
    differences: tuple[Difference, ...]
    curves: tuple[Curve, ...]


def measure_all(
    candidates: Sequence[Candidate],
    rows: Labelled,
    chosen: Sequence[MetricSpec],
    options: Options,
    classes: tuple[str, ...],
    *,
    against: Sequence[str] = (),
    resampling: Resampling | None = None,
    clusters: Clusters | None = None,
    edges: IntArray | None = None,
    kinds: Sequence[Kind] = ("reliability",),
) -> Measurements:
    """Every metric of every score, and the differences of the scores to those `against`, on the same rows.

    Without `against` each score is held against the first. Intervals of differences come from `resampling`; without,
    from normal theory where the metric is a mean over rows. `kinds` are those of the curves.
    """
    # What metrics keep of the rows for each other, their order above all, is held for one score at a time.
    options = settled(chosen, [one.scored(rows, clusters) for one in candidates], options)
    measured = {one.name: measure(chosen, one.scored(rows, clusters, edges), options) for one in candidates}
    scored = {one.name: one.scored(rows, clusters) for one in candidates}
    drawn = None if resampling is None else _Drawn.of(scored, chosen, options, resampling)
    if drawn is not None:
        measured = {name: drawn.completed(name, values) for name, values in measured.items()}
    scores = tuple(
        score_row(candidate.name, candidate.source, measured[candidate.name], classes, candidate.seconds)
        for candidate in candidates
    )
    first = candidates[0].name
    differences = tuple(
        _difference(
            row, (name, versus), (one, scored[versus]), (measured[name][row.name], measured[versus][row.name]), drawn
        )
        for versus in dict.fromkeys(against or (first,))
        for name, one in scored.items()
        if name != versus
        for row in chosen
    )
    definitions = {name: value.definition for name, value in measured[first].items()}
    tracing = CurveBuilder(list(scored), classes, kinds)
    tracing.add(list(scored.values()))
    return Measurements(definitions, scores, differences, tracing.curves())


@dataclass(frozen=True, slots=True)
class Resampling:
    """How often rows are drawn anew, and in which units.

    `groups` is the unit of each row; None draws single rows.
    """

    replicates: int
    seed: int
    groups: IntArray | None = None


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Replicates of all metrics, by the name of the score."""

    bootstrap: Bootstrap
    place: Mapping[str, int]

    @classmethod
    def of(
        cls, scored: Mapping[str, Scored], chosen: Sequence[MetricSpec], options: Options, how: Resampling
    ) -> _Drawn:
        from calcli.metrics.bootstrap import bootstrap

        found = bootstrap(list(scored.values()), chosen, options, how.replicates, seed=how.seed, groups=how.groups)
        return cls(found, {name: place for place, name in enumerate(scored)})

    def completed(self, name: str, values: Mapping[str, Measured]) -> dict[str, Measured]:
        """The measured values with what the replicates say of them."""
        return {metric: self.bootstrap.complete(self.place[name], metric, value) for metric, value in values.items()}

    def difference(self, names: tuple[str, str], metric: str) -> tuple[float | None, float | None, float | None]:
        return self.bootstrap.difference(self.place[names[0]], self.place[names[1]], metric)


def _difference(
    row: MetricSpec,
    names: tuple[str, str],
    scored: tuple[Scored, Scored],
    measured: tuple[Measured, Measured],
    drawn: _Drawn | None,
) -> Difference:
    """One score against another, with an interval where there is one."""
    value = less(*measured)
    if drawn is not None and value is not None:
        return Difference(*names, row.name, value, *map(finite, drawn.difference(names, row.name)))
    per_row = row.load_rows()
    paired = None if value is None or per_row is None else paired_sums(*scored, per_row).difference()
    return normal_difference(names, row.name, value, paired)


def less(one: Measured, other: Measured) -> float | None:
    """One number less another, if there are both."""
    return None if one.value is None or other.value is None else finite(one.value - other.value)


def score_row(
    name: str, source: ScoreSource, measured: Mapping[str, Measured], classes: tuple[str, ...], seconds: Seconds
) -> ScoreRow:
    """The report's entry of a score."""
    metrics = {metric: MetricValue.of(value, classes) for metric, value in measured.items()}
    return ScoreRow(name, source, metrics, seconds=seconds)


def normal_difference(names: tuple[str, str], metric: str, value: float | None, paired: Paired | None) -> Difference:
    """A difference with its interval from normal theory, if there is one."""
    if value is None or paired is None:
        return Difference(*names, metric, value)
    return Difference(*names, metric, value, finite(paired.lo), finite(paired.hi), finite(paired.p))


def measure_groups(
    candidates: Sequence[Candidate],
    rows: Labelled,
    chosen: Sequence[MetricSpec],
    options: Options,
    classes: tuple[str, ...],
    by: str,
    groups: tuple[tuple[str | None, ...], IntArray],
    clusters: Clusters | None = None,
) -> list[dict[str, Json]]:
    """The report's `groups`: every metric of every score within each group of rows."""
    names, codes = groups
    scored = [candidate.scored(rows, clusters) for candidate in candidates]
    values = [_in_group(scored, chosen, options, codes == place) for place in range(len(names))]
    found: list[dict[str, Json]] = []
    for index, candidate in enumerate(candidates):
        facts = by_group(scored[index], codes, len(names))
        for place, (name, fact) in enumerate(zip(names, facts, strict=True)):
            measured, count = values[place]
            metrics = {metric: asdict(MetricValue.of(value, classes)) for metric, value in measured[index].items()}
            entry = {"by": by, "group": name, "rows": count, "score": candidate.name, "metrics": metrics}
            more = {"detectable": fact.detectable, "p": fact.p, "p_adjusted": fact.p_adjusted}
            found.append(as_json(entry | {key: finite(value) for key, value in more.items()}))
    return found


def _in_group(
    everyone: Sequence[Scored], chosen: Sequence[MetricSpec], options: Options, inside: NDArray[np.bool_]
) -> tuple[list[dict[str, Measured]], int]:
    """The metrics of each score within a group, and how many rows it has."""
    scored = [one.take(inside) for one in everyone]
    options = settled(chosen, scored, options)
    return [measure(chosen, one, options) for one in scored], int(inside.sum())


def rejection_curves(candidates: Sequence[Candidate], rows: Labelled) -> list[dict[str, Json]]:
    """The report's `rejection`: x is the share of rows rejected, or the threshold of the uncertainty, y the error."""
    scores = {candidate.name: candidate.scored(rows) for candidate in candidates}
    return [
        {"score": name, "class": None, "by": by, "x": at.at, "y": at.error, "n": at.n, "lo": at.lo, "hi": at.hi}
        for name, scored in scores.items()
        if scored.nothing is None
        for by, points in (("rate", by_rate(scored)), ("threshold", by_threshold(scored)))
        for at in points
    ]


def raw_probabilities(batch: Batch, binding: Binding) -> FloatArray:
    """What the uncalibrated score says; where it came as probabilities, those very ones.

    On the way through the log-odds a probability moves by a rounding error, and 0 and 1 are held inside the open
    interval. That would put 0.3 on the other side of the edge of a bin, so it is undone.
    """
    prob = probabilities(batch.score)
    if binding.score.kind == "logit":
        return prob
    inside = (prob > 1e-3) & (prob < 1.0 - 1e-3)
    prob = np.where(inside, np.round(prob, 15), prob)
    prob = np.where(prob <= _LEAST, 0.0, prob)
    return np.where(prob >= 1.0 - _LEAST, 1.0, prob)


def report_on(
    command: str,
    seed: int,
    data: DataFacts,
    binding: Binding,
    measured: Measurements,
    *,
    artifact: str | None = None,
    chosen: str | None = None,
    warnings: Sequence[ReportWarning] = (),
    groups: Sequence[Mapping[str, Json]] = (),
    rejection: Sequence[Mapping[str, Json]] = (),
) -> Report:
    """The report of a verb."""
    return Report(
        command=command,
        version=VERSION,
        seed=seed,
        data=data,
        binding=binding.to_json(),
        definitions=measured.definitions,
        scores=measured.scores,
        differences=measured.differences,
        warnings=tuple(warnings),
        artifact=artifact,
        chosen=chosen,
        groups=tuple(groups),
        curves=measured.curves,
        rejection=tuple(rejection),
    )


def data_facts(source: Source, loaded: Loaded, binding: Binding) -> DataFacts:
    """The report's `data`."""
    if binding.regression:
        return facts_of(source, binding, loaded.rows, loaded.rows_bad, loaded.batch.weights)
    share = class_weights(loaded.batch.labels, loaded.batch.weight, len(binding.classes))
    return facts_of(source, binding, loaded.rows, loaded.rows_bad, share)


def facts_of(source: Source, binding: Binding, rows: int, rows_bad: int, share: FloatArray) -> DataFacts:
    """The same from the weight of each class, or of parts of the rows where there are none."""
    return DataFacts(
        files=tuple({"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in source.files()),
        rows=rows,
        rows_bad=rows_bad,
        weight_sum=float(share.sum()),
        label_rate=label_rate(share, binding),
    )


def class_weights(labels: LabelArray, weight: FloatArray | None, classes: int) -> FloatArray:
    """How much the rows of each class weigh."""
    return np.bincount(labels, weight, minlength=classes).astype(np.float64)


def class_names(binding: Binding) -> tuple[str, ...]:
    """The classes as text, in the order of the class index."""
    return tuple(class_text(label) for label in index_order(binding))


def label_rate(share: FloatArray, binding: Binding) -> float | dict[str, float] | None:
    """The share of the positive class, or of each class; None for amounts."""
    if binding.regression:
        return None
    total = float(share.sum())
    if total <= 0:
        return None
    if len(binding.classes) == 2:
        return float(share[1] / total)
    return {name: float(value / total) for name, value in zip(class_names(binding), share, strict=True)}
