"""Rows that a model has judged and of which few have labels: how they are read, and what stands in for their labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.metrics.powered import FEWEST, Sample
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Holdout, Splits, predict_splits, split_rows
from calcli.numeric.bins import totals
from calcli.numeric.links import against_rest, scores
from calcli.reports.groups import groups, numbers, ranks, units_of, values_of
from calcli.reports.measuring import class_names, raw_probabilities
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
class JudgedRows:
    """The rows of one system."""

    loaded: Loaded
    binding: Binding
    prob: FloatArray
    """The score as it is given, or as an artifact calibrates it: a probability, one for each class, or an amount."""

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
        if batch.target is not None:
            labelled = np.flatnonzero(np.isfinite(batch.target))
            prob = _amounts(batch, source)
        else:
            known = np.full(len(batch), UNKNOWN) if batch.label is None else batch.label
            labelled = np.flatnonzero(known != UNKNOWN)
            prob = raw_probabilities(batch) if model is None else model.calibrator.predict(batch)
        labelled = labelled[batch.weights[labelled] > 0]  # others say nothing
        strata = None if request.strata is None else ranks(loaded, request.strata, "--strata")
        drawn = None if request.label_prob is None else numbers(loaded, request.label_prob, "--label-prob")[labelled]
        units = units_of(loaded, request.resample_by)
        rows = cls(loaded, binding, prob, labelled, model is None, drawn, strata, units)
        rows._check(request, source)
        return rows

    def _check(self, request: EstimateRequest, source: Source) -> None:
        """Refuse label probabilities that are none, and strata without labels."""
        if self.label_prob is not None and len(self.labelled):
            wrong = ~((self.label_prob > 0.0) & (self.label_prob <= 1.0))
            if wrong.any():
                first = int(self.labelled[wrong.argmax()])
                numbers_of = self.loaded.row_numbers
                row = first if numbers_of is None else int(numbers_of[first])
                raise DataError(
                    f"--label-prob: {request.label_prob!r} is {self.label_prob[wrong][0]:g} in row {row + 1}, which "
                    f"has a label ({wrong.sum():,} such rows)",
                    hint="a labelled row was drawn with a probability above 0 and up to 1: correct it, or empty its "
                    "label",
                )
        if self.strata is not None and len(self.labelled):
            count = int(self.strata.max()) + 1
            without = int((totals(self.strata[self.labelled], None, count) == 0).sum())
            if without:
                raise DataError(
                    f"--strata: {without:,} of the {count:,} values of {request.strata!r} have no labelled row",
                    hint="label some rows of each, or leave out --strata",
                )

    @property
    def name(self) -> str:
        return self.loaded.source.name

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
            labelled=place[self.labelled[kept]],
            label_prob=None if self.label_prob is None else self.label_prob[kept],
            strata=None if self.strata is None else self.strata[inside],
            units=None if self.units is None else self.units.take(inside),
        )

    def samples(self, seed: int) -> tuple[Sample, ...]:
        """The sample for each class, with what stands in for labels."""
        batch, labelled = self.loaded.batch, self.labelled
        units = None if self.units is None else self.units.rank
        shared: dict[str, Any] = {
            "labelled": labelled,
            "weight": batch.weight,
            "label_prob": self.label_prob,
            "strata": self.strata,
            "units": units,
        }
        if not self.rate:
            held_out, value = self.prob[labelled], batch.targets[labelled]
            return (Sample(value=value, held_out=held_out, stand_in=self.prob, rate=False, **shared),)
        splits = self._splits(seed)
        score = self._odds()
        columns = [score] if score.ndim == 1 else list(against_rest(score).T)
        samples = []
        for index, column in enumerate(columns, start=1 if score.ndim == 1 else 0):  # of two classes the positive one
            value = (batch.labels[labelled] == index).astype(np.float64)
            stand_in, held_out = self._calibrated(column, value.astype(np.int64), splits, seed)
            samples.append(Sample(value=value, held_out=held_out, stand_in=stand_in, rate=True, **shared))
        return tuple(samples)

    def _odds(self) -> FloatArray:
        """The score that is calibrated: log-odds, or a column for each class."""
        return self.loaded.batch.score if self.given else scores(self.prob)

    def _splits(self, seed: int) -> Splits | None:
        """The folds of the labelled rows; None where they are too few."""
        units = None if self.units is None else self.units.take(self.labelled)
        count = len(self.labelled) if units is None else len(np.unique(units.rank))
        return split_rows(len(self.labelled), Holdout("cv", folds=FOLDS), seed, units) if count >= FEWEST else None

    def _calibrated(
        self, score: FloatArray, label: IntArray, splits: Splits | None, seed: int
    ) -> tuple[FloatArray, FloatArray]:
        """Calibrated scores of all rows, by the mean of the folds' calibrators, and of labelled rows by those of the
        other folds; all 0, which is no help, where some fold has labels of one class only to learn from.
        """
        held_out, stand_in = np.zeros(len(label)), np.zeros(len(score))
        if splits is None or any(np.ptp(label[split.train]) == 0 for split in splits):
            return stand_in, held_out
        weight = self.loaded.batch.weights[self.labelled]
        weight = weight if self.label_prob is None else weight / self.label_prob
        some = Batch(score[self.labelled], label, None if np.ptp(weight) == 0.0 else weight)
        spec = catalog.find("platt")
        for part, fitted in predict_splits(spec, some, spec.resolve(), splits, range(len(splits)), seed):
            held_out[splits.tests[part.split]] = part.prob
            stand_in += fitted.predict(Batch(score)) / len(splits)
        return stand_in, held_out


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


def _amounts(batch: Batch, source: Source) -> FloatArray:
    """The score of each row, a number on any scale."""
    ((name, column),) = batch.features.items()
    if column.role == "category":
        raise DataError(f"the score {name!r} of {source.name} holds words, not numbers", hint="name another: --prob")
    values = column.values.astype(np.float64)
    missing = int((~np.isfinite(values)).sum())
    if missing:
        raise DataError(
            f"the score {name!r} of {source.name} is missing in {missing:,} rows", hint="leave these rows out"
        )
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
