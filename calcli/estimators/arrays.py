"""From arrays and frames to the table that the verbs take: scores, labels, weights and features under fixed names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.tables.arrays import index_order
from calcli.tables.binding_types import Binding, Flags, Label, ScoreKind
from calcli.tables.labels import class_text
from calcli.tables.scales import check_probabilities
from calcli.tables.source import open_source

Input: TypeAlias = Literal["auto", "logit", "prob"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to fit on.

    Attributes
    ----------
    labels
        A class or an amount in each row.
    classes
        As scikit-learn has them; None where labels are amounts.
    features
        Any frame, or an array with a column for each; None where there are none.
    weights, groups
        One in each row; None where there are none.
    scores
        Of the positive class, the last of two, shape (n,), or of each class, shape (n, K), in the order of `classes`;
        None where there are none.
    kind
        What the scores are.
    """

    labels: NDArray[Any]
    classes: NDArray[Any] | None
    features: object = None
    weights: object = None
    groups: object = None
    scores: FloatArray | None = None
    kind: ScoreKind = "prob"

    def table(self) -> tuple[pl.DataFrame, Flags, str | None]:
        """The table, the parts that its columns play, and the column of the groups."""
        texts = None if self.classes is None else [class_text(plain_class(one)) for one in self.classes.tolist()]
        beside = feature_table(self.features, len(self.labels if self.scores is None else self.scores))
        label, stem, weight, group = (free_name(name, beside) for name in ("label", self.kind, "weight", "group"))
        parts, roles = list[pl.Series](), dict[str, Any]()
        if self.scores is not None:
            names = [stem] if self.scores.ndim == 1 else [f"{stem}_{text}" for text in texts or ()]
            parts, roles = score_columns(self.scores, names), {self.kind: stem}
        parts.append(pl.Series(label, self.labels.tolist() if self.labels.dtype.kind == "O" else self.labels))
        if self.weights is not None:
            weights = np.asarray(self.weights, dtype=np.float64)
            if weights.ndim != 1:
                raise DataError(f"the {weight} has {weights.ndim} dimensions; there is one number for each row")
            parts.append(pl.Series(weight, weights))
            roles["weight"] = weight
        if self.groups is not None:
            parts.append(pl.Series(group, np.asarray(self.groups)))
            roles["ignore"] = (group,)
        if texts is not None:
            roles |= {"classes": tuple(texts), "positive": texts[1] if len(texts) == 2 else None}
        table = with_columns(beside, parts)
        return table, Flags(label=label, **roles), None if self.groups is None else group


def free_name(name: str, beside: pl.DataFrame) -> str:
    """A column name with which no name of a feature begins."""
    while any(one.startswith(name) for one in beside.columns):
        name += "_"
    return name


def scores_of(scores: object) -> FloatArray:
    """Scores as float64, shape (n,) or (n, K), all finite; one column is the score of the positive class."""
    array = np.asarray(scores)
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: scores are real numbers")
    try:
        values = np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the scores are no numbers: {error}") from error
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim not in (1, 2):
        raise DataError(f"the scores have {values.ndim} dimensions; they are (n,) or (n, classes)")
    if not len(values):
        raise DataError("there are no rows: the scores have 0 sample(s)")
    finite = np.isfinite(values)
    if not finite.all():
        bad = values[~finite][0]
        row = int(np.argmin(finite.reshape(len(values), -1).all(axis=1)))
        raise DataError(f"the scores contain {'NaN' if np.isnan(bad) else 'infinity'}, first in row {row}")
    return values


def plain_class(value: object) -> Label:
    """A class as a plain Python value, which tables take."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool | int | str):
        return value
    raise DataError(f"the class {value!r} is a {type(value).__name__}; classes are integers, booleans or text")


def score_columns(scores: FloatArray, names: Sequence[str]) -> list[pl.Series]:
    """The scores as columns of these names."""
    given = 1 if scores.ndim == 1 else scores.shape[1]
    if given != len(names):
        raise DataError(f"the scores have {given} columns, and {len(names)} are expected: {', '.join(names[:8])}")
    if scores.ndim == 1:
        return [pl.Series(names[0], scores)]
    return [pl.Series(name, scores[:, place]) for place, name in enumerate(names)]


def feature_table(features: object, rows: int | None = None) -> pl.DataFrame:
    """Features as a table: any frame as it is, an array with columns ``x0``, ``x1`` and so on."""
    if features is None:
        return pl.DataFrame(height=rows)
    if isinstance(features, pl.DataFrame):
        table = features
    elif hasattr(features, "columns") or hasattr(features, "column_names"):
        with open_source(cast("Any", features)) as source:
            table = source.raw.collect()
    else:
        array = np.asarray(features)
        if array.ndim != 2:
            raise DataError(f"X has {array.ndim} dimensions; it is a frame, or an array with a column for each feature")
        columns = ([*column] if array.dtype.kind == "O" else column for column in array.T)
        table = pl.DataFrame([pl.Series(f"x{place}", column, strict=False) for place, column in enumerate(columns)])
    if rows is not None:
        _same_length("X", table.height, rows)
    return table


def with_columns(table: pl.DataFrame, columns: Sequence[pl.Series]) -> pl.DataFrame:
    """The table with more columns, all of the length of the first."""
    for column in columns:
        _same_length(column.name, len(column), len(columns[0]))
    return pl.DataFrame(columns) if not table.width else table.with_columns(columns)


def _same_length(name: str, length: int, rows: int) -> None:
    if length != rows:
        raise DataError(f"there are {rows:,} rows, and {name} has {length:,}: inconsistent numbers of samples")


def table_to_predict(scores: FloatArray, features: object, binding: Binding) -> pl.DataFrame:
    """The table that a fitted model reads; scores by class are in the order of `index_order`."""
    order = index_order(binding)
    if binding.score.kind == "prob":
        check_probabilities(scores)
    if scores.ndim == 2 and scores.shape[1] == len(order) == len(binding.score.columns):
        scores = scores[:, [order.index(one) for one in binding.classes]]
    columns = score_columns(scores, binding.score.columns)
    return with_columns(feature_table(features, len(scores)), columns)


def by_class(prob: FloatArray) -> FloatArray:
    """Probabilities with a column for each class, also of two."""
    return prob if prob.ndim == 2 else np.column_stack([1.0 - prob, prob])
