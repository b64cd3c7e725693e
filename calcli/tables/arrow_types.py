"""Arrow types that polars does not have.

polars reads such a column as the nearest type it has, with every value kept, and the sink casts it back. A type for
which neither works is refused by name before anything is computed.

Some types come back different but equivalent: the width of offsets (string and large_string, list and large_list) and
of dictionary indices may change, levels of an unordered dictionary that no row uses may go, and a dictionary of
anything but text becomes plain values. Ordered dictionaries keep their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa
from pyarrow import types as is_type

from calcli.errors import DataError

ArrowTypes = Mapping[str, pa.DataType]

Reader: TypeAlias = Literal["parquet", "ipc", "memory"]
"""How polars gets a table: from files that it reads by itself, or from pyarrow's memory."""

OLDEST = pl.CompatLevel.oldest()
"""Has polars write types that other readers know: large_string, not string_view."""


def types_to_restore(arrow: pa.Schema, schema: pl.Schema) -> dict[str, pa.DataType]:
    """The original types of the columns whose types polars changes."""
    ours = arrow_schema(schema)
    return {
        column.name: column.type
        for column in arrow
        if _without_widths(column.type) != _without_widths(ours.field(column.name).type)
    }


def arrow_schema(schema: pl.Schema) -> pa.Schema:
    """The schema that polars writes for columns of these types."""
    return pl.DataFrame(schema=schema).to_arrow(compat_level=OLDEST).schema


def refuse_unknown_types(arrow: pa.Schema, name: str, reader: Reader) -> None:
    """Refuse types that polars cannot read: it would panic, and write a hundred lines to stderr."""
    for column in arrow:
        if _unknown(column.type, reader) and not (reader == "memory" and column.type != _readable(column.type)):
            raise DataError(
                f"{name}: column {column.name!r} is {column.type}, which calcli cannot pass through unchanged",
                hint="cast it, or drop it, before",
            )


def readable(arrow: pa.Schema) -> pa.Schema:
    """The schema to which a table in memory is cast before polars reads it, with decimals of widths polars has."""
    return pa.schema([column.with_type(_readable(column.type)) for column in arrow])


def _readable(dtype: pa.DataType) -> pa.DataType:
    narrow = is_type.is_decimal(dtype) and 0 <= dtype.scale <= dtype.precision <= 38
    return pa.decimal128(dtype.precision, dtype.scale) if narrow else dtype


def ordered_dictionaries(arrow: pa.Schema) -> list[str]:
    """The columns of text with ordered levels."""
    return [
        column.name
        for column in arrow
        if is_type.is_dictionary(column.type) and column.type.ordered and _is_text(column.type.value_type)
    ]


def levels_of(dictionaries: Iterable[pa.Array]) -> list[str]:
    """The levels of all parts of a column, in order, each once."""
    return list(dict.fromkeys(level for part in dictionaries for level in part.to_pylist() if level is not None))


def as_enums(frame: pl.LazyFrame, levels: Mapping[str, Sequence[str]]) -> pl.LazyFrame:
    """These columns as polars Enums: text with a given order."""
    if not levels:
        return frame
    return frame.with_columns(pl.col(name).cast(pl.String).cast(pl.Enum(order)) for name, order in levels.items())


def _is_text(dtype: pa.DataType) -> bool:
    return bool(is_type.is_string(dtype) or is_type.is_large_string(dtype) or is_type.is_string_view(dtype))


def _without_widths(dtype: pa.DataType) -> pa.DataType:
    """The type without the differences that the head of this module calls equivalent."""
    if isinstance(dtype, pa.BaseExtensionType):
        return pa.struct({dtype.extension_name: _without_widths(dtype.storage_type)})
    if is_type.is_dictionary(dtype):
        values = _without_widths(dtype.value_type)
        return pa.dictionary(pa.int32(), values, dtype.ordered) if _is_text(dtype.value_type) else values
    if dtype.num_fields:
        return _nested_without_widths(dtype)
    if _is_text(dtype):
        return pa.large_string()
    binary = is_type.is_binary(dtype) or is_type.is_binary_view(dtype)
    return pa.large_binary() if binary else dtype


def _parts(dtype: pa.DataType) -> list[pa.Field]:
    return [dtype.field(index) for index in range(dtype.num_fields)]


def _nested_without_widths(dtype: pa.DataType) -> pa.DataType:
    parts = [pa.field(part.name, _without_widths(part.type)) for part in _parts(dtype)]
    if is_type.is_struct(dtype):
        return pa.struct(parts)
    if is_type.is_map(dtype):
        return pa.map_(_without_widths(dtype.key_type), _without_widths(dtype.item_type))
    item = pa.field("item", parts[0].type)
    return pa.list_(item, dtype.list_size) if is_type.is_fixed_size_list(dtype) else pa.large_list(item)


@cache
def _is_zone(name: str) -> bool:
    """Whether polars knows a time zone; it knows fixed offsets of whole hours only."""
    try:
        pl.Series([], dtype=pl.Int64).cast(pl.Datetime("us", name))
    except pl.exceptions.PolarsError:
        return False
    return True


def _unknown(dtype: pa.DataType, reader: Reader) -> bool:
    if isinstance(dtype, pa.BaseExtensionType):
        return _unknown(dtype.storage_type, reader)
    if is_type.is_dictionary(dtype):
        return _unknown(dtype.value_type, reader)
    parts = _parts(dtype)
    return (
        is_type.is_interval(dtype)
        or is_type.is_union(dtype)
        or is_type.is_run_end_encoded(dtype)
        or is_type.is_list_view(dtype)
        or is_type.is_large_list_view(dtype)
        or (is_type.is_decimal256(dtype) and (reader != "parquet" or dtype.precision > 38))
        or (is_type.is_decimal(dtype) and (dtype.scale < 0 or (reader == "memory" and dtype != _readable(dtype))))
        or (is_type.is_timestamp(dtype) and bool(dtype.tz) and not _is_zone(dtype.tz))
        or (is_type.is_struct(dtype) and len({part.name for part in parts}) < len(parts))
        or any(_unknown(part.type, "memory" if reader == "ipc" else reader) for part in parts)
    )
