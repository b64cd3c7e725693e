"""From predictions to the rows of a report: the one place where verbs meet metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.catalog import Row, measure
from calcli.metrics.paired import paired_difference
from calcli.tables.binding import Binding
from calcli.tables.checks import Loaded
from calcli.tables.labels import class_text
from calcli.tables.source import Source
from calcli.verbs.report import DataFacts, Difference, MetricValue, ScoreRow, ScoreSource, Seconds, finite


@dataclass(frozen=True)
class Candidate:
    """A score to be measured: its name, where it comes from, its probabilities."""

    name: str
    source: ScoreSource
    prob: FloatArray
    seconds: Seconds = Seconds()


@dataclass(frozen=True)
class Measurements:
    """What was measured: the report's `definitions`, `scores` and `differences`."""

    definitions: Mapping[str, Definition]
    scores: tuple[ScoreRow, ...]
    differences: tuple[Difference, ...]


def measure_all(
    candidates: Sequence[Candidate],
    batch: Batch,
    chosen: Sequence[Row],
    options: Options,
    classes: tuple[str, ...],
    *,
    against: Sequence[str] = (),
) -> Measurements:
    """Every metric of every score, and the differences of the scores to those `against`, on the same rows.

    Without `against` each score is held against the first.
    """
    scored = {candidate.name: Scored(batch.labels, candidate.prob, batch.weight) for candidate in candidates}
    measured = {name: measure(chosen, one, options) for name, one in scored.items()}
    scores = tuple(
        ScoreRow(
            name=candidate.name,
            source=candidate.source,
            metrics={name: MetricValue.of(value, classes) for name, value in measured[candidate.name].items()},
            seconds=candidate.seconds,
        )
        for candidate in candidates
    )
    first = candidates[0].name
    differences = tuple(
        _difference(row, (name, versus), (one, scored[versus]), (measured[name][row.name], measured[versus][row.name]))
        for versus in dict.fromkeys(against or (first,))
        for name, one in scored.items()
        if name != versus
        for row in chosen
    )
    definitions = {name: value.definition for name, value in measured[first].items()}
    return Measurements(definitions, scores, differences)


def _difference(
    row: Row, names: tuple[str, str], scored: tuple[Scored, Scored], measured: tuple[Measured, Measured]
) -> Difference:
    """One score against another; with an interval where the metric is a mean over rows."""
    here, there = measured[0].value, measured[1].value
    value = None if here is None or there is None else finite(here - there)
    per_row = row.load_rows()
    if value is None or per_row is None:
        return Difference(*names, row.name, value)
    _, lo, hi, p = paired_difference(per_row(scored[0]), per_row(scored[1]), scored[0].weight)
    return Difference(*names, row.name, value, finite(lo), finite(hi), finite(p))


def data_facts(source: Source, loaded: Loaded, binding: Binding) -> DataFacts:
    """The report's `data`."""
    batch = loaded.batch
    return DataFacts(
        files=tuple({"path": file.path, "bytes": file.bytes, "sha256": file.sha256} for file in source.files()),
        rows=loaded.rows,
        rows_bad=loaded.rows_bad,
        weight_sum=float(batch.weights.sum()),
        label_rate=label_rate(batch, binding),
    )


def class_names(binding: Binding) -> tuple[str, ...]:
    """The classes as text, in the order of the class index."""
    return tuple(class_text(label) for label in binding.classes)


def label_rate(batch: Batch, binding: Binding) -> float | dict[str, float] | None:
    """The weighted share of the positive class, or of each class."""
    share = np.bincount(batch.labels, batch.weight, minlength=len(binding.classes))
    total = float(share.sum())
    if total <= 0:
        return None
    if len(binding.classes) == 2:
        return float(share[1] / total)
    return {name: float(value / total) for name, value in zip(class_names(binding), share, strict=True)}
