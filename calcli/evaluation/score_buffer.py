"""The probabilities of every row under each score, in memory; of too many rows only the sums that metrics need."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calcli.batch import Batch, FloatArray, IntArray, LabelArray, spans
from calcli.diagrams.curve_sums import CurveBuilder
from calcli.diagrams.curves import Kind
from calcli.errors import UsageError
from calcli.evaluation.clusters import Clustering
from calcli.evaluation.compared_scores import ComparedScore
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.bootstrap import Bootstrap
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.gathered import Gathered, UnitMeans
from calcli.reports.measuring import (
    Candidate,
    Measurements,
    class_weights,
    normal_difference,
    score_row,
    value_difference,
)
from calcli.reports.schema import Difference, ScoreSource, Seconds, finite
from calcli.tables.load import join_batches

HELD = 50_000_000
"""At most so many probabilities are kept of each score: one for a row, or one for each of more than two classes."""

_TOGETHER = 1 << 20
"""Rows that are added up at a time when the buffer is given up."""

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class BufferedScores:
    """All rows: labels, weights, clusters, and the probabilities of each score."""

    labels: LabelArray
    weight: FloatArray | None
    candidates: tuple[Candidate, ...]
    clusters: Clusters | None = None
    together: IntArray | None = None


@dataclass(slots=True)
class SummedScores:
    """Sums over rows that are not kept, for the metrics and the curves of several scores.

    `classes` are the names of the classes. Sums over other rows of the same scores are added with ``+=``. The means
    of `units` give intervals where rows belong together (`together`), and what a bootstrap draws.
    """

    classes: tuple[str, ...]
    chosen: Sequence[MetricSpec]
    gathered: Gathered
    tracing: CurveBuilder
    units: UnitMeans | None = None
    together: bool = False

    @classmethod
    def nothing(
        cls,
        scores: Sequence[str],
        classes: tuple[str, ...],
        chosen: Sequence[MetricSpec],
        options: Options,
        kinds: Sequence[Kind] = ("reliability",),
        *,
        against: Sequence[str] = (),
        by_unit: bool = False,
        together: bool = False,
    ) -> Self:
        """Without rows. The default of `against`, from which differences are wanted, is the first score."""
        places = [list(scores).index(name) for name in against] or [0]
        gathered = Gathered(chosen, options, [Scored.empty(len(classes)) for _ in scores], places)
        return cls(
            classes,
            chosen,
            gathered,
            # A diagnosis takes rows for independent of each other.
            CurveBuilder(scores, classes, kinds, bins=options.bins, judged=not options.in_sample and not together),
            UnitMeans.empty(chosen, len(scores)) if by_unit or together else None,
            together,
        )

    def add(self, scored: Sequence[Scored], units: IntArray | None = None) -> None:
        """More rows, under each score, and the set of each one's unit where these are added up."""
        self.gathered.add(scored)
        self.tracing.add(scored)
        if self.units is not None and units is not None:
            self.units.add(scored, self.chosen, units)

    def __iadd__(self, other: SummedScores) -> Self:
        self.gathered += other.gathered
        self.tracing += other.tracing
        if self.units is not None and other.units is not None:
            self.units += other.units
        return self

    def measured(
        self, sources: Sequence[tuple[str, ScoreSource, Seconds]], replicates: Bootstrap | None = None
    ) -> Measurements:
        """The report's numbers as far as sums give them; `sources` says what each score is."""
        measured = self.gathered.measured()
        if replicates is not None:
            measured = [
                {name: replicates.complete(place, name, value) for name, value in values.items()}
                for place, values in enumerate(measured)
            ]
        scores = tuple(
            score_row(name, source, values, self.classes, seconds)
            for (name, source, seconds), values in zip(sources, measured, strict=True)
        )
        differences = tuple(
            self._difference(
                pair,
                (scores[pair[0]].name, scores[pair[1]].name),
                metric.name,
                value_difference(measured[pair[0]][metric.name], measured[pair[1]][metric.name]),
                replicates,
            )
            for pair in self.gathered.pairs
            for metric in self.chosen
        )
        definitions = {name: value.definition for name, value in measured[0].items()}
        return Measurements(definitions, scores, differences, self.tracing.curves())

    def _difference(
        self,
        pair: tuple[int, int],
        names: tuple[str, str],
        metric: str,
        value: float | None,
        replicates: Bootstrap | None,
    ) -> Difference:
        """As in `measure_all`: by unit where rows belong together, else of the replicates, else by normal theory."""
        found = self.units.difference(pair, metric) if self.together and self.units is not None else None
        if found is None and replicates is not None and value is not None:
            return Difference(*names, metric, value, *map(finite, replicates.difference(*pair, metric)))
        by_row = None if self.together else self.gathered.difference(pair, metric)
        return normal_difference(names, metric, value, found or by_row)


class ScoreBuffer:
    """Takes in chunks of rows.

    All probabilities are kept while there is room for them. From the first row too many on, the rows so far and all
    that come are added up instead: then there are only those metrics that follow from sums.

    Parameters
    ----------
    scores
        The scores.
    sums
        Where rows are added up, if they are too many to be kept; none are in it yet.
    clustering
        What forms clusters, if anything does: its batch comes after those of the scores.
    whole_for
        A flag or a score that needs all rows at once, if there is one: too many are then an error.

    Attributes
    ----------
    share
        The weight of each class so far.
    """

    def __init__(
        self,
        scores: Sequence[ComparedScore],
        sums: SummedScores,
        clustering: Clustering | None = None,
        *,
        whole_for: str | None = None,
    ) -> None:
        classes = len(sums.classes)
        self.share = np.zeros(classes)
        self._scores, self._sums = scores, sums
        self._summing = False  # True once there are too many rows
        self._clustering, self._whole_for = clustering, whole_for
        self._seconds_spent = [0.0 for _ in scores]
        width = () if classes == 2 else (classes,)
        self._most_rows = HELD // math.prod(width)
        self._labels: _Growing[Any] = _Growing(np.int8 if classes < 128 else np.int32)
        self._weight: _Growing[np.float64] = _Growing(np.float64)
        self._place: _Growing[np.int16] = _Growing(np.int16)
        self._probs: list[_Growing[np.float64]] = [_Growing(np.float64, width) for _ in scores]
        self._odds: list[_Growing[np.float64]] = [_Growing(np.float64, width) for _ in scores]
        self._whole_tables: dict[int, list[Batch]] = {
            number: [] for number, score in enumerate(scores) if score.whole_table
        }

    def add(self, batches: Sequence[Batch]) -> None:
        """More rows: a batch for each score, and one for the clusters."""
        label, weight = batches[0].labels, batches[0].weight
        # Scores that need the whole table predict at the end; all others now.
        for number, waiting in self._whole_tables.items():
            waiting.append(replace(batches[number], label=None, weight=None))
        probs = {
            number: self._predict(number, batches[number])
            for number in range(len(self._scores))
            if number not in self._whole_tables
        }
        odds = [score.odds(batch) for score, batch in zip(self._scores, batches, strict=False)]
        place = None if self._clustering is None else self._clustering.place(batches[-1])
        self.share += class_weights(label, weight, len(self.share))
        # Add them up where there is no room, else keep them.
        if not self._summing and self._labels.size + len(label) > self._most_rows:
            self._sum_buffered()
        if self._summing:
            clusters = self._clusters(place)
            self._sums.add([Scored(label, probs[number], weight, clusters, odds=odds[number]) for number in probs])
            return
        self._labels.append(label)
        if place is not None:
            self._place.append(place)
        if weight is not None:
            self._weight.append(weight)
        for number, prob in probs.items():
            self._probs[number].append(prob)
            if (ranked_by := odds[number]) is not None:
                self._odds[number].append(ranked_by)

    def done(self) -> BufferedScores | Measurements:
        """All rows, or the measurements from sums over them."""
        if self._summing:
            return self._sums.measured(
                [(score.name, score.source, self._seconds(number)) for number, score in enumerate(self._scores)]
            )
        for number, waiting in self._whole_tables.items():
            self._probs[number].append(self._predict(number, join_batches(waiting)))
        return self._buffered()

    def _predict(self, number: int, batch: Batch) -> FloatArray:
        started = time.perf_counter()
        prob = self._scores[number].predict(batch)
        self._seconds_spent[number] += time.perf_counter() - started
        return prob

    def _seconds(self, number: int) -> Seconds:
        """How long an artifact took."""
        return Seconds(apply=self._seconds_spent[number] if self._scores[number].source.kind == "artifact" else None)

    def _buffered(self) -> BufferedScores:
        candidates = tuple(
            Candidate(
                score.name, score.source, prob.whole(), self._seconds(number), odds.whole() if odds.size else None
            )
            for number, (score, prob, odds) in enumerate(zip(self._scores, self._probs, self._odds, strict=True))
        )
        weight = self._weight.whole() if self._weight.size else None
        place = None if self._clustering is None else self._place.whole().astype(np.int64)
        return BufferedScores(self._labels.whole(), weight, candidates, self._clusters(place))

    def _clusters(self, place: IntArray | None) -> Clusters | None:
        return None if self._clustering is None or place is None else self._clustering.clusters(place)

    def _sum_buffered(self) -> None:
        """Add up the rows so far, which are then forgotten."""
        if self._whole_for is not None:
            raise UsageError(
                f"{self._whole_for} needs all rows at once, and more than {self._most_rows:,} are not held",
                hint=f"leave out {self._whole_for}, or evaluate a sample of the rows",
            )
        self._summing = True
        rows = self._buffered()
        for some in spans(len(rows.labels), _TOGETHER):
            self._sums.add([score.scored(rows, rows.clusters).take(some) for score in rows.candidates])
        self._labels, self._weight, self._probs, self._odds = _Growing(np.int8), _Growing(np.float64), [], []


class _Growing(Generic[Scalar]):
    """An array made of chunks. It grows by resizing in place, so that no second copy of it is ever in memory."""

    def __init__(self, dtype: DTypeLike, width: tuple[int, ...] = ()) -> None:
        self.size = 0
        self._array: NDArray[Scalar] = np.empty((0, *width), dtype)

    def append(self, more: NDArray[Any]) -> None:
        end = self.size + len(more)
        if end > len(self._array):
            self._resize(max(end, len(self._array) * 9 // 8))
        self._array[self.size : end] = more
        self.size = end

    def whole(self) -> NDArray[Scalar]:
        self._resize(self.size)
        return self._array

    def _resize(self, rows: int) -> None:
        self._array.resize((rows, *self._array.shape[1:]), refcheck=False)
