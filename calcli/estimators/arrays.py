"""From arrays and frames to the table that the verbs take: scores, labels, weights and features under fixed names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding, Flags, Label, ScoreKind
from calcli.tables.labels import class_text
from calcli.tables.score_arrays import columns_of, score_columns
from calcli.tables.source import open_source
from calcli.tables.weights import WeightKind

Input: TypeAlias = Literal["auto", "logit", "prob"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to fit on.

    Attributes
    ----------
    scores
        Of the positive class, the last of two, shape (n,), or of each class, shape (n, K), in the order of `classes`.
    kind
        What the scores are.
    labels
        A class in each row.
    classes
        As scikit-learn has them.
    features
        Any frame, or an array with a column for each; None where there are none.
    weights, groups
        One in each row; None where there are none.
    weight_kind
        What a weight stands for; None is importance.
    """

    scores: FloatArray
    kind: ScoreKind
    labels: NDArray[Any]
    classes: NDArray[Any]
    features: object = None
    weights: object = None
    groups: object = None
    weight_kind: WeightKind | None = None

    def table(self) -> tuple[pl.DataFrame, Flags, str | None]:
        """The table, the parts that its columns play, and the column of the groups."""
        classes = [plain_class(one) for one in self.classes.tolist()]
        texts = [class_text(one) for one in classes]
        beside = feature_table(self.features, len(self.scores))
        label, stem, weight, group = (free_name(name, beside) for name in ("label", self.kind, "weight", "group"))
        columns = [stem] if self.scores.ndim == 1 else [f"{stem}_{text}" for text in texts]
        parts = [*score_columns(self.scores, columns), labels_column(label, self.labels)]
        parts += [amounts_column(weight, self.weights)] if self.weights is not None else []
        parts += [pl.Series(group, np.asarray(self.groups))] if self.groups is not None else []
        flags = Flags(
            label=label,
            prob=stem if self.kind == "prob" else None,
            logit=stem if self.kind == "logit" else None,
            weight=None if self.weights is None else weight,
            weight_kind=self.weight_kind,
            positive=texts[1] if len(texts) == 2 else None,
            ignore=() if self.groups is None else (group,),
            classes=tuple(texts),
        )
        if self.weights is None:
            flags = replace(flags, weight_kind=None)
        return with_columns(beside, parts), flags, None if self.groups is None else group


def free_name(name: str, beside: pl.DataFrame) -> str:
    """A column name with which no name of a feature begins."""
    while any(one.startswith(name) for one in beside.columns):
        name += "_"
    return name


def truth_of(y: object) -> NDArray[Any]:
    """The label of each row, none missing; an array of one column is taken for its column."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"y has {labels.ndim} dimensions; there is one class for each row")
    if labels.dtype.kind in "Of":
        missing = [is_missing(one) for one in labels.tolist()]
        if any(missing):
            first = missing.index(True) + 1
            raise DataError(f"{sum(missing):,} of {len(labels):,} labels are missing, first in row {first}")
    return labels


def is_missing(value: object) -> bool:
    """Whether a label is None, NaN, or pandas' NA, which is neither equal to itself nor not."""
    try:
        return value is None or bool(value != value)  # noqa: PLR0124 NaN
    except TypeError:
        return True


def plain_class(value: object) -> Label:
    """A class as a plain Python value, which tables take."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | int | str):
        return value
    raise DataError(f"the class {value!r} is a {type(value).__name__}; classes are integers, booleans or text")


def labels_column(name: str, labels: NDArray[Any]) -> pl.Series:
    """The labels as a column."""
    return pl.Series(name, labels.tolist() if labels.dtype.kind == "O" else labels)


def amounts_column(name: str, values: object) -> pl.Series:
    """Numbers as a column."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise DataError(f"the {name} has {array.ndim} dimensions; there is one number for each row")
    return pl.Series(name, array)


def training_table(
    features: object, labels: NDArray[Any], classes: NDArray[Any] | None, weights: object
) -> tuple[pl.DataFrame, Flags]:
    """A table without a score, and the parts that its columns play; no `classes` where labels are amounts."""
    beside = feature_table(features)
    label, weight = free_name("label", beside), free_name("weight", beside)
    check_length("X", beside.height, len(labels))
    parts = [labels_column(label, labels)]
    parts += [amounts_column(weight, weights)] if weights is not None else []
    texts = None if classes is None else tuple(class_text(plain_class(one)) for one in classes.tolist())
    positive = texts[1] if texts is not None and len(texts) == 2 else None
    flags = Flags(label=label, weight=None if weights is None else weight, positive=positive, classes=texts)
    return with_columns(beside, parts), flags


def feature_table(features: object, rows: int | None = None) -> pl.DataFrame:
    """Features as a table: any frame as it is, an array with columns ``x0``, ``x1`` and so on."""
    if features is None:
        return pl.DataFrame(height=rows)
    if isinstance(features, pl.DataFrame):
        table = features
    elif hasattr(features, "columns") or hasattr(features, "column_names"):
        with open_source(cast("Any", features)) as source:
            table = source.raw.collect()
    elif hasattr(features, "toarray"):
        raise DataError("X is sparse, and methods read dense features", hint="give X.toarray()")
    else:
        array = np.asarray(features)
        if array.ndim != 2:
            raise DataError(f"X has {array.ndim} dimensions; it is a frame, or an array with a column for each feature")
        columns = ([*column] if array.dtype.kind == "O" else column for column in array.T)
        table = pl.DataFrame([pl.Series(f"x{place}", column, strict=False) for place, column in enumerate(columns)])
    if rows is not None:
        check_length("X", table.height, rows)
    return table


def with_columns(table: pl.DataFrame, columns: Sequence[pl.Series]) -> pl.DataFrame:
    """The table with more columns, all of the length of the first."""
    for column in columns:
        check_length(column.name, len(column), len(columns[0]))
    return pl.DataFrame(columns) if not table.width else table.with_columns(columns)


def check_length(name: str, length: int, rows: int) -> None:
    """Refuse an array that is not as long as there are rows."""
    if length != rows:
        raise DataError(f"there are {rows:,} rows, and {name} has {length:,}: inconsistent numbers of samples")


def table_to_predict(scores: FloatArray, features: object, binding: Binding) -> pl.DataFrame:
    """The table that a fitted model reads; scores by class are in the order of the classes of `classes_of`."""
    return with_columns(feature_table(features, len(scores)), columns_of(scores, binding))


def classes_of(binding: Binding) -> NDArray[Any]:
    """The classes of an artifact, the positive one of two last."""
    return np.array(index_order(binding))


def by_class(prob: FloatArray) -> FloatArray:
    """Probabilities with a column for each class, also of two."""
    return prob if prob.ndim == 2 else np.column_stack([1.0 - prob, prob])
