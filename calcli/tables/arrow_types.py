"""Arrow types that polars does not have, and what else of an Arrow schema polars forgets.

polars reads such a column as the nearest type it has, with every value kept, and the sink casts it back. A type for
which neither works is refused by name before anything is computed.

Some types come back different but equivalent: the width of offsets may change (string and large_string, list and
large_list), levels of an unordered dictionary that no row uses may go, and a dictionary of anything but text becomes
plain values. Dictionaries keep their order, and the type of their indices as long as it can count the levels.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

import polars as pl
import pyarrow as pa
from pyarrow import types as is_type

from calcli.errors import DataError

Reader: TypeAlias = Literal["parquet", "ipc", "memory"]
"""How polars gets a table: from files that it reads by itself, or from pyarrow's memory."""

OLDEST = pl.CompatLevel.oldest()
"""Has polars write types that other readers know: large_string, not string_view."""


COMPLETE = (b"org.apache.spark.", b"parquet.avro.schema", b"avro.schema", b"iceberg.schema")
"""How metadata begin that list all columns of a table: their readers would not see the columns that are added."""

Metadata: TypeAlias = Mapping[bytes, bytes]


@dataclass(frozen=True)
class ArrowTypes:
    """The parts of a table's Arrow schema that polars changes, for the sink to restore."""

    types: Mapping[str, pa.DataType] = field(default_factory=dict)
    """The original types of columns."""

    never_null: frozenset[str] = frozenset()
    """The columns that are declared to have no nulls."""

    notes: Mapping[str, Metadata] = field(default_factory=dict)
    """The metadata of columns."""

    metadata: Metadata = field(default_factory=dict)
    """The metadata of the table: the index of pandas, the geometry of a map, keys of the owner."""

    names: tuple[str, ...] = ()
    """The columns of integers that are kept as dictionaries, as pandas keeps its categories."""

    @classmethod
    def of(cls, arrow: pa.Schema, schema: pl.Schema) -> ArrowTypes:
        """The parts of the Arrow schema that change when polars reads it as `schema`."""
        ours = arrow_schema(schema)
        pairs = [(column, ours.field(column.name)) for column in arrow]
        notes = {
            column.name: dict((column.metadata or {}).items() - (own.metadata or {}).items()) for column, own in pairs
        }
        return cls(
            {column.name: found for column, own in pairs if (found := _to_restore(column.type, own.type)) is not None},
            frozenset(column.name for column in arrow if not column.nullable),
            {name: note for name, note in notes.items() if note},
            {key: value for key, value in (arrow.metadata or {}).items() if not key.startswith(COMPLETE)},
            integer_names(arrow),
        )

    @classmethod
    def common(cls, parts: Sequence[ArrowTypes]) -> ArrowTypes:
        """The types of a table of several parts."""
        first, *others = parts
        return cls(
            {name: dtype for part in reversed(parts) for name, dtype in part.types.items()},
            first.never_null.intersection(*(part.never_null for part in others)),
            first.notes,
            {
                key: value
                for key, value in first.metadata.items()
                if all(part.metadata.get(key) == value for part in others)
            },
            tuple(dict.fromkeys(name for part in parts for name in part.names)),
        )

    def declared(self, names: Collection[str]) -> bool:
        """Whether there is something beside types to restore in a table with these columns."""
        return bool(self.metadata) or any(name in self.never_null or name in self.notes for name in names)

    def restored(self, rows: pa.Schema, levels: Mapping[str, int]) -> pa.Schema:
        """The schema for rows that polars wrote; `levels` are the numbers of levels of dictionaries."""
        return pa.schema([self._field(column, levels.get(column.name, 0)) for column in rows], self.metadata)

    def _field(self, column: pa.Field, levels: int) -> pa.Field:
        dtype = self.types.get(column.name, column.type)
        if is_type.is_dictionary(dtype) and levels > 1 << (dtype.index_type.bit_width - 1):  # half of what uint8 counts
            dtype = pa.dictionary(pa.int32(), dtype.value_type, dtype.ordered)
        own = {} if column.name in self.types else column.metadata or {}
        note = {**own, **self.notes.get(column.name, {})}
        return pa.field(column.name, dtype, column.name not in self.never_null, note or None)


def _to_restore(arrow: pa.DataType, ours: pa.DataType) -> pa.DataType | None:
    """The type that polars does not write by itself; None if it does."""
    if _without_widths(arrow) != _without_widths(ours):
        return arrow
    both = is_type.is_dictionary(arrow) and is_type.is_dictionary(ours)
    if both and arrow.index_type != ours.index_type:
        return pa.dictionary(arrow.index_type, ours.value_type, arrow.ordered)
    return None


def integer_names(arrow: pa.Schema) -> tuple[str, ...]:
    """The columns of dictionaries of integers."""
    found = (column for column in arrow if is_type.is_dictionary(column.type))
    return tuple(column.name for column in found if is_type.is_integer(column.type.value_type))


def parquet_names(metadata: Metadata | None) -> tuple[str, ...]:
    """These columns of a Parquet file: pyarrow reads them as plain integers, and its metadata keep their types."""
    stored = (metadata or {}).get(b"ARROW:schema")
    try:
        return () if stored is None else integer_names(pa.ipc.read_schema(pa.BufferReader(b64decode(stored))))
    except (pa.ArrowException, ValueError):
        return ()


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
