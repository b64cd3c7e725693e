"""Parquet, Arrow IPC and NDJSON as lazy frames."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl
import pyarrow as pa
import pyarrow.parquet
from polars.io.plugins import register_io_source

from calcli.errors import DataError
from calcli.tables.carry import ArrowTypes, types_to_restore
from calcli.tables.formats import Format
from calcli.tables.trouble import one_line, reading

PATH_COLUMN = "calcli: the path of this row's file"
"""A name for a column that lives inside a query only."""

Schema: TypeAlias = dict[str, pl.DataType]


@dataclass(frozen=True)
class TypedFile:
    """One file whose columns have types.

    Attributes
    ----------
    path
        Where it is.
    name
        What messages call it.
    constants
        Columns that the directory names give, the same in every row.
    """

    path: Path
    name: str
    constants: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Scanned:
    """A lazy frame over one or several files, and the types that polars changes in them."""

    frame: pl.LazyFrame
    arrow_types: ArrowTypes


def scan_typed(files: Sequence[TypedFile], format: Format) -> Scanned:  # noqa: A002: the word of the command line
    """All rows of `files`, in order."""
    arrow_types: dict[str, pa.DataType] = {}
    schemas: list[Schema] = []
    streams = False
    for file in files:
        with reading(file.name):
            if format != "ndjson":
                arrow, stream = _arrow_schema(file, format)
                arrow_types.update(types_to_restore(arrow, file.name))
                streams = streams or stream
            schema = dict(_scan_one(file.path, format).collect_schema())
        if not schema:
            raise DataError(f"{file.name} has no columns")
        both = [name for name in schema if name in file.constants]
        if both:
            raise DataError(f"{file.name} has a column {both[0]!r}, and so have the directories above it")
        schemas.append(schema)
    target = _common_schema(files, schemas, union=format == "ndjson")
    if format == "ndjson":
        return Scanned(_with_constants(_scan_ndjson(files, target), files), {})
    if streams or any(schema != target for schema in schemas):
        return Scanned(_one_by_one(files, format, target), arrow_types)
    return Scanned(_with_constants(_scan_all(files, format), files), arrow_types)


def _arrow_schema(file: TypedFile, format: Format) -> tuple[pa.Schema, bool]:  # noqa: A002
    """The schema in the file's own types, and whether it is a stream that has to be read from its start."""
    if file.path.stat().st_size == 0:
        raise DataError(f"{file.name} is empty", hint="was it cut off while it was written?")
    if format == "parquet":
        try:
            return pyarrow.parquet.read_schema(file.path), False
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{file.name} is not a Parquet file, or was cut off: {one_line(error)}",
                hint="name its format with --input-format if it is another one",
            ) from error
    with file.path.open("rb") as stream:
        magic = stream.read(6)
    if magic[:4] == b"FEA1":
        raise DataError(f"{file.name} is a Feather file of version 1", hint="write it again as Arrow IPC")
    try:
        if magic == b"ARROW1":
            with pa.ipc.open_file(str(file.path)) as reader:
                return reader.schema, False
        with pa.OSFile(str(file.path)) as opened, pa.ipc.open_stream(opened) as reader:
            return reader.schema, True
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(
            f"{file.name} is not an Arrow IPC file, or was cut off: {one_line(error)}",
            hint="name its format with --input-format if it is another one",
        ) from error


def _scan_one(path: Path, format: Format) -> pl.LazyFrame:  # noqa: A002
    if format == "parquet":
        return pl.scan_parquet(path, glob=False, hive_partitioning=False)
    if format == "ndjson":
        return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None)
    if path.open("rb").read(6) == b"ARROW1":
        return pl.scan_ipc(path, glob=False, hive_partitioning=False)
    return _scan_stream(path)


def _scan_stream(path: Path) -> pl.LazyFrame:
    """Arrow's stream format, which polars reads only whole."""

    def rows(
        wanted: list[str] | None, predicate: pl.Expr | None, limit: int | None, _batch: int | None
    ) -> Iterator[pl.DataFrame]:
        left = limit
        with pa.OSFile(str(path)) as opened, pa.ipc.open_stream(opened) as reader:
            for batch in reader:
                frame = pl.DataFrame(batch if wanted is None else batch.select(wanted))
                frame = frame if left is None else frame.head(left)
                left = None if left is None else left - len(frame)
                yield frame if predicate is None else frame.filter(predicate)
                if left == 0:
                    return

    with pa.OSFile(str(path)) as opened, pa.ipc.open_stream(opened) as reader:
        schema = pl.DataFrame(reader.schema.empty_table()).schema
    return register_io_source(rows, schema=schema, is_pure=True)


def _scan_all(files: Sequence[TypedFile], format: Format) -> pl.LazyFrame:  # noqa: A002
    """Files of one schema; one scan over all of them costs polars less than a scan each."""
    options: dict[str, Any] = {"glob": False, "hive_partitioning": False}
    if any(file.constants for file in files):
        options["include_file_paths"] = PATH_COLUMN
    paths = [file.path for file in files]
    return pl.scan_parquet(paths, **options) if format == "parquet" else pl.scan_ipc(paths, **options)


def _scan_ndjson(files: Sequence[TypedFile], target: Schema) -> pl.LazyFrame:
    # With the schema given, polars does not infer it anew from all rows each time the frame is collected.
    paths = [glob.escape(str(file.path)) for file in files]
    with_paths = PATH_COLUMN if any(file.constants for file in files) else None
    return pl.scan_ndjson(paths, schema=target, include_file_paths=with_paths)


def _one_by_one(files: Sequence[TypedFile], format: Format, target: Schema) -> pl.LazyFrame:  # noqa: A002
    types = _constant_types(files)
    casts = [pl.col(name).cast(dtype) for name, dtype in target.items()]
    return pl.concat(
        _scan_one(file.path, format)
        .select(casts)
        .with_columns(
            pl.lit(value, dtype=pl.String).cast(types[name]).alias(name) for name, value in file.constants.items()
        )
        for file in files
    )


def _with_constants(frame: pl.LazyFrame, files: Sequence[TypedFile]) -> pl.LazyFrame:
    types = _constant_types(files)
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


def _constant_types(files: Sequence[TypedFile]) -> Schema:
    """Directory names of integers make an integer column, all others text."""
    types: Schema = {}
    for name in files[0].constants:
        values = pl.Series([file.constants[name] for file in files], dtype=pl.String).drop_nulls()
        plain = bool(values.str.contains(r"^(0|-?[1-9]\d{0,17})$").all())
        types[name] = pl.Int64() if plain and len(values) else pl.String()
    return types


def _common_schema(files: Sequence[TypedFile], schemas: Sequence[Schema], *, union: bool) -> Schema:
    """The columns that all files have, in the first file's order, with the types that hold all their values.

    With `union` a column may be absent from some of the files (JSON often leaves out what is null).
    """
    target = dict(schemas[0])
    for file, schema in zip(files[1:], schemas[1:], strict=True):
        missing = [name for name in target if name not in schema]
        extra = [name for name in schema if name not in target]
        if missing and not union:
            raise DataError(f"{file.name} has no column {missing[0]!r}, which {files[0].name} has")
        if extra and not union:
            raise DataError(f"{file.name} has a column {extra[0]!r}, which {files[0].name} has not")
        for name, dtype in schema.items():
            target[name] = _supertype(target.get(name, dtype), dtype, name, file.name, files[0].name)
    return target


def _supertype(one: pl.DataType, two: pl.DataType, column: str, name: str, first: str) -> pl.DataType:
    if one == two or two == pl.Null:
        return one
    if one == pl.Null:
        return two
    if one.is_numeric() and two.is_numeric():
        both = pl.concat(
            [pl.Series([], dtype=one).to_frame("x"), pl.Series([], dtype=two).to_frame("x")], how="vertical_relaxed"
        )
        return both.schema["x"]
    raise DataError(f"column {column!r} is {two} in {name}, but {one} in {first}", hint="cast one of them, before")
