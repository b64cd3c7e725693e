"""The passes of a fit on a cluster: what the workers make of their rows, and how it adds up.

First the sums of the method, fold by fold; then the metrics of held-out rows under calibrators that have not seen them;
then what the calibrated scores of these rows are off by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray
from calcli.fitting.learn import reweighted
from calcli.fitting.splits import KeyedFolds
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import Calibrator, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.additive import OfProblems
from calcli.metrics.base import Options, Scored
from calcli.metrics.gathered import Gathered
from calcli.metrics.ranking import AUC_SUMS, Cells
from calcli.numeric.links import probabilities
from calcli.reports.curves import CurveBuilder
from calcli.reports.drift_baseline import LogOdds, Products
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import class_names, class_weights, raw_probabilities
from calcli.reports.schema import RAW
from calcli.spark import session as spark
from calcli.spark.table import refuse_huge
from calcli.tables.binding import Binding
from calcli.tables.checks import bound_columns
from calcli.tables.load import encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scale import Scale


@dataclass(frozen=True)
class KeyedRows:
    """How rows are read, and which fold each belongs to."""

    name: str
    binding: Binding
    folds: KeyedFolds
    keep_going: bool

    @property
    def reads(self) -> list[str]:
        return [*bound_columns(self.binding, label=True, features=False), spark.KEY]

    def of(self, frames: Iterable[pl.DataFrame], count: Count, scale: Scale | None) -> Iterator[tuple[Batch, IntArray]]:
        """The good rows, some at a time, and the fold of each."""
        for frame in frames:
            chunk = encode_chunk(frame, [self.binding], count, [scale], features=False)
            if chunk is not None:
                (batch,), bad = chunk
                refuse_huge(batch.weight)
                fold = self.folds.of(frame[spark.KEY].to_numpy())
                yield batch, fold if bad is None else fold[~bad]

    def good(self, frames: Iterable[pl.DataFrame]) -> Iterator[tuple[Batch, IntArray]]:
        """The same where they were judged before."""
        return self.of(frames, Count(self.name, keep_going=True), None)


@dataclass(slots=True)
class Known:
    """What a fit needs to know of all rows.

    Attributes
    ----------
    weight, labels
        Of the rows of each class: their weight, and how many there are.
    order
        How well the raw scores rank.
    sums
        Of the method, by fold.
    """

    count: Count
    scale: Scale
    weight: FloatArray
    labels: FloatArray
    order: OfProblems[Cells]
    sums: dict[int, Sums] = field(default_factory=dict)

    def __iadd__(self, other: Known) -> Self:
        self.count, self.scale = self.count + other.count, self.scale + other.scale
        self.weight, self.labels = self.weight + other.weight, self.labels + other.labels
        self.order = self.order + other.order
        for fold, sums in other.sums.items():
            self.add(fold, sums)
        return self

    def judge(self) -> None:
        """Refuse a table with bad rows, or with a score that is of another kind than it says."""
        self.scale.judge()
        self.count.judge()

    def add(self, fold: int, sums: Sums) -> None:
        """The sums of rows of a fold."""
        self.sums[fold] = self.sums[fold] + sums if fold in self.sums else sums

    @property
    def ranking(self) -> LabelCheck | None:
        return LabelCheck.of_sums(self.order, self.labels)


@dataclass(frozen=True)
class Gathering:
    """The first pass: sums by fold."""

    rows: KeyedRows
    method: MethodSpec
    params: Params

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Known:
        binding = self.rows.binding
        classes = len(binding.classes)
        count = Count(self.rows.name, keep_going=self.rows.keep_going)
        order = AUC_SUMS.gather(Scored.nothing_of(classes), Options())
        known = Known(count, Scale(binding.score), np.zeros(classes), np.zeros(classes), order)
        for batch, fold in self.rows.of(frames, known.count, known.scale):
            known.weight += class_weights(batch.labels, batch.weight, classes)
            known.labels += class_weights(batch.labels, None, classes)
            raw = Scored(batch.labels, probabilities(batch.score), batch.weight)
            known.order = known.order + AUC_SUMS.gather(raw, Options())
            for place in np.unique(fold):
                part = batch.take(fold == place)
                known.add(int(place), calibrator.gather(self.method, part, self.params))
        return known


@dataclass(slots=True)
class Measured:
    """What the scores are worth on held-out rows, and the log-odds of the calibrated one."""

    rows: int
    gathered: Gathered
    tracing: CurveBuilder
    log_odds: LogOdds

    def __iadd__(self, other: Measured) -> Self:
        self.rows += other.rows
        self.gathered += other.gathered
        self.tracing += other.tracing
        self.log_odds += other.log_odds
        return self


@dataclass(frozen=True)
class Measuring:
    """The second pass: the metrics of rows under calibrators that have not seen them; of all rows if there are none."""

    rows: KeyedRows
    name: str
    calibrators: Mapping[int, Calibrator]
    post_processing: PostProcessing
    chosen: Sequence[metrics.MetricSpec]
    options: Options

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Measured:
        binding = self.rows.binding
        scores = [RAW, self.name] if self.calibrators else [RAW]
        classes = len(binding.classes)
        found = Measured(
            rows=0,
            gathered=Gathered(self.chosen, self.options, [Scored.nothing_of(classes) for _ in scores]),
            tracing=CurveBuilder(scores, class_names(binding)),
            log_odds=LogOdds.nothing(1 if binding.binary else classes),
        )
        for batch, prob in self.predicted(frames):
            labels, weight = batch.labels, batch.weight
            probs = [raw_probabilities(batch, binding)] + ([] if prob is None else [prob])
            scored = [Scored(labels, one, weight) for one in probs]
            found.rows += len(batch)
            found.gathered.add(scored)
            found.tracing.add(scored)
            if prob is not None:
                found.log_odds += LogOdds.of(prob, labels, batch.weights)
        return found

    def predicted(self, frames: Iterator[pl.DataFrame]) -> Iterator[tuple[Batch, FloatArray | None]]:
        """The rows that are measured, each class weighed as it will come, and what is predicted for them."""
        for batch, fold in self.rows.good(frames):
            if not self.calibrators:
                yield reweighted(batch, self.post_processing), None
                continue
            held_out = np.isin(fold, list(self.calibrators))
            part, fold_of = batch.take(held_out), fold[held_out]
            prob = np.empty(part.score.shape)
            for place, fitted in self.calibrators.items():
                prob[fold_of == place] = fitted.predict(part.take(fold_of == place))
            if len(part):
                yield reweighted(part, self.post_processing), prob


@dataclass(frozen=True)
class Multiplying:
    """The third pass: residuals, in directions that are measured on the log-odds of all rows."""

    measuring: Measuring
    log_odds: LogOdds

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Products:
        found = Products.nothing(len(self.log_odds.sums))
        for batch, prob in self.measuring.predicted(frames):
            if prob is not None:
                found += Products.of(prob, batch.labels, batch.weights, self.log_odds)
        return found
