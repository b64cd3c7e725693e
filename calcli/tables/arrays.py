"""Columns of a table as arrays; typed columns and the String columns of text files alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, IntArray
from calcli.errors import DataError
from calcli.tables.binding_types import Binding, Feature, Label
from calcli.tables.labels import as_class
from calcli.tables.text import is_present

TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}

UNKNOWN = -1
"""The class index of a missing label."""

COMPARABLE = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date, pl.Datetime, pl.Time, pl.Null)

MOST_DAYS = 262_000 * 365

MOST_KEPT = 1 << 16
"""The largest number of categories of a column that are kept from chunk to chunk."""


def numbers(values: pl.Series) -> FloatArray:
    """A column as float64, with NaN for all that is no number."""
    cast = values.cast(pl.Float64, strict=False)
    return (cast.fill_null(float("nan")) if cast.has_nulls() else cast).to_numpy()


def no_number(values: pl.Series) -> pl.Series:
    """Which values of a text column are neither missing nor numbers."""
    return is_present(values) & values.cast(pl.Float64, strict=False).is_null()


def class_indices(values: pl.Series, binding: Binding, offset: int) -> IntArray:
    """The class index of each label, `UNKNOWN` where it is missing; binary: 1 is the positive class."""
    as_they_are = _indices_already(values, binding)
    if as_they_are is not None:
        return as_they_are
    if values.dtype.is_float():
        values = values.fill_nan(None)
    elif values.dtype == pl.String and binding.label_type != "string":
        values = values.set(~is_present(values), None)
    elif values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    # each distinct value is looked up once
    index_of = {label: index for index, label in enumerate(index_order(binding))}
    indices: dict[Any, int] = {}
    for value in values.unique().drop_nulls().to_list():
        label = as_class(value, binding.label_type)
        if label is None or label not in index_of:
            row = int((values == value).fill_null(value=False).arg_max() or 0)
            listed = ", ".join(map(repr, binding.classes[:12]))
            raise DataError(
                f"the label {value!r} in row {offset + row + 1} is not one of the classes {listed}",
                hint="correct the row, or fit again with all classes",
            )
        indices[value] = index_of[label]
    codes = values.replace_strict(list(indices), list(indices.values()), default=UNKNOWN, return_dtype=pl.Int64)
    return codes.to_numpy()


def index_order(binding: Binding) -> tuple[Label, ...]:
    """The classes in the order of their index in batches: of two, the positive one is last."""
    if not binding.binary or binding.classes[1] == binding.positive:
        return binding.classes
    return (binding.classes[1], binding.classes[0])


def _indices_already(values: pl.Series, binding: Binding) -> IntArray | None:
    """The labels themselves if they are the integers 0 .. K-1, else None."""
    if not values.dtype.is_integer() or index_order(binding) != tuple(range(len(binding.classes))):
        return None
    if values.has_nulls() or not len(values) or binding.label_type not in ("int", "float"):
        return None
    array = values.to_numpy()
    if array.min() < 0 or array.max() >= len(binding.classes):
        return None
    return array.astype(np.int64, copy=False)


def feature_column(values: pl.Series, feature: Feature, offset: int, levels: Levels | None = None) -> Column:
    """A feature as methods take it; `levels` are those of the chunks before."""
    if feature.role == "category":
        return _category(values, levels or Levels(), whole=feature.whole)
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(pl.String)
    if feature.role == "boolean" and values.dtype != pl.Boolean:
        values = _truth(values, feature, offset)
    elif values.dtype == pl.String:
        texts, values = values, values.cast(pl.Float64, strict=False)
        if values.null_count() > texts.null_count():
            _refuse(texts, no_number(texts), feature, offset)
    return Column(feature.role, numbers(values))


def _truth(values: pl.Series, feature: Feature, offset: int) -> pl.Series:
    """Text, or 0 and 1, as booleans."""
    text = values.cast(pl.String).str.to_lowercase()
    known = text.replace_strict(TRUTH, default=None, return_dtype=pl.Float64)
    present = is_present(values) if values.dtype == pl.String else values.is_not_null()
    _refuse(values, present & known.is_null(), feature, offset)
    return known


def _refuse(values: pl.Series, wrong: pl.Series, feature: Feature, offset: int) -> None:
    if wrong.any():
        row = wrong.arg_max() or 0
        kind = "numeric" if feature.role == "number" else feature.role
        raise DataError(
            f"the {kind} feature {feature.name!r} is {values[row]!r} in row {offset + row + 1}",
            hint="correct it, or leave the cell empty if the value is missing",
        )


def _category(values: pl.Series, levels: Levels, *, whole: bool = False) -> Column:
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        if not whole:
            return levels.column(values)
        values = values.cast(pl.String)
    if values.dtype == pl.String and not whole:
        text = values
    else:
        values = values.fill_nan(None) if values.dtype.is_float() else values
        distinct = values.unique().drop_nulls()
        text = values.replace_strict(distinct, _whole_texts(distinct), default=None, return_dtype=pl.String)
    names = text.unique().drop_nulls().sort()
    codes = text.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(-1)
    return Column("category", codes.to_numpy(), tuple(names.to_list()))


def _whole_texts(values: pl.Series) -> pl.Series:
    """Values as the text of categories: 17, 17.0 and their texts are one, and null is a text for a missing number."""
    if values.dtype == pl.String:
        values, text = values.set(~is_present(values), None), values
        integers, numbers = values.cast(pl.Int64, strict=False), values.cast(pl.Float64, strict=False)
        rounded = numbers.cast(pl.Int64, strict=False)
        rounded = rounded.set((rounded.cast(pl.Float64) != numbers).fill_null(value=False), None)
        whole = integers.fill_null(rounded)
        return whole.cast(pl.String).fill_null(values)
    text = values.cast(pl.String)
    return _whole_texts(text) if values.dtype.is_float() or values.dtype.is_decimal() else text


class Levels:
    """The levels of a table's categorical columns, and how polars numbers them, from chunk to chunk.

    Converting categories to text is slow, and most chunks have no categories that earlier ones did not have: then
    polars' numbers are translated by a table, and the levels are the same tuple as before.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def column(self, values: pl.Series) -> Column:
        """A Categorical or Enum column; its levels may include some that only earlier chunks had."""
        present = values.is_not_null().to_numpy() if values.has_nulls() else None
        numbered = (values if present is None else values.drop_nulls()).to_physical().to_numpy()
        known = self._known.get(values.name)
        if known is None or (codes := known.codes(numbered)) is None:
            self._known[values.name] = known = _Known.of(values, known)
            codes = known.table[numbered]
        if present is not None:
            codes_present, codes = codes, np.full(len(values), -1, dtype=np.int32)
            codes[present] = codes_present
        return Column("category", codes, known.levels)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """The categories that a column has had so far."""

    values: pl.Series
    """Each category once, in the order of `levels`. Kept because polars drops its numbering with the last column."""

    levels: tuple[str, ...]
    """The categories as text, sorted."""

    table: NDArray[np.int32]
    """For each number of polars, the index of its level; -1 if it has none."""

    @classmethod
    def of(cls, values: pl.Series, before: _Known | None) -> _Known:
        """The categories of a chunk and, unless they are too many together, those known before."""
        distinct = values.unique().drop_nulls()
        if before is not None and len(distinct) + len(before.values) <= MOST_KEPT:
            distinct = pl.concat([before.values, distinct]).unique()
        text = distinct.cast(pl.String)
        order = text.arg_sort()
        distinct = distinct.gather(order)
        numbered = distinct.to_physical().to_numpy()
        table = np.full(int(numbered.max(initial=0)) + 1, -1, dtype=np.int32)
        table[numbered] = np.arange(len(distinct), dtype=np.int32)
        return cls(distinct, tuple(text.gather(order).to_list()), table)

    def codes(self, numbered: NDArray[Any]) -> NDArray[np.int32] | None:
        """The index of each row's level; None if a category is new."""
        if numbered.max(initial=0) >= len(self.table):
            return None
        codes = np.take(self.table, numbered)
        return codes if codes.min(initial=0) >= 0 else None


def check_comparable(name: str, dtype: pl.DataType, flag: str) -> None:
    """Refuse a column whose values cannot be told apart by their text."""
    if not (dtype.is_numeric() or dtype in COMPARABLE):
        raise DataError(
            f"{flag}: the column {name!r} is {dtype}; it takes numbers, text, booleans, dates or times",
            hint="name another column, or cast it",
        )


def check_years(values: pl.Series) -> None:
    """Refuse dates so far away that polars panics where it writes them as text."""
    if not isinstance(values.dtype, pl.Date | pl.Datetime):
        return
    of_day = {"ms": 86_400_000, "us": 86_400_000_000}
    most = MOST_DAYS * (of_day.get(values.dtype.time_unit, 0) if isinstance(values.dtype, pl.Datetime) else 1)
    stored = values.to_physical()
    if most and not stored.is_between(-most, most).all():
        raise DataError(f"{values.name!r} holds dates more than 262,000 years away", hint="correct them, or cast them")


def node_ids(values: pl.Series) -> Column:
    """The ids of nodes as text: 7 is one node in all types, and 007 another."""
    check_comparable(values.name, values.dtype, "ids of nodes")
    check_years(values)
    if values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        if ((whole.cast(pl.Float64) != values) | (whole.is_null() & values.is_not_null() & values.is_not_nan())).any():
            raise DataError(f"{values.name!r} holds numbers with fractions, which cannot be node ids")
        values = whole
    return _category(values, Levels())


def join_columns(parts: list[Column]) -> Column:
    """The columns of successive chunks as one; the levels are sorted, so chunk boundaries do not matter."""
    role = parts[0].role
    if role != "category":
        return Column(role, np.concatenate([part.values for part in parts]).astype(np.float64, copy=False))
    levels = tuple(sorted({level for part in parts for level in part.levels}))
    return Column(role, np.concatenate([part.recode(levels, unseen=-1) for part in parts]), levels)
