"""One column of a table as an array.

All of these take typed columns and the String columns of text files alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Column, FloatArray, IntArray
from calcli.errors import DataError
from calcli.tables.infer import MISSING, is_present
from calcli.tables.labels import as_class
from calcli.tables.parts import Binding, Feature, Label

TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}

UNKNOWN = -1
"""The class index of a label that is missing."""


def numbers(values: pl.Series) -> FloatArray:
    """As float64, NaN where there is no number."""
    cast = values.cast(pl.Float64, strict=False)
    array: FloatArray = (cast.fill_null(float("nan")) if cast.has_nulls() else cast).to_numpy()
    return array


def no_number(values: pl.Series) -> pl.Series:
    """Where a text stands for something, but for no number."""
    return is_present(values) & values.cast(pl.Float64, strict=False).is_null()


def class_indices(values: pl.Series, binding: Binding, offset: int) -> IntArray:
    """The class index of each label, `UNKNOWN` where it is missing; binary: 1 is the positive class."""
    fast = _counted(values, binding)
    if fast is not None:
        return fast
    if values.dtype.is_float():
        values = values.fill_nan(None)
    elif values.dtype == pl.String and binding.label_type != "string":
        values = values.set(~is_present(values), None)
    elif values.dtype in (pl.Categorical, pl.Enum):
        values = values.cast(pl.String)
    place = {label: index for index, label in enumerate(index_order(binding))}
    found: dict[Any, int] = {}
    for value in values.unique().drop_nulls().to_list():
        label = as_class(value, binding.label_type)
        if label is None or label not in place:
            row = int((values == value).fill_null(value=False).arg_max() or 0)
            listed = ", ".join(map(repr, binding.classes[:12]))
            raise DataError(
                f"the label {value!r} in row {offset + row + 1} is none of the classes {listed}",
                hint="mend the row, or fit again with all classes",
            )
        found[value] = place[label]
    codes = values.replace_strict(list(found), list(found.values()), default=UNKNOWN, return_dtype=pl.Int64)
    return codes.to_numpy()


def index_order(binding: Binding) -> tuple[Label, ...]:
    """The classes by the index that batches give them: for two, the positive one last."""
    if not binding.binary or binding.classes[1] == binding.positive:
        return binding.classes
    return (binding.classes[1], binding.classes[0])


def _counted(values: pl.Series, binding: Binding) -> IntArray | None:
    """Integer labels 0 .. K-1 without a gap are their own index."""
    if not values.dtype.is_integer() or index_order(binding) != tuple(range(len(binding.classes))):
        return None
    if values.has_nulls() or not len(values) or binding.label_type not in ("int", "float"):
        return None
    array = values.to_numpy()
    if array.min() < 0 or array.max() >= len(binding.classes):
        return None
    return array.astype(np.int64, copy=False)


def feature_column(values: pl.Series, feature: Feature, offset: int) -> Column:
    """A feature as methods want it."""
    if feature.role == "category":
        return _category(values)
    if feature.role == "boolean" and values.dtype != pl.Boolean:
        values = _truth(values, feature, offset)
    elif values.dtype == pl.String:
        _refuse(values, no_number(values), feature, offset)
    return Column(feature.role, numbers(values))


def _truth(values: pl.Series, feature: Feature, offset: int) -> pl.Series:
    """Booleans that are written as text, or as 0 and 1."""
    text = values.cast(pl.String).str.to_lowercase()
    known = text.replace_strict(TRUTH, default=None, return_dtype=pl.Float64)
    present = is_present(values) if values.dtype == pl.String else values.is_not_null()
    _refuse(values, present & known.is_null(), feature, offset)
    return known


def _refuse(values: pl.Series, wrong: pl.Series, feature: Feature, offset: int) -> None:
    if wrong.any():
        row = wrong.arg_max() or 0
        raise DataError(
            f"the {feature.role} feature {feature.name!r} is {values[row]!r} in row {offset + row + 1}",
            hint=f"what stands for missing is null, {', '.join(MISSING[1:])}, or nothing",
        )


def _category(values: pl.Series) -> Column:
    if isinstance(values.dtype, pl.Categorical | pl.Enum):
        return _coded_category(values)
    text = values.cast(pl.String)
    levels = text.unique().drop_nulls().sort()
    codes = text.cast(pl.Enum(levels)).to_physical().cast(pl.Int32).fill_null(-1)
    return Column("category", codes.to_numpy(), tuple(levels.to_list()))


def _coded_category(values: pl.Series) -> Column:
    """The same without making texts of all rows: the codes that the values have are put in the order of the levels."""
    found = values.unique().drop_nulls()
    levels, codes = found.cast(pl.String), found.to_physical()
    order = levels.arg_sort()
    ordered = codes.gather(order).to_numpy().astype(np.int64)
    table = np.full(ordered.max(initial=0) + 2, -1, dtype=np.int32)  # the last entry is that of a missing value
    table[ordered] = np.arange(len(found), dtype=np.int32)
    places = values.to_physical().cast(pl.Int64).fill_null(len(table) - 1)
    return Column("category", table[places.to_numpy()], tuple(levels.gather(order).to_list()))


def node_ids(values: pl.Series) -> Column:
    """The ids of nodes, as text: 7 is the same node whatever type it is written in, and 007 is another."""
    if values.dtype.is_float():
        whole = values.cast(pl.Int64, strict=False)
        if ((whole.cast(pl.Float64) != values) | (whole.is_null() & values.is_not_null() & values.is_not_nan())).any():
            raise DataError(f"{values.name!r} holds numbers with fractions, which are no ids of nodes")
        values = whole
    elif values.dtype.is_nested():
        raise DataError(f"{values.name!r} is {values.dtype}, which is no id of a node")
    return _category(values)


def join_columns(parts: list[Column]) -> Column:
    """The columns of successive chunks as one; levels are sorted, so that it does not matter where chunks end."""
    role = parts[0].role
    if role != "category":
        return Column(role, np.concatenate([part.values for part in parts]).astype(np.float64, copy=False))
    levels = tuple(sorted({level for part in parts for level in part.levels}))
    return Column(role, np.concatenate([part.recode(levels, unseen=-1) for part in parts]), levels)


def join_arrays(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Arrays end to end; empties the list, so that the pieces can go as soon as they are copied."""
    joined = np.concatenate(parts) if len(parts) != 1 else parts[0]
    parts.clear()
    return joined


def count_reasons(masks: Mapping[str, NDArray[np.bool_]]) -> dict[str, int]:
    """How many rows each reason holds for; reasons without rows are left out."""
    return {reason: int(mask.sum()) for reason, mask in masks.items() if mask.any()}
