"""The file formats, as data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from calcli.errors import UsageError, unknown_name

Format: TypeAlias = Literal["parquet", "csv", "tsv", "ipc", "ndjson"]

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
    }
)
FORMATS: tuple[Format, ...] = get_args(Format)

SEPARATORS: Mapping[Format, str] = MappingProxyType({"csv": ",", "tsv": "\t"})
"""The formats without types, and the separators of their fields."""

COMPRESSIONS: Mapping[str, Literal["gzip", "zstd"]] = MappingProxyType({".gz": "gzip", ".zst": "zstd"})


def compression_of(path: str | Path) -> Literal["gzip", "zstd"] | None:
    """The compression of the whole file, by its last suffix."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def suffix_format(path: str | Path) -> Format | None:
    """The format that the suffix of a file names, if it is known."""
    name = Path(path)
    if name.suffix.lower() in COMPRESSIONS:
        name = name.with_suffix("")
    return SUFFIXES.get(name.suffix.lower())


def format_of(path: str | Path, given: str | None, *, flag: str = "--input-format/--output-format") -> Format:
    """The format of a file: the given one, or else that of its suffix."""
    if given is not None:
        for known in FORMATS:
            if given.lower() == known:
                return known
        raise UsageError(unknown_name("format", given, FORMATS), hint=f"{flag} takes one of {', '.join(FORMATS)}")
    if (by_suffix := suffix_format(path)) is not None:
        return by_suffix
    if str(path) == "-":
        raise UsageError("a stream has no suffix that tells its format", hint=f"name the format with {flag}")
    raise UsageError(
        f"{str(path)!r}: the suffix names no format; known are {', '.join(SUFFIXES)}",
        hint=f"name the format with {flag}",
    )
