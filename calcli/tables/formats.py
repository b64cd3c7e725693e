"""The file formats: their names, suffixes and separators."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from calcli.errors import UsageError, unknown_name

Format: TypeAlias = Literal["parquet", "csv", "tsv", "ipc", "ndjson", "json"]

SUFFIXES: Mapping[str, Format] = MappingProxyType(
    {
        ".parquet": "parquet",
        ".pq": "parquet",
        ".csv": "csv",
        ".tsv": "tsv",
        ".tab": "tsv",
        ".ipc": "ipc",
        ".arrow": "ipc",
        ".arrows": "ipc",
        ".feather": "ipc",
        ".ndjson": "ndjson",
        ".jsonl": "ndjson",
        ".json": "json",
    }
)
FORMATS: tuple[Format, ...] = get_args(Format)

SEPARATORS: Mapping[Format, str] = MappingProxyType({"csv": ",", "tsv": "\t"})
"""The separators of fields in the formats without types."""

JSON: tuple[Format, ...] = ("ndjson", "json")
"""The formats with an object in each line, or an array of objects; a file that is read tells by its first byte."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a text file is written."""

    separator: str
    commas: frozenset[str] = frozenset()
    """The columns of numbers with decimal commas."""

    declared: bool = False
    """Whether a line ``sep=;`` stands before the names, as for Excel."""


def check_delimiter(given: str | None, kind: Format) -> str | None:
    """The separator of fields that a flag gives; a tab can be written as in C."""
    if given is None:
        return None
    separator = "\t" if given == "\\t" else given
    if len(separator) != 1 or not separator.isascii() or separator in '"\r\n\0':
        raise UsageError(f"--delimiter takes one letter, not {given!r}", hint="such as ';'")
    if kind not in SEPARATORS:
        raise UsageError(f"--delimiter is for CSV, and the table is {kind}", hint="leave it out")
    return separator


COMMAS = Dialect(",")
"""CSV in its default form."""

COMPRESSIONS: Mapping[str, Literal["gzip", "zstd"]] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})


def compression_of(path: str | os.PathLike[str]) -> Literal["gzip", "zstd"] | None:
    """The compression of the whole file, by its last suffix."""
    return COMPRESSIONS.get(PurePosixPath(path).suffix.lower())


def suffix_format(path: str | os.PathLike[str]) -> Format | None:
    """The format that the suffix of a file names; None for an unknown suffix."""
    name = PurePosixPath(path)
    if name.suffix.lower() in COMPRESSIONS:
        name = name.with_suffix("")
    return SUFFIXES.get(name.suffix.lower())


def format_of(
    path: str | os.PathLike[str],
    given: str | None,
    *,
    flag: str = "--input-format/--output-format",
    stream: Format | None = None,
) -> Format:
    """The format of a file: the given one, or else that of its suffix; a stream has the format `stream`."""
    if given is not None:
        for known in FORMATS:
            if given.lower() == known:
                return known
        raise UsageError(f"{flag}: {unknown_name('format', given, FORMATS)}")
    if (by_suffix := suffix_format(path)) is not None:
        return by_suffix
    if str(path) == "-":
        if stream is not None:
            return stream
        raise UsageError("a stream has no suffix that gives its format", hint=f"name the format with {flag}")
    raise UsageError(
        f"{str(path)!r}: unknown suffix; known are {', '.join(SUFFIXES)}",
        hint=f"name the format with {flag}",
    )
