"""The passes over the rows of a fit on a cluster.

A pass is a callable that turns the rows of one Spark task into a total; totals are added with ``+=``
(`spark.totals.total_of`). The pass is pickled to the workers, with the binding and whatever is known by then (folds,
fitted calibrators), and each total is pickled back. Rows are encoded anew in each pass, and none is kept.

Three passes, because each needs the total of the one before:

1. `SumsPass`: the method's sums, fold by fold. From them this process fits a calibrator for each held-out fold.
2. `MetricsPass`: the metrics of held-out rows, under the calibrator that has not seen them, and the moments of their
   log-odds. It also measures what was fitted on a sample, on all other rows.
3. `ResidualsPass`: the drift baseline, residuals times directions that are scaled by these moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray, Units
from calcli.diagrams.curves import Kind
from calcli.evaluation.score_buffer import SummedScores
from calcli.fitting.held_out import KeyedFolds
from calcli.fitting.learn import reweighted
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Folds, Options, Scored
from calcli.metrics.forms import OfProblems
from calcli.metrics.gathered import UNITS
from calcli.metrics.ranking import AUC_SUMS, Cells
from calcli.reports.checks import LabelCheck
from calcli.reports.drift_baseline import LogOdds, Products
from calcli.reports.measuring import class_names, class_weights, raw_candidate
from calcli.reports.schema import RAW
from calcli.spark.rows import KEY
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns
from calcli.tables.load import encode_chunk
from calcli.tables.row_counts import Count
from calcli.tables.scores import Scale

MOST_SCORES = 1 << 18
"""Of so many distinct scores a fold's sums are kept apart; of more, near scores are made one."""


@dataclass(frozen=True)
class KeyedRows:
    """How rows are encoded and assigned to folds, by the key that each row carries.

    Attributes
    ----------
    folds
        None where all rows are of one fold, 0.
    features
        Whether features are read.
    unit
        The column whose values the keys are drawn for, where rows that agree in it belong together.
    """

    name: str
    binding: Binding
    folds: KeyedFolds | None
    keep_going: bool
    features: bool = False
    unit: str | None = None

    @property
    def reads(self) -> list[str]:
        return [*bound_columns(self.binding, label=True, features=self.features), KEY]

    def of(
        self, frames: Iterable[pl.DataFrame], count: Count | None = None, scale: Scale | None = None
    ) -> Iterator[tuple[Batch, IntArray]]:
        """The good rows in chunks, and the fold of each row; only the first pass counts rows and checks the scale."""
        count = count or Count(self.name, keep_going=True)
        for frame in frames:
            chunk = encode_chunk(frame, [self.binding], count, [scale], features=self.features)
            if chunk is not None:
                (batch,), places = chunk
                key = frame[KEY].to_numpy().astype(np.int64)
                key = key if places is None else key[places]
                if self.unit is not None:
                    batch = replace(batch, units=Units(key % UNITS, column=self.unit))
                yield batch, np.zeros_like(key) if self.folds is None else self.folds.of(key)


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
        self.sums[fold] = (self.sums[fold] + sums if fold in self.sums else sums).within(MOST_SCORES)

    @property
    def step(self) -> float:
        """The width of the cells within which scores were made one; 0 where none were."""
        return max((sums.step for sums in self.sums.values()), default=0.0)

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
        order = AUC_SUMS.gather(Scored.empty(classes), Options())
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
    """Sums of the metrics and curves of held-out rows, and moments of their calibrated log-odds.

    `count` and `weight`, that of each class, are of all rows.
    """

    rows: int
    count: Count
    weight: FloatArray
    sums: SummedScores
    log_odds: LogOdds

    def __iadd__(self, other: MetricSums) -> Self:
        self.rows += other.rows
        self.count, self.weight = self.count + other.count, self.weight + other.weight
        self.sums += other.sums
        self.log_odds += other.log_odds
        return self


@dataclass(frozen=True)
class MetricsPass:
    """The second pass: metrics of the raw and the calibrated scores on held-out rows.

    Attributes
    ----------
    calibrators
        By name, and by fold. If there are none, the raw score is measured on all rows.
    main
        The name of the score of which the log-odds are summed up, if there is one.
    raw
        The name of the raw score.
    against
        The scores that others are compared with.
    kinds
        Those of the curves.
    """

    rows: KeyedRows
    calibrators: Mapping[str, Mapping[int, FittedMethod]]
    main: str | None
    post_processing: PostProcessing
    chosen: Sequence[metrics.MetricSpec]
    options: Options
    raw: str = RAW
    against: tuple[str, ...] = (RAW,)
    kinds: tuple[Kind, ...] = ("reliability",)

    @property
    def tests(self) -> list[int]:
        """The folds that are predicted."""
        return sorted({fold for by_fold in self.calibrators.values() for fold in by_fold})

    def __call__(self, frames: Iterator[pl.DataFrame]) -> MetricSums:
        binding = self.rows.binding
        scores, classes = [self.raw, *self.calibrators] if self.tests else [self.raw], class_names(binding)
        total = MetricSums(
            rows=0,
            count=Count(self.rows.name, keep_going=self.rows.keep_going),
            weight=np.zeros(len(classes)),
            sums=SummedScores.nothing(
                scores,
                classes,
                self.chosen,
                self.options,
                self.kinds,
                against=self.against,
                together=self.rows.unit is not None,
            ),
            log_odds=LogOdds.empty(1 if binding.binary else len(classes)),
        )
        for batch, probs, folds in self.predicted(frames, total):
            raw = raw_candidate(batch).scored(batch, folds=folds)
            total.rows += len(batch)
            total.sums.add([raw, *(replace(raw, prob=prob, odds=None) for prob in probs.values())], batch.together)
            if self.main in probs:
                total.log_odds += LogOdds.of(probs[self.main], batch.labels, batch.weights)
        return total

    def predicted(
        self, frames: Iterator[pl.DataFrame], total: MetricSums | None = None
    ) -> Iterator[tuple[Batch, dict[str, FloatArray], Folds | None]]:
        """The held-out rows, reweighted to the target prior, their calibrated probabilities, and their folds."""
        for batch, fold_of in self.rows.of(frames, None if total is None else total.count):
            if total is not None:
                total.weight += class_weights(batch.labels, batch.weight, len(total.weight))
            if not self.tests:
                yield reweighted(batch, self.post_processing), {}, None
                continue
            in_test = np.isin(fold_of, self.tests)
            held_out, folds = batch.take(in_test), fold_of[in_test]
            if len(held_out):
                probs = {name: _by_fold(held_out, folds, fitted) for name, fitted in self.calibrators.items()}
                within = Folds(folds, max(self.tests) + 1) if len(self.tests) > 1 else None
                yield reweighted(held_out, self.post_processing), probs, within


def _by_fold(rows: Batch, folds: IntArray, calibrators: Mapping[int, FittedMethod]) -> FloatArray:
    """The probabilities of rows, each by the calibrator of its fold."""
    prob = np.empty(rows.score.shape)
    for fold, fitted in calibrators.items():
        here = folds == fold
        prob[here] = fitted.predict(rows.take(here))
    return prob


@dataclass(frozen=True)
class ResidualsPass:
    """The third pass: products of residuals and the directions of the drift test, for its baseline."""

    metrics_pass: MetricsPass
    log_odds: LogOdds

    def __call__(self, frames: Iterator[pl.DataFrame]) -> Products:
        total = Products.empty(len(self.log_odds.sums))
        for batch, probs, _ in self.metrics_pass.predicted(frames):
            if (main := self.metrics_pass.main) in probs:
                prob = probs[main]
                total += Products.of(prob, batch.labels, batch.weights, self.log_odds)
        return total
