"""The passes that measure scores: `ScorePass` for metrics, `CurvePass` for pictures, `RowCountPass` before them.

On this machine the probabilities of every row under each score are held. Of too many rows, and on a cluster, only the
sums are kept that metrics and curves need (`calcli.reports.score_sums`).
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Self, TypeVar

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from calcli.batch import Batch, FloatArray, IntArray, LabelArray, spans
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.errors import UsageError
from calcli.metrics.base import Clusters, Scored
from calcli.metrics.bootstrap import Bootstrap
from calcli.reports.measuring import Candidate, Measurements, class_weights
from calcli.reports.schema import RAW, Seconds
from calcli.reports.score_sums import GroupedSums, SummedScores
from calcli.tables.binding_types import Binding
from calcli.tables.load import join_batches
from calcli.tables.passes import Pass, Reading
from calcli.tables.scales import Scale
from calcli.verbs.clusters import Clustering
from calcli.verbs.compared_scores import ComparedScore, scale_checks

HELD = 50_000_000
"""At most so many probabilities are held of each score: one for a row, or one for each of more than two classes."""

_TOGETHER = 1 << 20
"""Held rows are added up so many at a time, when there is no more room for them."""

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True)
class ScoredRows:
    """The scores that rows are measured under, and what forms clusters of the rows, if anything does."""

    scores: Sequence[ComparedScore]
    clustering: Clustering | None = None

    @property
    def bindings(self) -> list[Binding]:
        """The bindings of the scores, and last that of the clusters."""
        clusters = [] if self.clustering is None else [self.clustering.binding]
        return [score.binding for score in self.scores] + clusters

    @property
    def scales(self) -> list[Scale | None]:
        """A new check of the scale of each binding's score, where there is one."""
        return scale_checks(self.scores) + ([] if self.clustering is None else [None])

    @property
    def classes(self) -> int:
        return len(self.scores[0].binding.classes)

    def clusters(self, place: IntArray | None) -> Clusters | None:
        """The clusters of rows that were assigned."""
        return None if self.clustering is None or place is None else self.clustering.clusters(place)


@dataclass(frozen=True)
class RowCountPass(Pass[int]):
    """Counts the good rows of positive weight, from which the number of bins can follow."""

    rows: ScoredRows

    def reading(self) -> Reading:
        bindings = self.rows.bindings
        return Reading(bindings, [None] * len(bindings), features=False, judged=False)

    def start(self) -> int:
        return 0

    def add(self, total: int, batches: Sequence[Batch], others: pl.DataFrame) -> int:
        return total + int(np.count_nonzero(batches[0].weights))


@dataclass(frozen=True, slots=True)
class BufferedScores:
    """All rows: labels, weights, clusters, and the probabilities of each score."""

    labels: LabelArray
    weight: FloatArray | None
    candidates: tuple[Candidate, ...]
    clusters: Clusters | None = None
    together: IntArray | None = None


@dataclass(slots=True)
class ScoreTotal:
    """The scores of rows: held, or else summed."""

    share: FloatArray
    """The weight of each class."""

    sums: SummedScores
    groups: list[GroupedSums]
    held: _HeldRows | None
    """The rows themselves; None once they are summed."""

    seconds: list[float]
    """How long each score has taken to predict."""

    def __iadd__(self, other: ScoreTotal) -> Self:
        assert self.held is None
        assert other.held is None
        self.share = self.share + other.share
        self.sums += other.sums
        for place, groups in enumerate(other.groups):
            self.groups[place] += groups
        return self


@dataclass(frozen=True)
class ScorePass(Pass[ScoreTotal]):
    """Gathers the rows under each score.

    With `holds`, rows are held while there is room for them. From the first row too many on, all rows are added up
    instead, those so far too: then there are only those metrics that follow from sums.
    """

    rows: ScoredRows
    sums: SummedScores
    groups: Sequence[GroupedSums] = ()
    """`sums`, `groups`: the sums over no rows: of all, and of the groups of each column."""

    unit_key: str | None = None
    """The column with the set of each row's unit, where units are summed."""

    holds: bool = False
    whole_for: str | None = None
    """A flag or a score that needs all rows at once, if there is one: too many are then an error."""

    def reading(self) -> Reading:
        units = [] if self.unit_key is None else [self.unit_key]
        return Reading(self.rows.bindings, self.rows.scales, [*(one.by for one in self.groups), *units])

    def start(self) -> ScoreTotal:
        sums, groups = copy.deepcopy((self.sums, list(self.groups)))
        scores, classes = self.rows.scores, self.rows.classes
        held = _HeldRows(scores, classes) if self.holds else None
        return ScoreTotal(np.zeros(classes), sums, groups, held, [0.0 for _ in scores])

    def add(self, total: ScoreTotal, batches: Sequence[Batch], others: pl.DataFrame) -> ScoreTotal:
        scores, clustering = self.rows.scores, self.rows.clustering
        label, weight = batches[0].labels, batches[0].weight
        if total.held is not None:
            total.held.wait(batches)
        # Scores that need the whole table predict at the end; all others now.
        probs = {
            number: self._predict(total, number, batch)
            for number, batch in enumerate(batches[: len(scores)])
            if not scores[number].whole_table
        }
        odds = [score.odds(batch) for score, batch in zip(scores, batches, strict=False)]
        place = None if clustering is None else clustering.place(batches[-1])
        total.share = total.share + class_weights(label, weight, len(total.share))
        # Add them up where there is no room, else hold them.
        if total.held is not None and total.held.labels.size + len(label) > total.held.most_rows:
            self._sum_held(total, total.held)
        if total.held is not None:
            total.held.append(label, weight, place, probs, odds)
            return total
        clusters = self.rows.clusters(place)
        scored = [Scored(label, probs[number], weight, clusters, odds=odds[number]) for number in probs]
        total.sums.add(scored, None if self.unit_key is None else others[self.unit_key].to_numpy())
        for grouped in total.groups:
            grouped.add(scored, others[grouped.by])
        return total

    def held(self, total: ScoreTotal) -> BufferedScores | None:
        """All rows; None where they are too many, and were summed."""
        if total.held is None:
            return None
        for number, waiting in total.held.waiting.items():
            total.held.probs[number].append(self._predict(total, number, join_batches(waiting)))
        return self._buffered(total, total.held)

    def measured(self, total: ScoreTotal, replicates: Bootstrap | None = None) -> Measurements:
        """The measurements of all rows, from sums over them."""
        scores = enumerate(self.rows.scores)
        sources = [(score.name, score.source, self._seconds(total, number)) for number, score in scores]
        return total.sums.measured(sources, replicates)

    def _predict(self, total: ScoreTotal, number: int, batch: Batch) -> FloatArray:
        started = time.perf_counter()
        prob = self.rows.scores[number].predict(batch)
        total.seconds[number] += time.perf_counter() - started
        return prob

    def _seconds(self, total: ScoreTotal, number: int) -> Seconds:
        """How long an artifact took, on this machine."""
        timed = self.holds and self.rows.scores[number].source.kind == "artifact"
        return Seconds(apply=total.seconds[number] if timed else None)

    def _buffered(self, total: ScoreTotal, held: _HeldRows) -> BufferedScores:
        candidates = tuple(
            Candidate(
                score.name,
                score.source,
                held.probs[number].whole(),
                self._seconds(total, number),
                odds.whole() if (odds := held.odds[number]).size else None,
                ranks=score.name == RAW and score.binding.score.kind == "rank",
            )
            for number, score in enumerate(self.rows.scores)
        )
        weight = held.weight.whole() if held.weight.size else None
        place = None if self.rows.clustering is None else held.place.whole().astype(np.int64)
        return BufferedScores(held.labels.whole(), weight, candidates, self.rows.clusters(place))

    def _sum_held(self, total: ScoreTotal, held: _HeldRows) -> None:
        """Add up the rows that are held, and hold none any more."""
        if self.whole_for is not None:
            raise UsageError(
                f"{self.whole_for} needs all rows at once, and more than {held.most_rows:,} are not held",
                hint=f"leave out {self.whole_for}, or evaluate a sample of the rows",
            )
        total.held = None
        rows = self._buffered(total, held)
        for some in spans(len(rows.labels), _TOGETHER):
            total.sums.add([score.scored(rows, rows.clusters).take(some) for score in rows.candidates])


class _HeldRows:
    """Rows in arrays that grow. Scores that need the whole table have batches that are `waiting`."""

    def __init__(self, scores: Sequence[ComparedScore], classes: int) -> None:
        width = () if classes == 2 else (classes,)
        self.most_rows = HELD // math.prod(width)
        self.labels: _Growing[Any] = _Growing(np.int8 if classes < 128 else np.int32)
        self.weight: _Growing[np.float64] = _Growing(np.float64)
        self.place: _Growing[np.int16] = _Growing(np.int16)
        self.probs: list[_Growing[np.float64]] = [_Growing(np.float64, width) for _ in scores]
        self.odds: list[_Growing[np.float64]] = [_Growing(np.float64, width) for _ in scores]
        self.waiting: dict[int, list[Batch]] = {number: [] for number, score in enumerate(scores) if score.whole_table}

    def wait(self, batches: Sequence[Batch]) -> None:
        for number, waiting in self.waiting.items():
            batch = batches[number]
            waiting.append(batch if batch.ranks else replace(batch, label=None, weight=None))

    def append(
        self,
        label: LabelArray,
        weight: FloatArray | None,
        place: IntArray | None,
        probs: dict[int, FloatArray],
        odds: Sequence[FloatArray | None],
    ) -> None:
        self.labels.append(label)
        if place is not None:
            self.place.append(place)
        if weight is not None:
            self.weight.append(weight)
        for number, prob in probs.items():
            self.probs[number].append(prob)
        for number, ranked_by in enumerate(odds):
            if ranked_by is not None:
                self.odds[number].append(ranked_by)


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


@dataclass(slots=True)
class CurveTotal:
    """The sums of curves, and the weight of each class."""

    builder: CurveBuilder
    share: FloatArray
    rows: int = 0

    def __iadd__(self, other: CurveTotal) -> Self:
        self.builder += other.builder
        self.share, self.rows = self.share + other.share, self.rows + other.rows
        return self


@dataclass(frozen=True)
class CurvePass(Pass[CurveTotal]):
    """Sums up the curves of several scores."""

    scores: Sequence[ComparedScore]
    parts: Sequence[Clustering]
    """The clusterings that form the groups, column by column; without any, the curves are of all rows."""

    builder: CurveBuilder
    """The curves of no rows: of the scores, or of the scores within each group of each column."""

    def reading(self) -> Reading:
        bindings = [*(score.binding for score in self.scores), *(part.binding for part in self.parts)]
        return Reading(bindings, [*scale_checks(self.scores), *[None] * len(self.parts)])

    def start(self) -> CurveTotal:
        return CurveTotal(copy.deepcopy(self.builder), np.zeros(len(self.scores[0].binding.classes)))

    def add(self, total: CurveTotal, batches: Sequence[Batch], others: pl.DataFrame) -> CurveTotal:
        label, weight = batches[0].labels, batches[0].weight
        total.share = total.share + class_weights(label, weight, len(total.share))
        of_scores, of_parts = batches[: len(self.scores)], batches[len(self.scores) :]
        pairs = zip(self.scores, of_scores, strict=True)
        # The two rows of a soft label are a unit.
        units = (total.rows + np.arange(len(label))) // 2 if self.scores[0].binding.soft else None
        total.rows += len(label)
        scored = [Scored(label, score.predict(batch), weight, units=units) for score, batch in pairs]
        groups = [
            place == group
            for part, batch in zip(self.parts, of_parts, strict=True)
            for place in [part.place(batch)]
            for group in range(part.count)
        ]
        total.builder.add([one.take(rows) for rows in groups for one in scored] if self.parts else scored)
        return total
