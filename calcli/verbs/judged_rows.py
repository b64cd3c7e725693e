"""Rows that a model has judged and of which few have labels: how they are read, and what stands in for their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.decisions.policy import GroupRule
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.metrics.powered import FEWEST
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Holdout, Mask, predict_splits, split_rows
from calcli.numeric.links import against_rest, scores
from calcli.reports.groups import as_numbers, comparable, distinct_groups, group_codes
from calcli.reports.measuring import class_names, raw_probabilities
from calcli.tables.arrays import UNKNOWN
from calcli.tables.binding import bind, bind_unscored
from calcli.tables.binding_types import Binding
from calcli.tables.labels import label_column
from calcli.tables.passes import Pass, Reading
from calcli.tables.paths import reading
from calcli.tables.scales import Scale
from calcli.tables.scores import STEMS
from calcli.tables.source import Source
from calcli.verbs.estimate_request import EstimateRequest

FOLDS = 5
"""The number of folds of the labelled rows: each is calibrated by the others."""

DEALS, MOST_DEALT = 5, 10_000
"""Up to so many rows or units with labels are dealt into folds so often: of few, luck would say which lack a label."""

MOST_ROWS = 50_000_000
"""At most so many rows are held."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are held."""

    odds: FloatArray
    """The score that labels calibrate: log-odds, a column for each class, or an amount."""

    prob: FloatArray
    """The score as it is given, or as an artifact calibrates it: a probability, one for each class, or an amount."""

    value: FloatArray
    """The label, an amount or the index of a class; NaN where there is none."""

    weight: FloatArray | None
    others: pl.DataFrame
    """The columns that flags name."""

    def __len__(self) -> int:
        return len(self.value)

    @property
    def weights(self) -> FloatArray:
        return np.ones(len(self)) if self.weight is None else self.weight

    @property
    def labelled(self) -> Mask:
        """Whether each row has a label that counts."""
        return is_labelled(self.value, self.weights)

    def taken(self, some: Mask | IntArray) -> Rows:
        """Some of the rows, by a mask or by their places."""
        places = np.flatnonzero(some) if some.dtype == np.bool_ else some
        weight, others = self.weight, self.others
        return Rows(
            self.odds[places],
            self.prob[places],
            self.value[places],
            None if weight is None else weight[places],
            others[places] if others.width else others,
        )

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """The rows of all parts, of which there is one at least."""
        check_held(parts)
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in ("odds", "prob", "value")
        }
        weight = None if parts[0].weight is None else np.concatenate([part.weights for part in parts])
        return cls(**columns, weight=weight, others=pl.concat([part.others for part in parts]))


@dataclass(frozen=True)
class Reader:
    """How the rows of a table are read, here or on a cluster."""

    name: str
    """The name of the table."""

    binding: Binding
    model: CalibratorModel | None
    request: EstimateRequest
    groups: Mapping[str, pl.Series]
    """The values of each column of groups, in their order."""

    named: Sequence[str]
    """The columns that flags name beside those."""

    @classmethod
    def of(cls, example: Source, binding: Binding, request: EstimateRequest, model: CalibratorModel | None) -> Reader:
        """The reader of a table like `example`."""
        named = {
            "--versus": request.versus,
            "--id": request.item,
            "--strata": request.strata,
            "--resample-by": request.resample_by,
            "--label-prob": request.label_prob,
        }
        rule = None if model is None or model.policy is None else model.policy.rule
        if isinstance(rule, GroupRule) and binding.label is None:  # promises are about its decisions
            named["the policy"] = rule.column
        for flag, column in named.items():
            if column is not None:
                comparable(example, column, flag)
        groups = {column: distinct(example, column) for column in request.by}
        return cls(example.name, binding, model, request, groups, [one for one in named.values() if one is not None])

    @property
    def ranks(self) -> bool:
        """Whether scores only rank."""
        return self.model is None and self.binding.score.kind == "rank"

    def reading(self, *, judged: bool) -> Reading:
        """The columns to read; `judged` in the pass that refuses bad rows, and scores of another scale."""
        binding, model = self.binding, self.model
        scale = Scale(binding.score) if judged and binding.score.columns else None
        features = binding.regression or (model is not None and model.needs_features)
        others = list(dict.fromkeys([*self.groups, *self.named]))
        return Reading([binding], [scale], others, features, judged=judged, few_labels=True)

    def rows(self, batch: Batch, others: pl.DataFrame, mask: Mask) -> Rows:
        """Some of the rows of a chunk."""
        # A calibrator of whole tables has all rows in one chunk, and predicts them together.
        whole = self.model is not None and self.model.calibrator.whole_table
        if not whole and not mask.all():
            batch, others = batch.take(mask), others.filter(mask) if others.width else others
        prob, odds = self._scores(batch)
        rows = Rows(odds, prob, labels_of(batch), batch.weight, others)
        return rows.taken(mask) if whole else rows

    def _scores(self, batch: Batch) -> tuple[FloatArray, FloatArray]:
        """The scores of rows as they are, or as an artifact has them; and what labels calibrate."""
        if batch.target is not None:
            amount = _amounts(batch, self.name)
            return amount, amount
        if self.model is None:
            return raw_probabilities(batch), batch.score
        prob = self.model.calibrator.predict(batch)
        return prob, scores(prob)

    def of_system(self, others: pl.DataFrame, value: object) -> Mask:
        """Whether each row has this value of `versus`."""
        return (others[str(self.request.versus)] == value).to_numpy()

    def key(self, others: pl.DataFrame, strata: pl.Series | None) -> list[IntArray]:
        """The group of each row in each column, its stratum, and a hash of its unit or item."""
        request = self.request
        key = [group_codes(others[column], values) for column, values in self.groups.items()]
        if request.strata is not None and strata is not None:
            key.append(group_codes(others[request.strata], strata))
        if request.tie is not None:
            key.append((others[request.tie].hash().to_numpy() >> np.uint64(1)).astype(np.int64))
        return key


@dataclass(frozen=True)
class RowPass(Pass[list[Rows]]):
    """Collects the rows that have labels, or all."""

    reader: Reader
    every: bool

    def reading(self) -> Reading:
        return self.reader.reading(judged=True)

    def start(self) -> list[Rows]:
        return []

    def add(self, total: list[Rows], batches: Sequence[Batch], others: pl.DataFrame) -> list[Rows]:
        (batch,) = batches
        mask = np.ones(len(batch), dtype=np.bool_) if self.every else is_labelled(labels_of(batch), batch.weights)
        if mask.any():
            total.append(self.reader.rows(batch, others, mask))
            check_held(total)
        return total


@dataclass(frozen=True, slots=True)
class Labelled:
    """The rows of a system that have labels, on which calibrators are fitted."""

    rows: Rows
    label_prob: FloatArray | None
    strata: pl.Series | None
    """The strata in their order."""

    key: Sequence[IntArray]
    """The columns of each row's key, as the reader has them."""

    share: FloatArray
    """The weight of each row over the probability that it was drawn with."""

    units: SamplingUnits | None

    @classmethod
    def of(cls, rows: Rows, reader: Reader) -> Labelled:
        """From the rows of a system that have labels."""
        others, asked = rows.others, reader.request
        drawn = None if asked.label_prob is None else as_numbers(others[asked.label_prob], "--label-prob")
        if drawn is not None and len(wrong := drawn[~((drawn > 0.0) & (drawn <= 1.0))]):
            raise DataError(
                f"--label-prob: {asked.label_prob!r} is {wrong[0]:g} in a row which has a label "
                f"({len(wrong):,} such rows)",
                hint="a labelled row was drawn with a probability above 0 and up to 1: correct it, or empty its label",
            )
        share = rows.weights if drawn is None else rows.weights / drawn
        # In an order that follows from their values, folds are the same wherever the rows were.
        ranked = (asked.strata, asked.resample_by, *asked.by, asked.tie)
        ranks = [others[column].rank("dense").to_numpy() for column in ranked if column is not None]
        order = np.lexsort([*score_columns(rows.odds), rows.value, share, *ranks][::-1])
        rows, share, drawn = rows.taken(order), share[order], None if drawn is None else drawn[order]
        others, unit = rows.others, asked.resample_by
        strata = None if asked.strata is None else others[asked.strata].drop_nulls().unique().sort()
        units = None if unit is None else SamplingUnits(others[unit].rank("dense").to_numpy())
        return cls(rows, drawn, strata, reader.key(others, strata), share, units)

    def stand_ins(self, seed: int, *, rate: bool) -> StandIns:
        """The stand-ins for the labels of these rows and of others: for classes by calibrators of folds."""
        rows, units, spec = self.rows, self.units, catalog.find("platt")
        if not rate:
            return StandIns([rows.odds], None)
        count = len(rows) if units is None else len(np.unique(units.rank))
        deals = 0 if count < FEWEST else DEALS if count <= MOST_DEALT else 1
        seeds = range(DEALS * seed, DEALS * seed + deals)  # no deal of one seed is that of another
        dealt = [split_rows(len(rows), Holdout("cv", folds=FOLDS), one, units) for one in seeds]
        weight = None if np.ptp(self.share) == 0.0 else self.share
        held_out, fitted = [], []
        for index, column in rated(rows.odds):
            prob, each = np.zeros(len(rows)), []
            label = (rows.value == index).astype(np.int64)
            some = Batch(column, label, weight)
            learnable = [splits for splits in dealt if all(np.ptp(label[split.train]) > 0 for split in splits)]
            for splits in learnable:
                for part, one in predict_splits(spec, some, spec.resolve(), splits, range(len(splits)), seed):
                    prob[splits.tests[part.split]] += part.prob / len(learnable)
                    each.append(one)
            held_out.append(prob)
            fitted.append(each)
        return StandIns(held_out, fitted)


@dataclass(frozen=True, slots=True)
class StandIns:
    """The numbers that stand in for labels, for each class.

    Of labelled rows these are probabilities by calibrators of the other folds, of other rows the mean of all folds'. A
    deal in which some fold has labels of one class only to learn from is left out; without any they are 0, no help.
    """

    held_out: Sequence[FloatArray]
    """The stand-ins of the labelled rows."""

    calibrators: Sequence[Sequence[FittedMethod]] | None
    """The calibrators of the folds; None for amounts, which stand in for labels as they are."""

    def of(self, odds: FloatArray) -> list[FloatArray]:
        """The stand-ins of rows with these scores."""
        if self.calibrators is None:
            return [odds]
        found = []
        for (_, score), fitted in zip(rated(odds), self.calibrators, strict=True):
            found.append(np.zeros(len(score)))
            for one in fitted:
                found[-1] += one.predict(Batch(score)) / len(fitted)
        return found


def score_columns(score: FloatArray) -> Sequence[FloatArray]:
    """The scores as they are: of classes a column for each, of two classes and of amounts one."""
    return [score] if score.ndim == 1 else list(score.T)


def rated_names(binding: Binding) -> tuple[str, ...]:
    """The classes that have a rate: of two the positive one."""
    names = class_names(binding)
    return names[1:] if len(names) == 2 else names


def rated(odds: FloatArray) -> Sequence[tuple[int, FloatArray]]:
    """The index of each class that has a rate, and its log-odds: of two classes the positive one."""
    return [(1, odds)] if odds.ndim == 1 else list(enumerate(against_rest(odds).T))


def labels_of(batch: Batch) -> FloatArray:
    """The label of each row, an amount or the index of a class; NaN where there is none."""
    if batch.target is not None:
        return batch.target
    if batch.label is None:
        return np.full(len(batch), np.nan)
    return np.where(batch.label == UNKNOWN, np.nan, batch.label)


def is_labelled(value: FloatArray, weights: FloatArray) -> Mask:
    """Whether each row has a label, and a weight above 0: others say nothing."""
    return np.isfinite(value) & (weights > 0)


def distinct(source: Source, column: str, flag: str = "--by") -> pl.Series:
    """The values of a column in their order."""
    with reading(source.name):
        values = comparable(source, column, flag).unique().collect(engine="streaming").to_series()
    return distinct_groups(values, column)


def check_held(parts: Sequence[Rows]) -> None:
    """Refuse to hold too many rows."""
    if sum(map(len, parts)) > MOST_ROWS:
        raise UsageError(f"more than {MOST_ROWS:,} rows would be held", hint="give a sample of the rows")


def bound(source: Source, request: EstimateRequest, model: CalibratorModel | None) -> Binding:
    """The roles of the columns; the label has None where no column is one."""
    flags = request.flags
    if request.task == "regression":
        column = flags.prob or flags.logit or next((name for name in STEMS if name in source.columns), None)
        if column is None:
            raise DataError("no column has the name of a score", hint="name the score: --prob COLUMN")
        flags = replace(flags, prob=None, logit=None, features=(column,))
        return bind_unscored(source, flags, task="regression")
    known = None if model is None else model.binding
    source.find(flags.label)
    label = label_column(list(source.columns), flags, known, need=False, source=source)
    features = model is not None and model.needs_features
    regression = "for the mean of a number: --task regression"
    try:
        binding = bind(source, flags, known=known, need_label=label is not None, features=features)
    except DataError as error:
        if "regression target" in error.message:
            raise DataError(error.message, hint=regression) from None
        raise
    if binding.soft:
        raise DataError(f"the label {label!r} holds shares between 0 and 1, and not classes", hint=regression)
    return binding


def _amounts(batch: Batch, table: str) -> FloatArray:
    """The score of each row, a number on any scale."""
    ((name, column),) = batch.features.items()
    if column.role == "category":
        raise DataError(f"the score {name!r} of {table} holds words, not numbers", hint="name another: --prob")
    values = column.values.astype(np.float64)
    if not np.isfinite(values).all():
        raise DataError(f"the score {name!r} of {table} is missing in some rows", hint="leave these rows out")
    return values
