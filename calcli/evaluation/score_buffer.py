"""What the scores say of every row, held tightly; of too many rows, only what they add up to."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from calcli.batch import Batch, FloatArray, IntArray, LabelArray, spans
from calcli.errors import UsageError
from calcli.evaluation.clusters import Clustering
from calcli.evaluation.compared_scores import ComparedScore
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.gathered import Gathered
from calcli.reports.curves import CurveBuilder
from calcli.reports.measuring import Candidate, Measurements, class_weights, less, normal_difference, score_row
from calcli.reports.schema import ScoreSource, Seconds
from calcli.tables.load import join_batches

HELD = 50_000_000
"""So many probabilities are held of each score: a row has one of them, or one for each of more than two classes."""

_TOGETHER = 1 << 20
"""Rows that are let go at a time."""

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, slots=True)
class BufferedScores:
    """The labels, weights and clusters of all rows, and what each score says of them."""

    labels: LabelArray
    weight: FloatArray | None
    candidates: tuple[Candidate, ...]
    clusters: Clusters | None = None


@dataclass(frozen=True, slots=True)
class SummedScores:
    """What rows that are too many to be held add up to."""

    chosen: Sequence[MetricSpec]
    gathered: Gathered
    tracing: CurveBuilder
    scores: tuple[tuple[str, ScoreSource, Seconds], ...]

    def measured(self, classes: tuple[str, ...]) -> Measurements:
        """The report's numbers, as far as sums give them."""
        found = self.gathered.measured()
        scores = tuple(
            score_row(name, source, values, classes, seconds)
            for (name, source, seconds), values in zip(self.scores, found, strict=True)
        )
        differences = tuple(
            normal_difference(
                (scores[place].name, scores[0].name),
                row.name,
                less(found[place][row.name], found[0][row.name]),
                self.gathered.difference(place, row.name),
            )
            for place in range(1, len(scores))
            for row in self.chosen
        )
        return Measurements(
            {name: value.definition for name, value in found[0].items()}, scores, differences, self.tracing.curves()
        )


class ScoreBuffer:
    """Takes in chunks of rows.

    Parameters
    ----------
    entrants, classes
        The scores, and of how many classes they are.
    chosen, options
        The metrics, and how they are computed.
    clustering
        What forms clusters, if anything does: its rows come after those of the scores.
    tracing
        Traces the curves, if the rows are too many to be held.
    whole_for
        What needs all rows at once, a flag or a score, if anything does: too many are then an error.

    Attributes
    ----------
    share
        The weight of each class so far.
    """

    def __init__(
        self,
        entrants: Sequence[ComparedScore],
        classes: int,
        chosen: Sequence[MetricSpec],
        options: Options,
        tracing: CurveBuilder,
        clustering: Clustering | None = None,
        *,
        whole_for: str | None = None,
    ) -> None:
        self.share = np.zeros(classes)
        self._tracing = tracing
        self._entrants, self._chosen, self._options = entrants, chosen, options
        self._clustering, self._whole_for = clustering, whole_for
        self._spent = [0.0 for _ in entrants]
        self._width = () if classes == 2 else (classes,)
        self._most = HELD // math.prod(self._width)
        self._labels: _Growing[Any] = _Growing(np.int8 if classes < 128 else np.int32)
        self._weight: _Growing[np.float64] = _Growing(np.float64)
        self._place: _Growing[np.int16] = _Growing(np.int16)
        self._probs: list[_Growing[np.float64]] = [_Growing(np.float64, self._width) for _ in entrants]
        self._waiting: dict[int, list[Batch]] = {place: [] for place, one in enumerate(entrants) if one.whole_table}
        self._gathered: Gathered | None = None

    def add(self, batches: Sequence[Batch]) -> None:
        """Rows more: a batch for each score, and one for the clusters."""
        label, weight = batches[0].labels, batches[0].weight
        for number, waiting in self._waiting.items():
            waiting.append(replace(batches[number], label=None, weight=None))
        now = [number for number in range(len(self._entrants)) if number not in self._waiting]
        probs = {number: self._predict(number, batches[number]) for number in now}
        place = None if self._clustering is None else self._clustering.place(batches[-1])
        self.share += class_weights(label, weight, len(self.share))
        if self._gathered is None and self._labels.size + len(label) > self._most:
            self._gathered = self._let_go()
        if self._gathered is not None:
            clusters = self._clusters(place)
            self._sum(self._gathered, [Scored(label, prob, weight, clusters) for prob in probs.values()])
            return
        self._labels.append(label)
        if place is not None:
            self._place.append(place)
        if weight is not None:
            self._weight.append(weight)
        for number, prob in probs.items():
            self._probs[number].append(prob)

    def done(self) -> BufferedScores | SummedScores:
        """All rows, or what they add up to."""
        if self._gathered is None:
            for number, waiting in self._waiting.items():
                self._probs[number].append(self._predict(number, join_batches(waiting)))
            return self._held()
        scores = tuple((one.name, one.source, self._seconds(place)) for place, one in enumerate(self._entrants))
        return SummedScores(self._chosen, self._gathered, self._tracing, scores)

    def _predict(self, place: int, batch: Batch) -> FloatArray:
        started = time.perf_counter()
        prob = self._entrants[place].predict(batch)
        self._spent[place] += time.perf_counter() - started
        return prob

    def _seconds(self, place: int) -> Seconds:
        """How long an artifact took."""
        return Seconds(apply=self._spent[place] if self._entrants[place].source.kind == "artifact" else None)

    def _held(self) -> BufferedScores:
        candidates = tuple(
            Candidate(entrant.name, entrant.source, prob.whole(), self._seconds(place))
            for place, (entrant, prob) in enumerate(zip(self._entrants, self._probs, strict=True))
        )
        weight = self._weight.whole() if self._weight.size else None
        place = None if self._clustering is None else self._place.whole().astype(np.int64)
        return BufferedScores(self._labels.whole(), weight, candidates, self._clusters(place))

    def _clusters(self, place: IntArray | None) -> Clusters | None:
        return None if self._clustering is None or place is None else self._clustering.clusters(place)

    def _let_go(self) -> Gathered:
        """What the rows so far add up to; from now on none are held."""
        if self._whole_for is not None:
            raise UsageError(
                f"{self._whole_for} needs all rows at once, and more than {self._most:,} are not held",
                hint=f"leave out {self._whole_for}, or evaluate a sample of the rows",
            )
        nothing = Scored.nothing_of(len(self.share))
        gathered = Gathered(self._chosen, self._options, [nothing for _ in self._entrants])
        held = self._held()
        for some in spans(len(held.labels), _TOGETHER):
            self._sum(gathered, [one.scored(held, held.clusters).take(some) for one in held.candidates])
        self._labels, self._weight, self._probs = _Growing(np.int8), _Growing(np.float64), []
        return gathered

    def _sum(self, gathered: Gathered, scored: Sequence[Scored]) -> None:
        gathered.add(scored)
        self._tracing.add(scored)


class _Growing(Generic[Scalar]):
    """An array made of chunks. It grows where it lies, so that nothing is ever there twice."""

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
