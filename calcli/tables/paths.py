"""The files that paths, globs, directories and ``-`` stand for."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from calcli.errors import DataError, UsageError, nearest
from calcli.files import as_text
from calcli.tables.formats import SUFFIXES, Format, format_of, suffix_format

STDIN = "-"
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True)
class InputFile:
    """One file to read.

    Attributes
    ----------
    path
        Where it is; None for standard input.
    partition
        The columns that the directories above it give (``day=2024-01-01``).
    """

    path: Path | None
    format: Format
    partition: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return "<stdin>" if self.path is None else str(self.path)


@dataclass(frozen=True)
class Inputs:
    """The input files; `stem` is the name of a single one without suffixes."""

    files: tuple[InputFile, ...]
    stem: str | None

    @property
    def name(self) -> str:
        first = self.files[0].name
        return first if len(self.files) == 1 else f"{first} and {len(self.files) - 1} more"


def find_inputs(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], given: str | None, last: int | None = None
) -> Inputs:
    """The files that paths, globs, directories and ``-`` stand for, in order: all, or the last ones."""
    items = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not items:
        raise UsageError("no input", hint="name a file, a glob, a directory, or - for standard input")
    if "" in map(str, items):
        raise UsageError("the name of the table is empty", hint="is a shell variable not set?")
    files = [file for item in items for file in _find(os.fspath(item), given)][-(last or 0) :]
    _check_together(files)
    alone = len(files) == 1 and files[0].path is not None and not Path(items[0]).is_dir()
    return Inputs(tuple(files), stem_of(files[0].path) if alone and files[0].path else None)


def stem_of(path: Path) -> str:
    """A file's name with all its suffixes off."""
    return path.name[:1] + path.name[1:].split(".")[0]


def _find(item: str, given: str | None) -> list[InputFile]:
    if item == STDIN:
        return [InputFile(None, format_of(STDIN, given, flag="--input-format"))]
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", item):
        raise UsageError(f"{item!r} is not a local file: calcli reads local files", hint="download it first")
    path = Path(item)
    if path.is_dir():
        return _walk(path, given)
    if path.exists():
        return [InputFile(path, format_of(path, given, flag="--input-format"))]
    if glob.has_magic(item):
        matches = [Path(match) for match in sorted(glob.glob(item, recursive=True))]  # noqa: PTH207 patterns may be absolute
        files = [match for match in matches if not match.is_dir()]
        if not files:
            what = f"matches {len(matches)} directories and no file" if matches else "matches nothing"
            raise DataError(f"the pattern {item!r} {what}", hint="quote patterns, and let them end in a file name")
        return [InputFile(match, format_of(match, given, flag="--input-format")) for match in files]
    raise _missing(path)


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
        f"no file {str(path)!r}; in {str(folder)!r} there is {there or 'no table'}",
        hint=f"did you mean {str(folder / match)!r}?" if match else None,
    )


def _walk(folder: Path, given: str | None) -> list[InputFile]:
    """The tables below a directory, sorted; names that begin with a dot or an underscore are skipped."""
    inside = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    ]
    if given is not None:
        wanted = format_of(folder, given, flag="--input-format")
        named = [path for path in inside if suffix_format(path) == wanted] or [p for p in inside if not p.suffix]
        tables = [(path, wanted) for path in named]
    else:
        # Beside tables .json describes them; only a flag makes it one.
        tables = [(path, known) for path in inside if (known := suffix_format(path)) not in (None, "json")]
    if not tables:
        raise DataError(
            f"the directory {str(folder)!r} holds no table; known suffixes are {', '.join(SUFFIXES)}",
            hint=None if given else "name the format of other files with --input-format",
        )
    counts = Counter(known for _, known in tables)
    if len(counts) > 1:
        listed = " and ".join(f"{count} {name}" for name, count in sorted(counts.items()))
        raise DataError(
            f"the directory {str(folder)!r} holds files of several formats: {listed}", hint="choose with --input-format"
        )
    return [InputFile(path, known, _partition(path.relative_to(folder))) for path, known in tables]


def _partition(path: Path) -> dict[str, str | None]:
    pairs = [part.split("=", 1) for part in path.parts[:-1] if "=" in part]
    if any(as_text(part) != part for pair in pairs for part in pair):
        raise DataError(
            f"the directories above {str(path)!r} name a column in bytes that are not UTF-8", hint="rename them"
        )
    return {unquote(key): None if value == HIVE_NULL else unquote(value) for key, value in pairs}


def _check_together(files: Sequence[InputFile]) -> None:
    if sum(file.path is None for file in files) > 1:
        raise UsageError("standard input is named twice", hint="name - once")
    seen = Counter(os.path.realpath(file.path) for file in files if file.path is not None)
    for file in files:
        if file.path is not None and seen[os.path.realpath(file.path)] > 1:
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
