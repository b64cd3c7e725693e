"""Arrow types that polars does not have.

polars reads these columns as the nearest type it has and gives back every value; the sink casts them to what they
were. What neither of the two can do is refused by name before anything is computed.

Kept as they are: booleans, integers, floats, decimals up to 38 digits, dates, timestamps, durations, text, binary,
lists, structs, maps, dictionaries of text. What Arrow distinguishes only in memory may change: the width of offsets
(string and large_string, list and large_list), of dictionary indices, and a dictionary of anything but text becomes
the plain values.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyarrow import types as is_type

from calcli.errors import DataError

ArrowTypes = Mapping[str, pa.DataType]


def types_to_restore(schema: pa.Schema, name: str) -> dict[str, pa.DataType]:
    """The columns of a file whose types polars changes, with what they were."""
    restore = {}
    for column in schema:
        dtype = storage(column.type)
        if _impossible(dtype):
            raise DataError(
                f"{name}: column {column.name!r} is {column.type}, which calcli cannot pass through unchanged",
                hint="drop the column, or cast it, before",
            )
        if _changed(dtype):
            restore[column.name] = column.type
    return restore


def storage(dtype: pa.DataType) -> pa.DataType:
    """What an extension type is made of; other types themselves."""
    return dtype.storage_type if isinstance(dtype, pa.BaseExtensionType) else dtype


def children(dtype: pa.DataType) -> list[pa.DataType]:
    """The types inside a nested type."""
    return [storage(dtype.field(place).type) for place in range(dtype.num_fields)]


def _impossible(dtype: pa.DataType) -> bool:
    return (
        is_type.is_interval(dtype)
        or is_type.is_union(dtype)
        or is_type.is_run_end_encoded(dtype)
        or (is_type.is_decimal256(dtype) and dtype.precision > 38)
        or (is_type.is_decimal(dtype) and dtype.scale < 0)
        or any(_impossible(child) for child in children(dtype))
    )


def _changed(dtype: pa.DataType) -> bool:
    return (
        is_type.is_fixed_size_binary(dtype)
        or is_type.is_date64(dtype)
        or (is_type.is_time(dtype) and dtype.unit != "ns")
        or (is_type.is_temporal(dtype) and not is_type.is_date(dtype) and dtype.unit == "s")
        or is_type.is_decimal256(dtype)
        or any(_changed(child) for child in children(dtype))
    )
