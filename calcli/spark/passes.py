"""The passes over the rows of a fit on a cluster.

A pass is a callable that turns the rows of one Spark task into a total; totals are added with ``+=``
(`spark.session.total`). The pass is pickled to the workers, with the binding and whatever is known by then (folds,
fitted calibrators), and each total is pickled back. Rows are encoded anew in each pass, and none is kept.

Three passes, because each needs the total of the one before:

1. `SumsPass`: the method's sums, fold by fold. From them this process fits a calibrator for each held-out fold.
2. `MetricsPass`: the metrics of held-out rows, under the calibrator that has not seen them, and the moments of their
   log-odds.
3. `ResidualsPass`: the drift baseline, residuals times directions that are scaled by these moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray
from calcli.evaluation.score_buffer import SummedScores
from calcli.fitting.learn import reweighted
from calcli.fitting.splits import KeyedFolds
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.additive import OfProblems
from calcli.metrics.base import Folds, Options, Scored
from calcli.metrics.ranking import AUC_SUMS, Cells
from calcli.reports.drift_baseline import LogOdds, Products
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import class_names, class_weights, raw_candidate
from calcli.reports.schema import RAW
from calcli.spark import session as spark
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns
from calcli.tables.load import encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scale import Scale


@dataclass(frozen=True)
class KeyedRows:
    """How rows are encoded and assigned to folds, by the key that each row carries."""

    name: str
    binding: Binding
    folds: KeyedFolds
    keep_going: bool

    @property
    def reads(self) -> list[str]:
        return [*bound_columns(self.binding, label=True, features=False), spark.KEY]

    def of(
        self, frames: Iterable[pl.DataFrame], count: Count | None = None, scale: Scale | None = None
    ) -> Iterator[tuple[Batch, IntArray]]:
        """The good rows in chunks, and the fold of each row; only the first pass counts rows and checks the scale."""
        count = count or Count(self.name, keep_going=True)
        for frame in frames:
            chunk = encode_chunk(frame, [self.binding], count, [scale], features=False)
            if chunk is not None:
                (batch,), places = chunk
                folds = self.folds.of(frame[spark.KEY].to_numpy())
                yield batch, folds if places is None else folds[places]


@dataclass(slots=True)
class FitSums:
    """The sums over all rows that a fit needs.

    Attributes
    ----------
    weight, labels
        The weight and the number of rows of each class.
    order
        Sums for the AUC of the raw scores.
    sums
        Sums of the method, by fold.
    """

    count: Count
    scale: Scale
    weight: FloatArray
    labels: FloatArray
    order: OfProblems[Cells]
    sums: dict[int, Sums] = field(default_factory=dict)

    def __iadd__(self, other: FitSums) -> Self:
        self.count, self.scale = self.count + other.count, self.scale + other.scale
        self.weight, self.labels = self.weight + other.weight, self.labels + other.labels
        self.order = self.order + other.order
        for fold, sums in other.sums.items():
            self.add(fold, sums)
        return self

    def judge(self) -> None:
        """Refuse a table with bad rows, or with logits that look like probabilities or the reverse."""
        self.scale.judge()
        self.count.judge()

    def add(self, fold: int, sums: Sums) -> None:
        """Add the sums of more rows of a fold."""
        self.sums[fold] = self.sums[fold] + sums if fold in self.sums else sums

    @property
    def ranking(self) -> LabelCheck | None:
        return LabelCheck.of_sums(self.order, self.labels)


@dataclass(frozen=True)
class SumsPass:
    """The first pass: the method's sums by fold."""

    rows: KeyedRows
    method: MethodSpec
    params: Params

    def __call__(self, frames: Iterator[pl.DataFrame]) -> FitSums:
        binding = self.rows.binding
        classes = len(binding.classes)
        count = Count(self.rows.name, keep_going=self.rows.keep_going)
        order = AUC_SUMS.gather(Scored.nothing_of(classes), Options())
        total = FitSums(count, Scale(binding.score), np.zeros(classes), np.zeros(classes), order)
        for batch, folds in self.rows.of(frames, total.count, total.scale):
            total.weight += class_weights(batch.labels, batch.weight, classes)
            total.labels += class_weights(batch.labels, None, classes)
            raw = raw_candidate(batch).scored(batch)
            total.order = total.order + AUC_SUMS.gather(raw, Options())
            for fold in np.unique(folds):
                total.add(int(fold), calibrator.gather(self.method, batch.take(folds == fold), self.params))
        return total


@dataclass(slots=True)
class MetricSums:
    """Sums of the metrics and curves of held-out rows, and moments of their calibrated log-odds."""

    rows: int
    sums: SummedScores
    log_odds: LogOdds

    def __iadd__(self, other: MetricSums) -> Self:
        self.rows += other.rows
        self.sums += other.sums
        self.log_odds += other.log_odds
        return self


@dataclass(frozen=True)
class MetricsPass:
    """The second pass: metrics of the raw and the calibrated score on held-out rows.

    `calibrators` are by fold. If there are none, the raw score is measured on all rows.
    """

    rows: KeyedRows
    name: str
    calibrators: Mapping[int, FittedMethod]
    post_processing: PostProcessing
    chosen: Sequence[metrics.MetricSpec]
    options: Options

    def __call__(self, frames: Iterator[pl.DataFrame]) -> MetricSums:
        binding = self.rows.binding
        scores = [RAW, self.name] if self.calibrators else [RAW]
        total = MetricSums(
            rows=0,
            sums=SummedScores.nothing(scores, class_names(binding), self.chosen, self.options),
            log_odds=LogOdds.nothing(1 if binding.binary else len(binding.classes)),
        )
        for batch, prob, folds in self.predicted(frames):
            raw = raw_candidate(batch).scored(batch, folds=folds)
            total.rows += len(batch)
            total.sums.add([raw] if prob is None else [raw, replace(raw, prob=prob, odds=None)])
            if prob is not None:
                total.log_odds += LogOdds.of(prob, batch.labels, batch.weights)
        return total

    def predicted(self, frames: Iterator[pl.DataFrame]) -> Iterator[tuple[Batch, FloatArray | None, Folds | None]]:
        """The held-out rows, reweighted to the target prior, their calibrated probabilities, and their folds."""
        for batch, fold_of in self.rows.of(frames):
            if not self.calibrators:
                yield reweighted(batch, self.post_processing), None, None
                continue
            in_test = np.isin(fold_of, list(self.calibrators))
            held_out, folds = batch.take(in_test), fold_of[in_test]
            prob = np.empty(held_out.score.shape)
            for fold, fitted in self.calibrators.items():
                prob[folds == fold] = fitted.predict(held_out.take(folds == fold))
            if len(held_out):
                several = len(self.calibrators) > 1
                within = Folds(folds, max(self.calibrators) + 1) if several else None
                yield reweighted(held_out, self.post_processing), prob, within


@dataclass(frozen=True)
class ResidualsPass:
    """The third pass: products of residuals and the directions of the drift test, for its baseline."""

    metrics_pass: MetricsPass
    log_odds: LogOdds

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Products:
        total = Products.nothing(len(self.log_odds.sums))
        for batch, prob, _ in self.metrics_pass.predicted(frames):
            if prob is not None:
                total += Products.of(prob, batch.labels, batch.weights, self.log_odds)
        return total
