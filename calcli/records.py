"""Rules over the fields of dataclasses: sums over parts of the rows that add up, and columns whose rows are taken."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Record = TypeVar("Record", bound=DataclassInstance)


def added(one: Record, other: Record) -> Record:
    """The sum of two records of a kind, field by field, and item by item of a tuple.

    Flags, texts and what cannot be added are the same in both, and stay. A class says ``__add__ = added``.
    """
    return replace(
        one, **{field.name: _sum(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)}
    )


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(_sum(*pair) for pair in zip(one, other, strict=True))
    return one + other if hasattr(one, "__add__") and not isinstance(one, bool | str) else one


def taken(record: Record, rows: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Record:
    """The record of some rows: of arrays these rows, of records what their own `take` gives; all else stays."""
    values = {field.name: getattr(record, field.name) for field in fields(record)}
    columns = {name: value[rows] for name, value in values.items() if isinstance(value, np.ndarray)}
    nested = {
        name: value.take(rows) for name, value in values.items() if name not in columns and hasattr(value, "take")
    }
    return replace(record, **columns, **nested)
