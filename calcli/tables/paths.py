"""The files that paths, globs, directories, URLs and ``-`` stand for, and their formats.

A format has a name, suffixes and a separator; the errors of its reader become calcli's own.
"""

from __future__ import annotations

import errno
import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath, PurePosixPath
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args
from urllib.parse import unquote

import polars as pl
import pyarrow as pa

from calcli.errors import ClosedPipeError, DataError, FileSystemError, UsageError, nearest, unknown_name
from calcli.files import as_text
from calcli.places import Database, Lake, Place, Url, external_tables, place, stores

STDIN = "-"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class InputFile:
    """One file to read."""

    path: Place | None
    """None for standard input. The rows of a database are one file."""

    format: Format
    partition: Mapping[str, str | None] = field(default_factory=dict)
    """The columns that the directories above it give (``day=2024-01-01``)."""

    @property
    def name(self) -> str:
        return "<stdin>" if self.path is None else str(self.path)


@dataclass(frozen=True)
class Inputs:
    """The input files, all of one format."""

    files: tuple[InputFile, ...]
    stem: str | None
    """The name of a single file without suffixes."""

    separator: str | None = None
    """The separator of fields, if a flag gives one."""

    @property
    def format(self) -> Format:
        return self.files[0].format

    @property
    def name(self) -> str:
        first = self.files[0].name
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"

    def have(self, target: Path) -> bool:
        """Whether a file that is to be written is one of them."""
        here = (file.path for file in self.files if isinstance(file.path, Path))
        return target.exists() and any(map(target.samefile, here))


def find_inputs(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    given: str | None,
    last: int | None = None,
    delimiter: str | None = None,
) -> Inputs:
    """The files that paths, globs, directories, URLs and ``-`` stand for, in order: all, or the last ones.

    `given` is the format and `delimiter` the separator of fields that flags name.
    """
    items = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not items:
        raise UsageError("no input", hint="name a file, a glob, a directory, or - for standard input")
    if "" in map(str, items):
        raise UsageError("the name of the table is empty", hint="is a shell variable not set?")
    named = [None if os.fspath(item) == STDIN else place(item) for item in items]
    files = [file for where in named for file in _find(where, given)][-(last or 0) :]
    _check_together(files)
    first, named_first = files[0].path, named[0]
    if isinstance(named_first, Path):
        below = named_first.is_dir()
    else:
        below = first != named_first and not glob.has_magic(str(named_first))
    stem = None
    if first is not None and not below and len(files) == 1:
        stem = first.name[:1] + first.name[1:].split(".")[0]
    return Inputs(tuple(files), stem, check_delimiter(delimiter, files[0].format))


def is_workbook(path: Place | None) -> bool:
    """Whether the name of a file is that of a workbook, whose first sheet is a table."""
    return path is not None and PurePath(path).suffix.lower() in WORKBOOKS


def _file(path: Path | Url | None, given: str | None) -> InputFile:
    if given is None and is_workbook(path):
        return InputFile(path, "parquet")  # the format in which `Spool` keeps its rows
    return InputFile(path, format_of(STDIN if path is None else path, given, flag="--input-format"))


def _find(path: Path | Url | Database | None, given: str | None) -> list[InputFile]:
    if isinstance(path, Database):
        return [InputFile(path, "parquet")]  # the format in which `Spool` keeps its rows
    if isinstance(path, Url):
        try:
            return _objects(path, given)
        except FileNotFoundError as error:  # the bucket
            raise DataError(f"there is no '{path}': {error.strerror}") from None
    if path is None:
        return [_file(None, given)]
    item = str(path)
    if path.is_dir():
        inside = [file for file in sorted(path.rglob("*")) if file.is_file()]
        return _below(path, {str(file.relative_to(path)): file for file in inside}, given)
    if path.exists():
        return [_file(path, given)]
    if glob.has_magic(item):
        matches = [Path(match) for match in sorted(glob.glob(item, recursive=True))]  # noqa: PTH207 patterns may be absolute
        files = [match for match in matches if not match.is_dir()]
        if not files:
            what = f"matches {len(matches)} directories and no file" if matches else "matches nothing"
            raise DataError(f"the pattern {item!r} {what}", hint="quote patterns, and let them end in a file name")
        return [_file(match, given) for match in files]
    raise _missing(path)


def _objects(url: Url, given: str | None) -> list[InputFile]:
    """The object of a name, or the objects that match a pattern, or those below a name."""
    if glob.has_magic(url.key):
        parts = PurePosixPath(url.key).parts
        fixed = next(count for count, part in enumerate(parts) if glob.has_magic(part))
        base = Url("/".join([url.root, *parts[:fixed]]))
        below = len(PurePosixPath(base.key).parts)
        files = [
            entry.url
            for entry in stores.listing(base)
            if _matches(PurePosixPath(entry.url.key).parts[below:], parts[fixed:])
        ]
        if not files:
            raise DataError(f"the pattern '{url}' matches nothing", hint="quote patterns, and let them end in a name")
        return [_file(match, given) for match in files]
    if not url.web and (url.text.endswith("/") or not (url.key and stores.version(url))):
        names = {entry.url: entry.url.key.removeprefix(f"{url.key}/") for entry in stores.listing(url)}
        inside = {str(PurePosixPath(name)): found for found, name in names.items()}
        if not inside:
            raise DataError(f"there is no object '{url}', and none below it")
        return _below(url, inside, given)
    return [_file(url, given)]


def _below(where: Path | Url, inside: Mapping[str, Path | Url], given: str | None) -> list[InputFile]:
    """The tables in a directory, whose files `inside` has by name; a table of Delta or Iceberg is one input."""
    kind = external_tables.lake_kind(inside)
    if kind is not None:
        return [InputFile(Lake(where, kind, tuple(inside)), "parquet")]
    found = _tables(map(PurePosixPath, inside), given, str(where))
    return [InputFile(inside[str(path)], known, _partition(path)) for path, known in found]


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a name matches a pattern, part by part; ``**`` stands for any number of parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[skipped:], pattern[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])


def _missing(path: Path) -> DataError:
    if path.is_symlink():
        return DataError(f"{str(path)!r} is a broken or circular symbolic link")
    folder = path.parent
    if not folder.is_dir():
        return DataError(f"no file {str(path)!r}: there is no directory {str(folder)!r}")
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError:
        names = []
    tables = [name for name in names if suffix_format(name)]
    match = nearest(path.name, names)
    there = ", ".join(tables[:8]) + (f", and {len(tables) - 8} more" if len(tables) > 8 else "")
    return DataError(
        f"no file {str(path)!r}; {str(folder)!r} contains {there or 'no table'}",
        hint=f"did you mean {str(folder / match)!r}?" if match else None,
    )


def _tables(paths: Iterable[PurePath], given: str | None, folder: str) -> list[tuple[PurePath, Format]]:
    """The tables among the files below a directory; a name that begins with a dot or an underscore is hidden."""
    inside = [path for path in paths if not any(part.startswith((".", "_")) for part in path.parts)]
    if given is not None:
        wanted = format_of(folder, given, flag="--input-format")
        named = [path for path in inside if suffix_format(path) == wanted] or [p for p in inside if not p.suffix]
        tables = [(path, wanted) for path in named]
    else:
        # Beside tables .json describes them; only a flag makes it one.
        tables = [(path, known) for path in inside if (known := suffix_format(path)) not in (None, "json")]
    if not tables:
        raise DataError(
            f"the directory {folder!r} holds no table; known suffixes are {', '.join(SUFFIXES)}",
            hint=None if given else "name the format of other files with --input-format",
        )
    counts = Counter(known for _, known in tables)
    if len(counts) > 1:
        listed = " and ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        raise DataError(
            f"the directory {folder!r} holds files of several formats: {listed}", hint="choose with --input-format"
        )
    return tables


def _partition(path: PurePath) -> dict[str, str | None]:
    """The columns and values that directories such as ``day=2024-01-01`` give."""
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    if any(as_text(part) != part for pair in pairs for part in pair):
        raise DataError(
            f"the directories above {str(path)!r} name a column in bytes that are not UTF-8", hint="rename them"
        )
    return {unquote(key): None if value == HIVE_NULL else unquote(value) for key, value in pairs}


def _check_together(files: Sequence[InputFile]) -> None:
    """Refuse files of different formats or partitions, and a file that is named twice."""
    if sum(file.path is None for file in files) > 1:
        raise UsageError("standard input is named twice", hint="name - once")
    real = [os.path.realpath(file.path) if isinstance(file.path, Path) else file.path for file in files]
    seen = Counter(real)
    for file, path in zip(files, real, strict=True):
        if path is not None and seen[path] > 1:
            raise UsageError(f"{file.name} is named twice", hint="name it once, so that its rows do not count twice")
    first = files[0]
    for other in files[1:]:
        if other.format != first.format:
            raise UsageError(
                f"inputs of two formats: {first.name} is {first.format}, {other.name} is {other.format}",
                hint="convert one of them, or run calcli twice",
            )
        if other.partition.keys() != first.partition.keys():
            raise DataError(
                f"the directories above {other.name} name the columns {sorted(other.partition)}, "
                f"those above {first.name} {sorted(first.partition)}"
            )


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
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")

FORMATS: tuple[Format, ...] = get_args(Format)

SEPARATORS: Mapping[Format, str] = MappingProxyType({"csv": ",", "tsv": "\t"})
"""The separators of fields in the formats without types."""

JSON: tuple[Format, ...] = ("ndjson", "json")
"""The formats with an object in each line, or an array of objects; a file that is read tells by its first byte."""


BLANK = " \t\r\n"
"""The letters that may separate the parts of a JSON text."""


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
        if (known := given.lower()) in FORMATS:
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


_FULL = ("the disk is full", "free some space, or write somewhere else")
_DENIED = ("permission denied", "check its owner and mode")
_REFUSALS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
    errno.EROFS: ("the file system is read-only", "write somewhere else"),
    errno.EISDIR: ("it is a directory", "name a file in it"),
}
"""The words for an error of the operating system, and the hint; others have its own words."""

LIBRARY_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException, pa.ArrowException)


def one_line(error: BaseException) -> str:
    """The first line of an exception's message; the rest is a query plan or a stack."""
    lines = str(error).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn errors while `what` is read into a DataError, or a FileSystemError if they are the operating system's."""
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"{what} is not there any more: {one_line(error)}") from error
    except UnicodeDecodeError as error:
        raise not_utf8(what) from error
    except (*LIBRARY_ERRORS, OSError, EOFError) as error:
        number = _number(error)
        if number is not None:
            raise _refused(number, f"cannot read {what}") from error
        raise DataError(f"{what} cannot be read: {one_line(error)}") from error


@contextmanager
def writing(target: str) -> Iterator[None]:
    """Turn errors of the operating system while `target` is written into a FileSystemError."""
    try:
        yield
    except (*LIBRARY_ERRORS, OSError) as error:
        number = _number(error)
        if number == errno.EPIPE:
            raise ClosedPipeError(f"the reader of {target} closed it") from error
        if number is not None:
            raise _refused(number, f"cannot write {target}") from error
        raise DataError(f"the rows for {target} cannot be computed: {one_line(error)}") from error


def not_utf8(what: str) -> DataError:
    """The error for text in another encoding."""
    return DataError(f"{what} is not UTF-8 text", hint="convert it, for example with iconv")


def _number(error: BaseException) -> int | None:
    """The errno; polars and pyarrow have it only in their messages."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    number = re.search(r"(?:os error|errno) (\d+)[)\]]", str(error), re.IGNORECASE)
    return int(number[1]) if number else None


def _refused(number: int, what: str) -> FileSystemError:
    reason, hint = _REFUSALS.get(number, (os.strerror(number), None))
    return FileSystemError(f"{what}: {reason}", hint=hint)
