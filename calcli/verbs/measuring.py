"""From predictions to the rows of a report: the one place where verbs meet metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.metrics.base import Definition, Measured, Options, Scored
from calcli.metrics.catalog import Row, measure
from calcli.metrics.groups import by_group
from calcli.metrics.paired import paired_difference
from calcli.numeric.links import CLIP, probabilities
from calcli.state import Json
from calcli.tables.binding import Binding
from calcli.tables.checks import Loaded
from calcli.tables.labels import class_text
from calcli.tables.source import Source
from calcli.verbs.asjson import as_json
from calcli.verbs.report import (
    DataFacts,
    Difference,
    MetricValue,
    Report,
    ScoreRow,
    ScoreSource,
    Seconds,
    Warned,
    finite,
)
from calcli.version import VERSION

if TYPE_CHECKING:
    from calcli.metrics.bootstrap import Bootstrap


_LEAST = 1.001 * CLIP
"""At most what a probability of 0 has become."""


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
    resampling: Resampling | None = None,
) -> Measurements:
    """Every metric of every score, and the differences of the scores to those `against`, on the same rows.

    Without `against` each score is held against the first. Intervals of differences come from `resampling`; without,
    from normal theory where the metric is a mean over rows.
    """
    scored = {candidate.name: Scored(batch.labels, candidate.prob, batch.weight) for candidate in candidates}
    measured = {name: measure(chosen, one, options) for name, one in scored.items()}
    drawn = None if resampling is None else _Drawn.of(scored, chosen, options, resampling)
    if drawn is not None:
        measured = {name: drawn.completed(name, values) for name, values in measured.items()}
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
        _difference(
            row, (name, versus), (one, scored[versus]), (measured[name][row.name], measured[versus][row.name]), drawn
        )
        for versus in dict.fromkeys(against or (first,))
        for name, one in scored.items()
        if name != versus
        for row in chosen
    )
    definitions = {name: value.definition for name, value in measured[first].items()}
    return Measurements(definitions, scores, differences)


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
    def of(cls, scored: Mapping[str, Scored], chosen: Sequence[Row], options: Options, how: Resampling) -> _Drawn:
        from calcli.metrics.bootstrap import bootstrap

        found = bootstrap(list(scored.values()), chosen, options, how.replicates, seed=how.seed, groups=how.groups)
        return cls(found, {name: place for place, name in enumerate(scored)})

    def completed(self, name: str, values: Mapping[str, Measured]) -> dict[str, Measured]:
        """The measured values with what the replicates say of them."""
        return {metric: self.bootstrap.complete(self.place[name], metric, value) for metric, value in values.items()}

    def difference(self, names: tuple[str, str], metric: str) -> tuple[float | None, float | None, float | None]:
        return self.bootstrap.difference(self.place[names[0]], self.place[names[1]], metric)


def _difference(
    row: Row,
    names: tuple[str, str],
    scored: tuple[Scored, Scored],
    measured: tuple[Measured, Measured],
    drawn: _Drawn | None,
) -> Difference:
    """One score against another, with an interval where there is one."""
    here, there = measured[0].value, measured[1].value
    value = None if here is None or there is None else finite(here - there)
    if drawn is not None and value is not None:
        return Difference(*names, row.name, value, *map(finite, drawn.difference(names, row.name)))
    per_row = row.load_rows()
    if value is None or per_row is None:
        return Difference(*names, row.name, value)
    _, lo, hi, p = paired_difference(per_row(scored[0]), per_row(scored[1]), scored[0].weight)
    return Difference(*names, row.name, value, finite(lo), finite(hi), finite(p))


def measure_groups(
    candidates: Sequence[Candidate],
    batch: Batch,
    chosen: Sequence[Row],
    options: Options,
    classes: tuple[str, ...],
    by: str,
    groups: tuple[tuple[str | None, ...], IntArray],
) -> list[dict[str, Json]]:
    """The report's `groups`: every metric of every score within each group of rows."""
    names, codes = groups
    found: list[dict[str, Json]] = []
    for candidate in candidates:
        everyone = Scored(batch.labels, candidate.prob, batch.weight)
        for name, place, facts in zip(names, range(len(names)), by_group(everyone, codes, len(names)), strict=True):
            inside = codes == place
            weight = None if batch.weight is None else batch.weight[inside]
            values = measure(chosen, Scored(batch.labels[inside], candidate.prob[inside], weight), options)
            metrics = {metric: asdict(MetricValue.of(value, classes)) for metric, value in values.items()}
            entry = {"by": by, "group": name, "rows": int(inside.sum()), "score": candidate.name, "metrics": metrics}
            found.append(
                as_json(
                    entry
                    | {
                        "detectable": finite(facts.detectable),
                        "p": finite(facts.p),
                        "p_adjusted": finite(facts.p_adjusted),
                    }
                )
            )
    return found


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
    source: Source,
    loaded: Loaded,
    binding: Binding,
    measured: Measurements,
    *,
    artifact: str | None = None,
    chosen: str | None = None,
    warnings: Sequence[Warned] = (),
) -> Report:
    """What a verb found, and on what."""
    return Report(
        command=command,
        version=VERSION,
        seed=seed,
        artifact=artifact,
        chosen=chosen,
        data=data_facts(source, loaded, binding),
        binding=binding.to_json(),
        definitions=measured.definitions,
        scores=measured.scores,
        differences=measured.differences,
        warnings=tuple(warnings),
    )


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
