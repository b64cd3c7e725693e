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
from calcli.estimators.value_errors import PARAMETERS
from calcli.tables.binding_types import Flags, Label, ScaleKind
from calcli.tables.labels import class_text
from calcli.tables.score_arrays import score_columns, scores_of, unmasked
from calcli.tables.source import open_source
from calcli.tables.weights import WeightKind

Input: TypeAlias = Literal["auto", "logit", "prob"]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows to fit on."""

    labels: NDArray[Any]
    """A class or an amount in each row."""

    classes: NDArray[Any] | None
    """As scikit-learn has them; None where labels are amounts."""

    features: object = None
    """Any frame, or an array with a column for each; None where there are none."""

    weights: object = None
    groups: object = None
    """`weights`, `groups`: one in each row; None where there are none."""

    scores: FloatArray | None = None
    """Of the positive class, the last of two, shape (n,), or of each class, shape (n, K), in the order of `classes`;
    None where there are none.
    """

    kind: ScaleKind = "prob"
    """What the scores are."""

    weight_kind: WeightKind | None = None
    """What a weight stands for; None is importance."""

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
            weights = np.asarray(unmasked(self.weights), dtype=np.float64)
            if weights.ndim != 1:
                raise DataError(f"sample_weight has {weights.ndim} dimensions; there is one number for each row")
            parts.append(pl.Series(weight, weights))
            roles["weight"] = weight
        if self.groups is not None:
            parts.append(pl.Series(group, np.asarray(unmasked(self.groups))))
            roles["ignore"] = (group,)
        if texts is not None:
            roles |= {"classes": tuple(texts), "positive": texts[1] if len(texts) == 2 else None}
        table = with_columns(beside, parts)
        flags = Flags(label=label, weight_kind=self.weight_kind, **roles)
        if self.weights is None:
            flags = replace(flags, weight_kind=None)
        return table, flags, None if self.groups is None else group


def free_name(name: str, beside: pl.DataFrame) -> str:
    """A column name with which no name of a feature begins."""
    while any(one.startswith(name) for one in beside.columns):
        name += "_"
    return name


def truth_of(y: object) -> NDArray[Any]:
    """The label of each row, none missing; an array of one column is taken for its column."""
    labels = np.asarray(unmasked(y))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise DataError(f"y has {labels.ndim} dimensions; there is one class for each row")
    if labels.dtype.kind in "Of":
        missing = [is_missing(one) for one in labels.tolist()]
        if any(missing):
            first = missing.index(True) + 1
            raise DataError(f"{sum(missing):,} of {len(labels):,} labels are missing, first in row {first}")
    if labels.dtype.kind == "O" and (numbers := np.array(labels.tolist())).dtype.kind in "biuf":
        return numbers
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


def feature_table(features: object, rows: int | None = None) -> pl.DataFrame:
    """Features as a table: any frame as it is, an array with columns ``x0``, ``x1`` and so on."""
    if features is None:
        return pl.DataFrame(height=rows)
    features = unmasked(features)
    if isinstance(features, pl.DataFrame):
        table = features
    elif hasattr(features, "columns") or hasattr(features, "column_names"):
        with open_source(cast("Any", features)) as source:
            table = source.raw.with_columns(pl.col(name).cast(pl.String) for name in source.arrow_types.names).collect()
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
        name = column.name.rstrip("_")
        check_length(PARAMETERS.get(name, name), len(column), len(columns[0]))
    return pl.DataFrame(columns) if not table.width else table.with_columns(columns)


def check_length(name: str, length: int, rows: int) -> None:
    """Refuse an array that is not as long as there are rows."""
    if length != rows:
        raise DataError(f"there are {rows:,} rows, and {name} has {length:,}: inconsistent numbers of samples")


def in_order(scores: object, classes: NDArray[Any]) -> FloatArray:
    """Scores as `scores_of` has them. A frame whose columns have the names of the classes, alone or after a stem, may
    have them in any order.
    """
    scores = unmasked(scores)
    values = scores_of(scores)
    names = list(getattr(scores, "column_names", getattr(scores, "columns", ())))
    texts = [class_text(plain_class(one)) for one in classes.tolist()]
    stems = [name.removesuffix(texts[0]) for name in names if isinstance(name, str) and name.endswith(texts[0])]
    for stem in stems:
        named = [f"{stem}{text}" for text in texts]
        if values.ndim == 2 and values.shape[1] == len(named) and set(named) == set(names):
            return np.ascontiguousarray(values[:, [names.index(one) for one in named]])
    return values
