"""The passes over the rows of a fit on a cluster.

Three passes, because each needs the total of the one before:

1. `SumsPass`: the method's sums, fold by fold. From them this process fits a calibrator for each held-out fold.
2. `MetricsPass`: the metrics of held-out rows, under the calibrator that has not seen them, and the moments of their
   log-odds. It also measures what was fitted on a sample, on all other rows.
3. `ResidualsPass`: the drift baseline, residuals times directions that are scaled by these moments.

Rows are encoded anew in each pass, and none is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.diagrams.curves import Kind
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Folds, Options, Scored
from calcli.metrics.forms import OfProblems
from calcli.metrics.gathered import UNITS
from calcli.metrics.ranking import AUC_SUMS, Cells
from calcli.models.held_out import KeyedFolds
from calcli.models.learn import reweighted
from calcli.reports.drift_baseline import LogOdds, Products
from calcli.reports.groups import LabelCheck
from calcli.reports.measuring import class_names, class_weights, raw_candidate
from calcli.reports.schema import RAW
from calcli.reports.score_sums import SummedScores
from calcli.spark.session import KEY
from calcli.tables.binding_types import Binding
from calcli.tables.passes import Pass, Reading
from calcli.tables.scales import Scale

MOST_SCORES = 1 << 18
"""The sums of a fold keep so many distinct scores apart; of more, near scores are made one."""


def outcome(binding: Binding) -> list[str]:
    """The columns of labels and weights, on which the keys of rows do not depend."""
    return [column for column in (binding.label, binding.weight) if column is not None]


@dataclass(frozen=True)
class KeyedRows:
    """How rows are encoded and assigned to folds, by the key that each row carries."""

    binding: Binding
    folds: KeyedFolds | None
    """None where all rows are of one fold, 0."""

    features: bool = False
    """Whether features are read."""

    unit: str | None = None
    """The column whose values the keys are drawn for, where rows that agree in it belong together."""

    def reading(self, scale: Scale | None = None, *, judged: bool = True) -> Reading:
        return Reading([self.binding], [scale], [KEY], self.features, judged)

    def encoded(self, batches: Sequence[Batch], keys: pl.DataFrame) -> tuple[Batch, IntArray]:
        """The rows of a chunk with their units, and the fold of each row."""
        (batch,) = batches
        key = keys[KEY].to_numpy().astype(np.int64)
        if self.unit is not None:
            batch = replace(batch, units=SamplingUnits(key % UNITS, column=self.unit))
        return batch, np.zeros_like(key) if self.folds is None else self.folds.of(key)


@dataclass(slots=True)
class FitSums:
    """The sums over all rows that a fit needs."""

    weight: FloatArray
    labels: FloatArray
    """`weight`, `labels`: the weight and the number of rows of each class."""

    order: OfProblems[Cells]
    """Sums for the AUC of the raw scores."""

    sums: dict[int, Sums] = field(default_factory=dict)
    """Sums of the method, by fold."""

    def __iadd__(self, other: FitSums) -> Self:
        self.weight, self.labels = self.weight + other.weight, self.labels + other.labels
        self.order = self.order + other.order
        for fold, sums in other.sums.items():
            self.add(fold, sums)
        return self

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
class SumsPass(Pass[FitSums]):
    """The first pass: the method's sums by fold."""

    rows: KeyedRows
    method: MethodSpec
    params: Params

    def reading(self) -> Reading:
        return self.rows.reading(Scale(self.rows.binding.score))

    def start(self) -> FitSums:
        classes = len(self.rows.binding.classes)
        order = AUC_SUMS.gather(Scored.empty(classes), Options())
        return FitSums(np.zeros(classes), np.zeros(classes), order)

    def add(self, total: FitSums, batches: Sequence[Batch], others: pl.DataFrame) -> FitSums:
        batch, folds = self.rows.encoded(batches, others)
        total.weight += class_weights(batch.labels, batch.weight, len(total.weight))
        total.labels += class_weights(batch.labels, None, len(total.labels))
        total.order = total.order + AUC_SUMS.gather(raw_candidate(batch).scored(batch), Options())
        for fold in np.unique(folds):
            total.add(int(fold), calibrator.gather(self.method, batch.take(folds == fold), self.params))
        return total


@dataclass(slots=True)
class MetricSums:
    """Sums of the metrics and curves of held-out rows, and moments of their calibrated log-odds.

    `weight`, that of each class, is of all rows.
    """

    rows: int
    weight: FloatArray
    sums: SummedScores
    log_odds: LogOdds

    def __iadd__(self, other: MetricSums) -> Self:
        self.rows += other.rows
        self.weight = self.weight + other.weight
        self.sums += other.sums
        self.log_odds += other.log_odds
        return self


@dataclass(frozen=True)
class MetricsPass(Pass[MetricSums]):
    """The second pass: metrics of the raw and the calibrated scores on held-out rows."""

    rows: KeyedRows
    calibrators: Mapping[str, Mapping[int, FittedMethod]]
    """By name, and by fold. If there are none, the raw score is measured on all rows."""

    primary_score: str | None
    """The name of the score of which the log-odds are summed up, if there is one."""

    post_processing: PostProcessing
    chosen: Sequence[metrics.MetricSpec]
    options: Options
    raw: str = RAW
    """The name of the raw score."""

    against: tuple[str, ...] = (RAW,)
    """The scores that others are compared with."""

    kinds: tuple[Kind, ...] = ("reliability",)
    """The kinds of the curves."""

    @property
    def tests(self) -> list[int]:
        """The folds that are predicted."""
        return sorted({fold for by_fold in self.calibrators.values() for fold in by_fold})

    def reading(self) -> Reading:
        return self.rows.reading()

    def start(self) -> MetricSums:
        binding = self.rows.binding
        scores, classes = [self.raw, *self.calibrators] if self.tests else [self.raw], class_names(binding)
        sums = SummedScores.nothing(
            scores,
            classes,
            self.chosen,
            self.options,
            self.kinds,
            against=self.against,
            together=self.rows.unit is not None,
        )
        return MetricSums(0, np.zeros(len(classes)), sums, LogOdds.empty(1 if binding.binary else len(classes)))

    def add(self, total: MetricSums, batches: Sequence[Batch], others: pl.DataFrame) -> MetricSums:
        total.weight += class_weights(batches[0].labels, batches[0].weight, len(total.weight))
        batch, probs, folds = self.predicted(batches, others)
        if len(batch):
            raw = raw_candidate(batch).scored(batch, folds=folds)
            total.rows += len(batch)
            total.sums.add([raw, *(replace(raw, prob=prob, odds=None) for prob in probs.values())], batch.together)
            if self.primary_score in probs:
                total.log_odds += LogOdds.of(probs[self.primary_score], batch.labels, batch.weights)
        return total

    def predicted(
        self, batches: Sequence[Batch], others: pl.DataFrame
    ) -> tuple[Batch, dict[str, FloatArray], Folds | None]:
        """The held-out rows, reweighted to the target prior, their calibrated probabilities, and their folds."""
        batch, fold_of = self.rows.encoded(batches, others)
        if not self.tests:
            return reweighted(batch, self.post_processing), {}, None
        in_test = np.isin(fold_of, self.tests)
        held_out, folds = batch.take(in_test), fold_of[in_test]
        if not len(held_out):
            return held_out, {}, None
        probs = {name: _by_fold(held_out, folds, fitted) for name, fitted in self.calibrators.items()}
        within = Folds(folds, max(self.tests) + 1) if len(self.tests) > 1 else None
        return reweighted(held_out, self.post_processing), probs, within


def _by_fold(rows: Batch, folds: IntArray, calibrators: Mapping[int, FittedMethod]) -> FloatArray:
    """The probabilities of rows, each by the calibrator of its fold."""
    prob = np.empty(rows.score.shape)
    for fold, fitted in calibrators.items():
        here = folds == fold
        prob[here] = fitted.predict(rows.take(here))
    return prob


@dataclass(frozen=True)
class ResidualsPass(Pass[Products]):
    """The third pass: products of residuals and the directions of the drift test, for its baseline."""

    measuring: MetricsPass
    log_odds: LogOdds

    def reading(self) -> Reading:
        return self.measuring.rows.reading(judged=False)

    def start(self) -> Products:
        return Products.empty(len(self.log_odds.sums))

    def add(self, total: Products, batches: Sequence[Batch], others: pl.DataFrame) -> Products:
        batch, probs, _ = self.measuring.predicted(batches, others)
        if (name := self.measuring.primary_score) in probs:
            total += Products.of(probs[name], batch.labels, batch.weights, self.log_odds, batch.together, UNITS)
        return total
