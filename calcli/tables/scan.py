"""Typed tables as lazy frames: Parquet, Arrow IPC and memory, and the parts that other files share with them.

Each typed file is opened once, to check that it is what its suffix says, and to find its types and those that polars
changes. Then the files become one frame, by the cheaper of two ways:

- Parquet and Arrow IPC files of the same schema: one scan over all of them.
- Files whose types differ, Arrow's stream format, and a single file: a scan of each, cast to the common schema.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from calcli.errors import DataError
from calcli.tables.arrow_types import (
    ArrowTypes,
    as_enums,
    levels_of,
    ordered_dictionaries,
    parquet_names,
    readable,
    refuse_unknown_types,
)
from calcli.tables.paths import COMMAS, Dialect, Format, one_line, reading

PATH_COLUMN = "calcli: the path of this row's file"
"""The name of a column that exists inside a query only."""


@dataclass(frozen=True)
class LocalFile:
    """A regular, uncompressed file: an input, or the temporary copy of one."""

    path: Path
    name: str
    """Its name in messages."""

    format: Format
    constants: Mapping[str, str | None]
    """Columns that the directory names give, the same in every row."""

    dialect: Dialect = COMMAS
    """How a text file is written."""


def refuse_constants(file: LocalFile, names: Collection[str]) -> None:
    """Refuse a file with a column that its directory names give too."""
    both = [name for name in names if name in file.constants]
    if both:
        raise DataError(f"{file.name} has a column {both[0]!r}, and so have the directories above it")


def refuse_other_columns(file: LocalFile, names: Collection[str], first: LocalFile, expected: Collection[str]) -> None:
    """Refuse a file whose columns are not those of the first."""
    missing = [name for name in expected if name not in names]
    if missing:
        raise DataError(f"{file.name} has no column {missing[0]!r}, which {first.name} has")
    extra = [name for name in names if name not in expected]
    if extra:
        raise DataError(f"{file.name} has a column {extra[0]!r}, which {first.name} does not have")


def scan_frames(
    read: Callable[[Sequence[str]], Iterator[pl.DataFrame]], schema: Mapping[str, pl.DataType]
) -> pl.LazyFrame:
    """A lazy frame over the rows that `read` gives, for the columns that are needed, each time it is collected.

    polars leaves filters and limits to its sources.
    """

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        left = limit
        for frame in read(list(schema) if columns is None else columns):
            part = frame if left is None else frame.head(left)
            left = None if left is None else left - len(part)
            yield part if predicate is None else part.filter(predicate)
            if left == 0:
                return

    return register_io_source(frames, schema=dict(schema), is_pure=True)


@dataclass(frozen=True)
class Part:
    """One file, or a table in memory, as polars sees it."""

    frame: pl.LazyFrame
    schema: pl.Schema
    arrow_types: ArrowTypes
    """The parts of the schema that polars changes."""

    levels: Mapping[str, Sequence[str]]
    """The levels of the columns that are ordered dictionaries."""

    stream: bool
    """Whether it is in Arrow's stream format, which polars cannot scan."""

    @classmethod
    def of(
        cls, plain: pl.LazyFrame, arrow: pa.Schema, levels: Mapping[str, Sequence[str]], *, stream: bool = False
    ) -> Part:
        frame = as_enums(plain, levels)
        schema = frame.collect_schema()
        return cls(frame, schema, ArrowTypes.of(arrow, schema), levels, stream)


def scan_table(table: pa.Table, name: str) -> Part:
    """A table in memory, which is `name` in messages."""
    refuse_unknown_types(table.schema, name, "memory")
    levels = {
        column: levels_of([chunk.dictionary for chunk in table.column(column).chunks])
        for column in ordered_dictionaries(table.schema)
    }
    return Part.of(pl.DataFrame(table.cast(readable(table.schema))).lazy(), table.schema, levels)


def refuse_empty(file: LocalFile) -> None:
    if file.path.stat().st_size == 0:
        raise DataError(f"{file.name} is empty", hint="was it cut off while it was written?")


def check_columns(file: LocalFile, schema: Mapping[str, pl.DataType]) -> None:
    """Refuse a file without columns, or with one that the names of its directories give too."""
    if not schema:
        raise DataError(f"{file.name} has no columns")
    refuse_constants(file, schema)


def scan_typed(files: Sequence[LocalFile]) -> tuple[pl.LazyFrame, ArrowTypes]:
    """All rows of `files`, in order, and the types that polars changes in them."""
    kind = files[0].format
    # 1. open each file
    open_part = _open_parquet if kind == "parquet" else _open_ipc
    parts = []
    for file in files:
        with reading(file.name):
            refuse_empty(file)
            part = open_part(file)
        check_columns(file, part.schema)
        parts.append(part)
    # 2. the schema that holds the values of all of them
    target = common_schema(files, [part.schema for part in parts])
    arrow_types = ArrowTypes.common([part.arrow_types for part in parts])
    # 3. one frame
    alike = all(part.schema == target and not part.stream for part in parts)
    if alike and len(files) > 1:
        paths = PATH_COLUMN if files[0].constants else None
        scan: Any = pl.scan_parquet if kind == "parquet" else pl.scan_ipc
        # One scan costs polars much less than a scan of each.
        frame = scan([file.path for file in files], glob=False, hive_partitioning=False, include_file_paths=paths)
        return as_enums(_with_constants(frame, files), parts[0].levels), arrow_types
    return _one_by_one(files, parts, target), arrow_types


def _open_parquet(file: LocalFile) -> Part:
    from pyarrow.parquet import ParquetFile

    try:
        opened = ParquetFile(file.path)
    except pa.ArrowInvalid as error:
        raise _not_a(file, "a Parquet file", error) from error
    with opened:
        arrow = opened.schema_arrow
        refuse_unknown_types(arrow, file.name, "parquet")
        levels = {name: levels_of(_parquet_dictionaries(opened, name)) for name in ordered_dictionaries(arrow)}
        names = parquet_names(opened.metadata.metadata)
    part = Part.of(pl.scan_parquet(file.path, glob=False, hive_partitioning=False), arrow, levels)
    return replace(part, arrow_types=replace(part.arrow_types, names=names)) if names else part


def _parquet_dictionaries(opened: Any, name: str) -> Iterator[pa.Array]:
    """The dictionary of each row group, which its first row shows."""
    for group in range(opened.num_row_groups):
        for batch in opened.iter_batches(batch_size=1, row_groups=[group], columns=[name]):
            yield batch.column(0).dictionary
            break


def _open_ipc(file: LocalFile) -> Part:
    with file.path.open("rb") as start:
        magic = start.read(6)
    if magic[:4] == b"FEA1":
        raise DataError(f"{file.name} is a Feather file of version 1", hint="convert it to Arrow IPC")
    stream = magic != b"ARROW1"
    try:
        with pa.OSFile(str(file.path)) as opened:
            reader = pa.ipc.open_stream(opened) if stream else pa.ipc.open_file(opened)
            with reader:
                arrow = reader.schema
                refuse_unknown_types(arrow, file.name, "memory" if stream else "ipc")
                # the first batch has the levels of all, unless it is empty
                batches = reader if stream else map(reader.get_batch, range(reader.num_record_batches))
                names = ordered_dictionaries(arrow)
                first = next(iter(batches), None) if names else None
                levels = {name: levels_of([first.column(name).dictionary]) for name in names} if first else {}
    except (pa.ArrowInvalid, OSError) as error:
        raise _not_a(file, "an Arrow IPC file", error) from error
    plain = _scan_stream(file.path, arrow) if stream else pl.scan_ipc(file.path, glob=False, hive_partitioning=False)
    return Part.of(plain, arrow, levels, stream=stream)


def _scan_stream(path: Path, arrow: pa.Schema) -> pl.LazyFrame:
    """A file in Arrow's stream format, read batch by batch."""
    target = readable(arrow)

    def read(keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        kept = pa.schema([target.field(name) for name in keep])
        with pa.OSFile(str(path)) as opened, pa.ipc.open_stream(opened) as reader:
            for batch in reader:
                rows = batch.select(keep)
                yield pl.DataFrame(rows if target.equals(arrow) else pa.Table.from_batches([rows]).cast(kept))

    return scan_frames(read, pl.DataFrame(target.empty_table()).schema)


def _not_a(file: LocalFile, what: str, error: Exception) -> DataError:
    return DataError(
        f"{file.name} is not {what}, or was cut off: {one_line(error)}",
        hint="if it is in another format, name it with --input-format",
    )


def _one_by_one(files: Sequence[LocalFile], parts: Sequence[Part], target: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """A scan of each file, cast to the common schema, with its constants."""
    if len(files) == 1 and not files[0].constants:
        return parts[0].frame
    types = constant_types(files)
    return pl.concat(
        part.frame.select(pl.col(name).cast(dtype) for name, dtype in target.items()).with_columns(
            pl.lit(value, dtype=pl.String).cast(types[name]).alias(name) for name, value in file.constants.items()
        )
        for file, part in zip(files, parts, strict=True)
    )


def _with_constants(frame: pl.LazyFrame, files: Sequence[LocalFile]) -> pl.LazyFrame:
    """A scan over several files, with the constants of each file instead of its path."""
    types = constant_types(files)
    if not types:
        return frame
    paths = [str(file.path) for file in files]
    return frame.with_columns(
        pl.col(PATH_COLUMN)
        .replace_strict(paths, [file.constants[name] for file in files], return_dtype=pl.String)
        .cast(dtype)
        .alias(name)
        for name, dtype in types.items()
    ).drop(PATH_COLUMN)


def constant_types(files: Sequence[LocalFile]) -> dict[str, pl.DataType]:
    """The types of the constants: integers if all values are, else text."""
    types: dict[str, pl.DataType] = {}
    for name in files[0].constants:
        values = pl.Series([file.constants[name] for file in files], dtype=pl.String).drop_nulls()
        integers = len(values) > 0 and values.str.contains(r"^(0|-?[1-9]\d{0,17})$").all()
        types[name] = pl.Int64() if integers else pl.String()
    return types


def common_schema(files: Sequence[LocalFile], schemas: Sequence[Mapping[str, pl.DataType]]) -> dict[str, pl.DataType]:
    """The columns that all files have, in the first file's order, with the types that hold all their values."""
    target = dict(schemas[0])
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        refuse_other_columns(file, schema, files[0], target)
        for name, dtype in schema.items():
            wider = supertype(target[name], dtype)
            if wider is None:
                raise DataError(
                    f"column {name!r} is {dtype} in {file.name}, but {target[name]} in {files[0].name}",
                    hint="cast one of them, before",
                )
            target[name] = wider
    return target


def supertype(one: Any, two: Any, *, union: bool = False) -> pl.DataType | None:
    """The type that holds the values of both; None where only text could.

    With `union` a field may be absent from one of them.
    """
    if two in (one, pl.Null):
        return cast("pl.DataType", one)
    if one == pl.Null:
        return cast("pl.DataType", two)
    if union and isinstance(one, pl.List) and isinstance(two, pl.List):
        inner = supertype(one.inner, two.inner, union=union)
        return None if inner is None else pl.List(inner)
    if union and isinstance(one, pl.Struct) and isinstance(two, pl.Struct):
        fields: dict[str, Any] = {field.name: field.dtype for field in one.fields}
        for field in two.fields:
            fields[field.name] = supertype(fields.get(field.name, field.dtype), field.dtype, union=union)
        return None if None in fields.values() else pl.Struct(fields)
    if not (one.is_numeric() and two.is_numeric()):
        return None
    halves = [pl.DataFrame(schema={"both": dtype}) for dtype in (one, two)]
    return pl.concat(halves, how="vertical_relaxed").schema["both"]
