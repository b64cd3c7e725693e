"""Writing the next generation of an artifact into a directory: readers see the old one or the new one, whole.

These are the stages, under a lock:

1. The payloads are written, each named by the sha256 of its content and flushed to the disk.
2. The current manifest is copied to ``manifest-<sha256>.json``: with its payloads it is the previous generation, for a
   rollback.
3. The directory is synced, so that all these names are on the disk.
4. ``manifest.json`` is replaced by one atomic rename, and the directory is synced again: this is the commit.
5. Files that neither generation names are removed.

A writer that fails or is killed before 4 leaves the old generation and leftovers, which the next writer removes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from calcli import files
from calcli.artifacts.generation import ELSEWHERE, LOCK, check_ours, is_our_name, needed, succeeding
from calcli.artifacts.manifest import MANIFEST, Manifest
from calcli.errors import CalcliError, FileSystemError


@dataclass(frozen=True, slots=True)
class DirectoryWriter:
    """A directory whose lock is held, and the manifest that is replaced there."""

    directory: Path
    current: bytes | None

    def put(self, name: str, data: bytes) -> None:
        """Write a file, unless it is there already."""
        path = self.directory / name
        with suppress(FileNotFoundError, files.DamagedFileError):
            if files.read(path, size=len(data)) == data:
                return
        files.replace(path, data)

    def commit(self, manifest: Manifest) -> Manifest:
        """Make `manifest`, whose payloads are written, the current one."""
        committed = succeeding(manifest, self.current, self.put)
        # Names may reach the disk in any order: sync all others before the rename that commits.
        files.sync_directory(self.directory)
        files.replace(self.directory / MANIFEST, committed.to_json())
        files.sync_directory(self.directory)
        return committed


@contextmanager
def writing(directory: Path, timeout: float) -> Iterator[DirectoryWriter]:
    """Hold the lock; at the end leftovers go, and all traces of a failed first write."""
    made: list[Path] = []
    with files.disk_errors(f"cannot write {directory}"):
        _replaceable(directory)  # raises before a lock file is made in a directory that is not ours
        try:
            with files.locked(directory / LOCK, timeout, made):
                try:
                    yield DirectoryWriter(directory, _replaceable(directory))
                finally:
                    # The outcome is decided by now. What cannot be removed is left to the next writer.
                    with suppress(OSError, CalcliError):
                        _sweep(directory)
        except BaseException:
            with suppress(OSError):
                for path in reversed(made):
                    path.rmdir()  # fails where it is not empty
            raise


def check(directory: Path) -> None:
    """Raise what `writing` would raise, without a trace: something is in the way, or the directory is read-only."""
    with files.disk_errors(f"cannot write {directory}"):
        _replaceable(directory)
        existing = directory.absolute()
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(existing, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _replaceable(directory: Path) -> bytes | None:
    """The current manifest, None if there is nothing yet; an error if something that is not ours is in the way."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise FileSystemError(f"{directory} exists and is not a directory", hint="choose another directory")
    try:
        current = files.read(directory / MANIFEST)
    except FileNotFoundError:
        if foreign := _foreign(directory):
            raise FileSystemError(f"{directory} is not an artifact: it contains {foreign!r}", hint=ELSEWHERE) from None
        return None
    except files.DamagedFileError as error:
        raise FileSystemError(f"{directory / MANIFEST} is in the way: {error}", hint=ELSEWHERE) from None
    check_ours(directory, current)
    return current


def _sweep(directory: Path) -> None:
    """Remove our files that neither generation names.

    The generations are read from the disk: after an interrupt the caller does not know how far it had come.
    """
    current = _replaceable(directory)
    kept: set[str | None] = {LOCK}
    if current is not None:
        kept |= needed(directory, Manifest.from_json(current))
    for entry in list(os.scandir(directory)):
        if entry.name not in kept and _is_ours(entry):
            Path(entry.path).unlink()
    if current is None:  # a first write has failed
        (directory / LOCK).unlink()  # last, because it lets the next writer in


def _foreign(directory: Path) -> str | None:
    """The name of something in `directory` that calcli did not write."""
    if not directory.is_dir():
        return None
    return min((entry.name for entry in os.scandir(directory) if not _is_ours(entry)), default=None)


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return is_our_name(entry.name.removeprefix(files.TEMPORARY)) and entry.is_file(follow_symlinks=False)
