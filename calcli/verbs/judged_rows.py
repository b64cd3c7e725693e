"""Rows that a model has judged and of which few have labels: how they are read, and what stands in for their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.metrics.powered import FEWEST, Sample
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Holdout, predict_splits, split_rows
from calcli.numeric.bins import totals
from calcli.numeric.links import against_rest, scores
from calcli.reports.groups import groups, numbers, ranks, units_of, values_of
from calcli.reports.measuring import class_names, facts_of, raw_probabilities, units_fact
from calcli.reports.schema import DataFacts
from calcli.tables.arrays import UNKNOWN
from calcli.tables.binding import bind, bind_unscored
from calcli.tables.binding_types import Binding
from calcli.tables.labels import label_column
from calcli.tables.load import Loaded, load
from calcli.tables.scores import STEMS
from calcli.tables.source import Source
from calcli.verbs.estimate_request import EstimateRequest

FOLDS = 5
"""The number of folds of the labelled rows: each is calibrated by the others."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The samples of one system, and what a report says of their rows."""

    name: str
    """The name of its table."""

    binding: Binding
    facts: DataFacts
    samples: tuple[Sample, ...]
    """A sample for each class, or one of amounts."""

    means: Sequence[FloatArray] | None
    """For each sample the mean score of each entry; None for scores that only rank."""

    groups: Mapping[str, tuple[tuple[str | None, ...], IntArray]]
    """For each column of groups their names, and the group of each entry."""

    @property
    def rate(self) -> bool:
        """Whether labels are classes."""
        return not self.binding.regression

    @property
    def classes(self) -> tuple[str | None, ...]:
        """The classes whose rates are estimated: of two the positive one; None for amounts."""
        if not self.rate:
            return (None,)
        names = class_names(self.binding)
        return names[1:] if len(names) == 2 else names


@dataclass(frozen=True, slots=True)
class LabelledRows:
    """The rows that have labels, on which calibrators are fitted."""

    odds: FloatArray
    """The score that is calibrated: log-odds, a column for each class, or an amount."""

    value: FloatArray
    """The index of the class, or the amount."""

    weights: FloatArray
    label_prob: FloatArray | None = None
    strata: IntArray | None = None
    units: IntArray | None = None
    groups: Sequence[IntArray] = ()

    @property
    def share(self) -> FloatArray:
        """The weight of each row over the probability that it was drawn with."""
        return self.weights if self.label_prob is None else self.weights / self.label_prob

    @property
    def order(self) -> IntArray:
        """The rows in an order that follows from their values, so that folds are the same wherever the rows were."""
        keys = [self.value, self.share, self.strata, self.units, *self.groups]
        return np.lexsort([*(key for key in reversed(keys) if key is not None), *reversed(score_columns(self.odds))])

    def stand_ins(self, seed: int, *, rate: bool) -> StandIns:
        """The stand-ins for the labels of these rows and of others: for classes by calibrators of five folds."""
        if not rate:
            return StandIns([self.odds], None)
        order, spec = self.order, catalog.find("platt")
        units = None if self.units is None else SamplingUnits(self.units[order])
        count = len(order) if units is None else len(np.unique(units.rank))
        splits = split_rows(len(order), Holdout("cv", folds=FOLDS), seed, units) if count >= FEWEST else None
        weight = None if np.ptp(self.share) == 0.0 else self.share[order]
        columns = columns_of(self.odds)
        held_out = [np.zeros(len(order)) for _ in columns]
        fitted: list[list[FittedMethod]] = [[] for _ in columns]
        first = 1 if len(columns) == 1 else 0  # of two classes the positive one
        for place, column in enumerate(columns):
            label = (self.value[order] == first + place).astype(np.int64)
            if splits is not None and all(np.ptp(label[split.train]) > 0 for split in splits):
                some = Batch(column[order], label, weight)
                for part, one in predict_splits(spec, some, spec.resolve(), splits, range(len(splits)), seed):
                    held_out[place][order[splits.tests[part.split]]] = part.prob
                    fitted[place].append(one)
        return StandIns(held_out, fitted)


@dataclass(frozen=True, slots=True)
class StandIns:
    """What stands in for labels, for each class.

    Of labelled rows these are probabilities by calibrators of the other folds, of other rows the mean of all folds'.
    They are 0, which is no help, where some fold has labels of one class only to learn from.
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
        for score, fitted in zip(columns_of(odds), self.calibrators, strict=True):
            found.append(np.zeros(len(score)))
            for one in fitted:
                found[-1] += one.predict(Batch(score)) / len(fitted)
        return found


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The rows of one system."""

    loaded: Loaded
    binding: Binding
    prob: FloatArray
    """The score as it is given, or as an artifact calibrates it: a probability, one for each class, or an amount."""

    odds: FloatArray
    """The score that is calibrated on labels: log-odds, a column for each class, or an amount."""

    labelled: IntArray
    """The places of the rows that have labels."""

    given: bool = True
    """Whether `prob` is the score of the table, and not that of an artifact."""

    label_prob: FloatArray | None = None
    strata: IntArray | None = None
    units: SamplingUnits | None = None

    @classmethod
    def read(cls, source: Source, request: EstimateRequest, model: CalibratorModel | None) -> JudgedRows:
        """The good rows of a table; rows without a label are good ones."""
        binding = bound(source, request, model)
        features = request.task == "regression" or (model is not None and model.needs_features)
        loaded = load(source, binding, features=features, bad_rows=request.bad_rows, few_labels=True)
        batch = loaded.batch
        prob, odds = judgement(batch, model, source.name)
        labelled = np.flatnonzero(is_labelled(batch))
        strata = None if request.strata is None else ranks(loaded, request.strata, "--strata")
        drawn = None if request.label_prob is None else numbers(loaded, request.label_prob, "--label-prob")[labelled]
        units = units_of(loaded, request.resample_by)
        if len(labelled):
            check_drawn(request.label_prob, drawn)
            if strata is not None:
                check_strata(str(request.strata), int(strata.max()) + 1, strata[labelled])
        return cls(loaded, binding, prob, odds, labelled, model is None, drawn, strata, units)

    @property
    def name(self) -> str:
        return self.loaded.source.name

    @property
    def rate(self) -> bool:
        """Whether labels are classes."""
        return not self.binding.regression

    def of(self, inside: IntArray) -> JudgedRows:
        """Some of the rows, by their places."""
        place = np.full(len(self.prob), -1)
        place[inside] = np.arange(len(inside))
        kept = place[self.labelled] >= 0
        numbers_of = self.loaded.row_numbers
        loaded = replace(
            self.loaded,
            batch=self.loaded.batch.take(inside),
            row_numbers=inside if numbers_of is None else numbers_of[inside],
        )
        return replace(
            self,
            loaded=loaded,
            prob=self.prob[inside],
            odds=self.odds[inside],
            labelled=place[self.labelled[kept]],
            label_prob=None if self.label_prob is None else self.label_prob[kept],
            strata=None if self.strata is None else self.strata[inside],
            units=None if self.units is None else self.units.take(inside),
        )

    def judged(self, request: EstimateRequest) -> Judged:
        """The samples, in which every row is an entry."""
        batch, labelled = self.loaded.batch, self.labelled
        by = {column: groups(self.loaded, column) for column in request.by}
        units = None if self.units is None else self.units.rank
        known = LabelledRows(
            self.odds[labelled],
            values_of_labels(batch)[labelled],
            batch.weights[labelled],
            self.label_prob,
            None if self.strata is None else self.strata[labelled],
            None if units is None else units[labelled],
            [codes[labelled] for _, codes in by.values()],
        )
        stand_ins = known.stand_ins(request.seed, rate=self.rate)
        shared: dict[str, Any] = {
            "labelled": labelled,
            "weight": batch.weight,
            "label_prob": self.label_prob,
            "strata": self.strata,
            "units": units,
        }
        samples = samples_of(known, stand_ins, stand_ins.of(self.odds), shared)
        ranks = self.given and self.binding.score.kind == "rank"
        means = None if ranks else score_columns(self.prob)
        return Judged(self.name, self.binding, self.facts, samples, means, by)

    @property
    def facts(self) -> DataFacts:
        """The report's `data`."""
        batch, binding, loaded = self.loaded.batch, self.binding, self.loaded
        values = values_of_labels(batch)[self.labelled]
        share = shares(values, batch.weights[self.labelled], binding)
        facts = facts_of(loaded.source, binding, loaded.tally.facts, share)
        return replace(facts, weight_sum=float(batch.weights.sum()), units=units_fact(self.units))


def facts_of_systems(parts: Sequence[JudgedRows], facts: Sequence[DataFacts]) -> DataFacts:
    """The facts about the rows of one table or of two, given those about each system's.

    The rates and units are those of the first system.
    """
    tables = {id(one.loaded.source): of for one, of in zip(parts, facts, strict=True)}.values()
    return replace(
        facts[0],
        rows=sum(one.rows for one in tables),
        rows_bad=sum(one.rows_bad for one in tables),
        rows_normalised=sum(one.rows_normalised for one in tables),
        weight_sum=sum(one.weight_sum for one in facts),
    )


def score_columns(score: FloatArray) -> Sequence[FloatArray]:
    """The scores as they are: of classes a column for each, of two classes and of amounts one."""
    return [score] if score.ndim == 1 else list(score.T)


def columns_of(odds: FloatArray) -> Sequence[FloatArray]:
    """The log-odds of each class that has a rate: of two the positive one."""
    return [odds] if odds.ndim == 1 else list(against_rest(odds).T)


def samples_of(
    known: LabelledRows, stand_ins: StandIns, every: Sequence[FloatArray], shared: Mapping[str, Any]
) -> tuple[Sample, ...]:
    """The sample for each class; `every` are the stand-ins of all entries, `shared` what classes have in common."""
    if stand_ins.calibrators is None:
        return (Sample(value=known.value, held_out=stand_ins.held_out[0], stand_in=every[0], rate=False, **shared),)
    first = 1 if len(every) == 1 else 0  # of two classes the positive one
    return tuple(
        Sample(
            value=(known.value == index).astype(np.float64), held_out=held_out, stand_in=stand_in, rate=True, **shared
        )
        for index, (held_out, stand_in) in enumerate(zip(stand_ins.held_out, every, strict=True), start=first)
    )


def shares(values: FloatArray, weight: FloatArray, binding: Binding) -> FloatArray:
    """The weight of each class among labels; of amounts their weights."""
    return weight if binding.regression else totals(values.astype(np.int64), weight, len(binding.classes))


def judgement(batch: Batch, model: CalibratorModel | None, name: str) -> tuple[FloatArray, FloatArray]:
    """The scores of rows of the table `name` as they are, or as an artifact has them; and what labels calibrate."""
    if batch.target is not None:
        amount = _amounts(batch, name)
        return amount, amount
    if model is None:
        return raw_probabilities(batch), batch.score
    prob = model.calibrator.predict(batch)
    return prob, scores(prob)


def values_of_labels(batch: Batch) -> FloatArray:
    """The label of each row, an amount or the index of a class; NaN where there is none."""
    if batch.target is not None:
        return batch.target
    if batch.label is None:
        return np.full(len(batch), np.nan)
    return np.where(batch.label == UNKNOWN, np.nan, batch.label)


def is_labelled(batch: Batch) -> NDArray[np.bool_]:
    """Whether each row has a label, and a weight above 0: others say nothing."""
    return np.isfinite(values_of_labels(batch)) & (batch.weights > 0)


def check_drawn(column: str | None, label_prob: FloatArray | None) -> None:
    """Refuse probabilities with which no labelled row can have been drawn."""
    if label_prob is None:
        return
    wrong = ~((label_prob > 0.0) & (label_prob <= 1.0))
    if wrong.any():
        raise DataError(
            f"--label-prob: {column!r} is {label_prob[wrong][0]:g} in a row which has a label "
            f"({wrong.sum():,} such rows)",
            hint="a labelled row was drawn with a probability above 0 and up to 1: correct it, or empty its label",
        )


def check_strata(column: str, count: int, labelled: IntArray | None) -> None:
    """Refuse strata of which some have no label; `count` is how many there are."""
    without = count - len(np.unique([] if labelled is None else labelled))
    if without:
        raise DataError(
            f"--strata: {without:,} of the {count:,} values of {column!r} have no labelled row",
            hint="label some rows of each, or leave out --strata",
        )


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


def systems(
    rows: JudgedRows, request: EstimateRequest, other: JudgedRows | None
) -> tuple[Mapping[str, JudgedRows], Sequence[IntArray]]:
    """The rows of the one system, or of each of two, by name; and the item of each row, where there are two."""
    if request.versus is None or request.item is None:
        return {"": rows}, ()
    if other is None:
        parts = _by_column(rows, request.versus)
    else:
        names = [_stem(rows), _stem(other)]
        parts = dict(zip(names if names[0] != names[1] else ("first", "second"), (rows, other), strict=True))
    ids = [_items(part, request.item) for part in parts.values()]
    try:
        every = pl.concat(ids).rank("dense")
    except pl.exceptions.PolarsError:
        raise DataError(
            f"--id: {request.item!r} is {ids[0].dtype} in one table and {ids[1].dtype} in the other"
        ) from None
    codes = every.to_numpy().astype(np.int64) - 1
    cut = len(ids[0])
    both = len(np.intersect1d(codes[:cut], codes[cut:]))
    if not both:
        raise DataError(
            f"--id: no value of {request.item!r} is in both systems", hint="name the column that both share"
        )
    return parts, (codes[:cut], codes[cut:])


def _items(rows: JudgedRows, column: str) -> pl.Series:
    """The item of each row, each once."""
    values = values_of(rows.loaded, column, "--id")
    twice = len(values) - values.n_unique()
    if values.null_count() or twice:
        what = f"is null in {values.null_count():,} rows" if values.null_count() else f"repeats in {twice:,} rows"
        raise DataError(
            f"--id: {column!r} {what} of one system", hint="an item has one row for each system: remove the others"
        )
    return values.alias("item")


def _by_column(rows: JudgedRows, column: str) -> Mapping[str, JudgedRows]:
    """The rows of each of the two values of a column."""
    names, codes = groups(rows.loaded, column)
    if len(names) != 2 or None in names:
        raise UsageError(
            f"--versus: the column {column!r} has {len(names)} values, and two systems are compared",
            hint="keep the rows of two systems",
        )
    return {str(name): rows.of(np.flatnonzero(codes == code)) for code, name in enumerate(names)}


def _stem(rows: JudgedRows) -> str:
    return rows.loaded.source.stem or rows.name
