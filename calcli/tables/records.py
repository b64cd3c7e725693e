"""Records of JSON, an object in each line: typed columns of what is used, and the text of what passes through.

A file is checked once, when it is opened: polars infers the types from all rows, and pyarrow refuses a key that stands
in a record twice, or has values of two types. What either of them refuses is read again by Python's parser, which knows
the line. A key with values of two types is an error where it is used, and nowhere else.

The text of a record is a column too (`RECORD`): `apply` writes it with keys added (`extended`), so that numbers beyond
2^53 and absent keys stay what they are.
"""

from __future__ import annotations

import glob
import json
import re
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from calcli.errors import DataError
from calcli.tables.paths import BLANK, LIBRARY_ERRORS, one_line, reading
from calcli.tables.scan import LocalFile, check_columns, constant_types, refuse_empty, scan_frames, supertype

RECORD = "calcli: the text of this record"
"""The name of a column that exists inside a query only; `Source.columns` does not have it."""

BLOCK = 1 << 23
"""The number of bytes that are read at a time."""

CHECKED_BLOCK = 1 << 24
"""The number of bytes that pyarrow reads at a time; it refuses a record that is longer."""

KINDS: Mapping[type, str] = {
    str: "text",
    bool: "a boolean",
    float: "a number",
    list: "a list",
    dict: "an object",
}

ONE_TYPE = "write its values with one type, or leave it out with --ignore or --keep"

_TEXT = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_MEMBER = re.compile(rf'[\s,]*({_TEXT})\s*:\s*({_TEXT}|[^\[{{",}}\s][^,}}\s]*)?')
"""A key and its value, which is left out if it is an object or a list."""

_TEXTS = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
"""Numbers stay text: Python refuses those of more than 4,300 digits."""


MIXED = "it mixes types"
"""Why a column is no feature."""


def scan_records(files: Sequence[LocalFile]) -> tuple[pl.LazyFrame, Mapping[str, DataError]]:
    """All rows of `files`, in order, with `RECORD` as the first column; and the error of each column that mixes types.

    The rows are read each time the frame is collected. A column may be absent from some of the files, or of the
    records: JSON often leaves out what is null.
    """
    schema: dict[str, pl.DataType] = {}
    mixed: dict[str, DataError] = {}
    for file in files:
        with reading(file.name):
            refuse_empty(file)
            found, why = _look(file)
        check_columns(file, found)
        mixed = {name: DataError(words, hint=ONE_TYPE) for name, words in why.items()} | mixed
        for name, dtype in found.items():
            wider = supertype(schema.get(name, dtype), dtype, union=True)
            if wider is None:
                words = f"column {name!r} is {dtype} in {file.name}, but {schema[name]} in {files[0].name}"
                mixed.setdefault(name, DataError(words, hint=ONE_TYPE))
            schema[name] = wider or pl.String()
    constants = constant_types(files)

    def read(keep: Sequence[str]) -> Iterator[pl.DataFrame]:
        for name in keep:
            if name in mixed:
                raise mixed[name]
        wanted = {name: schema[name] for name in keep if name in schema}
        for file in files:
            values = [pl.lit(file.constants[name], pl.String).cast(constants[name]).alias(name) for name in constants]
            with reading(file.name):
                for frame in _frames(file, wanted, text=RECORD in keep or not wanted):
                    yield frame.with_columns(values).select(keep)

    return scan_frames(read, {RECORD: pl.String(), **schema, **constants}), mixed


def _frames(file: LocalFile, wanted: Mapping[str, pl.DataType], *, text: bool) -> Iterator[pl.DataFrame]:
    """The rows of a file in chunks: the columns that are wanted, and the text."""
    for block in _blocks(file.path):
        try:
            frame = pl.read_ndjson(block, schema=wanted) if wanted else pl.DataFrame()
        except LIBRARY_ERRORS:
            _explained(file)
            raise
        if text:
            lines = pl.Series(RECORD, [block.decode()]).str.split("\n").explode().str.strip_chars(BLANK)
            lines = lines.filter(lines != "")
            if wanted and len(lines) != len(frame):
                raise DataError(f"{file.name} has lines that are no objects")
            frame = frame.with_columns(lines) if wanted else lines.to_frame()
        yield frame


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file in blocks of whole lines that are not blank."""
    rest: list[bytes] = []
    with path.open("rb") as stream:
        while part := stream.read(BLOCK):
            end = part.rfind(b"\n") + 1
            if end:
                yield b"".join([*rest, part[:end]])
                rest = []
            rest.append(part[end:])
    if last := b"".join(rest).strip(BLANK.encode()):
        yield last


def _look(file: LocalFile) -> tuple[Mapping[str, pl.DataType], Mapping[str, str]]:
    """The columns of a file, after every check, and why those cannot be read that mix types."""
    schema, refusal = None, None
    try:
        schema = _inferred(file.path)
        _check(file.path, schema)
    except LIBRARY_ERRORS as error:
        refusal = error
    if refusal is None and schema is not None:
        return schema, {}
    names, mixed = _explained(file)
    if mixed:
        good = frozenset(names).difference(mixed)
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "rows"
            with copy.open("w", encoding="utf-8", newline="\n") as stream:
                stream.writelines(cut(line, good) + "\n" for _, line in _lines(file.path))
            inferred = _inferred(copy)
        return {name: pl.String() if name in mixed else inferred[name] for name in names}, mixed
    if schema is None:
        assert refusal is not None
        raise refusal
    return schema, {}  # pyarrow has limits that neither polars nor Python has


def _inferred(path: Path) -> pl.Schema:
    return pl.scan_ndjson(glob.escape(str(path)), infer_schema_length=None).collect_schema()


def _check(path: Path, schema: Mapping[str, pl.DataType]) -> None:
    """Refuse a key that stands in a record twice, or has values of two types, at any depth.

    polars takes the first of two values, and turns numbers beside text into text.
    """
    from pyarrow import json as arrow_json

    arrow = pa.schema([(name, _plain(dtype)) for name, dtype in schema.items()])
    for _ in arrow_json.open_json(
        str(path),
        read_options=arrow_json.ReadOptions(block_size=CHECKED_BLOCK),
        parse_options=arrow_json.ParseOptions(explicit_schema=arrow, unexpected_field_behavior="ignore"),
    ):
        pass


def _plain(dtype: Any) -> pa.DataType:
    """The type of pyarrow with the same kind of values in JSON."""
    if isinstance(dtype, pl.Struct):
        return pa.struct([(field.name, _plain(field.dtype)) for field in dtype.fields])
    if isinstance(dtype, pl.List):
        return pa.list_(_plain(dtype.inner))
    if dtype == pl.String:
        return pa.string()
    if dtype == pl.Boolean:
        return pa.bool_()
    return pa.null() if dtype == pl.Null else pa.float64()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers."""
    with path.open(encoding="utf-8", newline="\n") as stream:
        for number, line in enumerate(stream, 1):
            if text := line.strip(BLANK):
                yield number, text


def _explained(file: LocalFile) -> tuple[list[str], dict[str, str]]:
    """The keys of a file, and those that mix types; an error for a line that is no record."""
    decoder = json.JSONDecoder(object_pairs_hook=_once, strict=False, parse_int=float)
    seen: dict[str, tuple[str, int]] = {}
    names: dict[str, None] = {}
    mixed: dict[str, str] = {}
    for number, line in _lines(file.path):
        try:
            record = decoder.decode(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{file.name}, line {number}: {one_line(error)}", hint="was it cut off?") from error
        except _TwiceError as error:
            raise DataError(
                f"{file.name}, line {number}: the key {error.args[0]!r} stands twice in one record",
                hint="rename one of them",
            ) from error
        except RecursionError as error:
            raise DataError(f"{file.name}, line {number} is nested too deeply") from error
        if not isinstance(record, dict):
            raise DataError(f"{file.name}, line {number} is no object", hint="a record is an object in one line")
        names.update(dict.fromkeys(record))
        for name, value in record.items():
            for key, kind in _kinds(name, value):
                first, above = seen.setdefault(key, (kind, number))
                if kind != first and name not in mixed:
                    mixed[name] = (
                        f"{file.name} mixes types: {key!r} is {first} in line {above}, {kind} in line {number}"
                    )
    return [*names], mixed


class _TwiceError(ValueError):
    """A key that stands twice in one object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return found


def _kinds(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """The kind of a value, and of each of its parts; null is of every kind."""
    if value is not None:
        yield key, KINDS[type(value)]
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _kinds(f"{key}.{name}", part)
    elif isinstance(value, list):
        for part in value:
            yield from _kinds(f"{key}[]", part)


def cut(record: str, keep: Collection[str]) -> str:
    """The record with these keys alone, each as it was written."""
    kept: list[str] = []
    position = record.index("{") + 1
    while len(kept) < len(keep) and (member := _MEMBER.match(record, position)):
        name, value = member.groups()
        start, position = member.start(1), member.end()
        if value is None:
            _, position = _TEXTS.raw_decode(record, position)
        if (_TEXTS.decode(name) if "\\" in name else name[1:-1]) in keep:
            kept.append(record[start:position])
    return "{" + ", ".join(kept) + "}"


def extended(frame: pl.LazyFrame, added: Sequence[str], keep: Collection[str] | None) -> pl.LazyFrame:
    """The text of each record, with columns of the frame as further keys; None keeps all of its own."""
    record = pl.col(RECORD)
    if keep is not None:
        names = frozenset(keep)

        def shorter(records: pl.Series) -> pl.Series:
            return pl.Series([cut(each, names) for each in records], dtype=pl.String)

        record = record.map_batches(shorter, return_dtype=pl.String, is_elementwise=True) if names else pl.lit("{}")
    start = record.str.strip_suffix("}").str.strip_chars_end(BLANK)
    comma = pl.when(start == "{").then(pl.lit("")).otherwise(pl.lit(","))
    further = pl.struct(added).struct.json_encode().str.slice(1)
    return frame.select(pl.concat_str(start, comma, further).alias(RECORD))
