"""Write the next generation of an artifact: readers see the old one or the new one, whole.

The stages in a directory, under a lock:

1. The payloads are written, each named by the sha256 of its content and flushed to the disk.
2. The current manifest is copied to ``manifest-<sha256>.json``; with its payloads it is the previous generation, to
   which a rollback returns.
3. The directory is synced, so that all these names are on the disk.
4. ``manifest.json`` is replaced by one atomic rename, and the directory is synced again: this is the commit.
5. Files that neither generation names are removed.

A writer that fails or is killed before 4 leaves the old generation and leftovers, which the next writer removes.

An object store has the same names and stages, but no lock: the manifest is replaced on the condition that it is still
the one that was read at the beginning, and objects that a slower writer may yet name are left for an hour.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from calcli import files
from calcli.artifacts.generation import ELSEWHERE, LOCK, check_ours, is_our_name, needed, succeeding
from calcli.artifacts.manifest import MANIFEST, Manifest
from calcli.errors import CalcliError, FileSystemError
from calcli.locks import is_read_only, sync_directory
from calcli.places import Url, stores

_LEFTOVER = timedelta(hours=1)


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
        sync_directory(self.directory)
        files.replace(self.directory / MANIFEST, committed.to_json())
        sync_directory(self.directory)
        return committed


@contextmanager
def locked_directory(directory: Path, timeout: float | None) -> Iterator[DirectoryWriter]:
    """Hold the lock; at the end leftovers go, and all traces of a failed first write."""
    made: list[Path] = []
    with files.disk_errors(f"cannot write {directory}"):
        _replaceable(directory)  # raises before a lock file is made in a directory that is not ours
        try:
            with files.locked(directory / LOCK, timeout, made):
                try:
                    current, _ = _replaceable(directory)
                    yield DirectoryWriter(directory, current)
                finally:
                    # The outcome is decided by now. What cannot be removed is left to the next writer.
                    with suppress(OSError, CalcliError):
                        _sweep(directory)
        except BaseException:
            with suppress(OSError):
                for path in reversed(made):
                    path.rmdir()  # fails where it is not empty
            raise


def check_directory(directory: Path) -> None:
    """Raise the errors of `locked_directory` without a trace: something is in the way, or it is read-only."""
    with files.disk_errors(f"cannot write {directory}"):
        _replaceable(directory)
        existing = directory.absolute()
        while not os.path.lexists(existing):
            existing = existing.parent
        if not existing.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(existing, os.W_OK | os.X_OK):
            code = errno.EROFS if is_read_only(existing) else errno.EACCES
            raise OSError(code, os.strerror(code))


def _replaceable(directory: Path) -> tuple[bytes, Manifest] | tuple[None, None]:
    """The manifest in place, as bytes and as read from them, if there is one; an error if something else is there."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise FileSystemError(f"{directory} exists and is not a directory", hint="choose another directory")
    try:
        current = files.read(directory / MANIFEST)
    except FileNotFoundError:
        if foreign := _foreign(directory):
            raise FileSystemError(f"{directory} is not an artifact: it contains {foreign!r}", hint=ELSEWHERE) from None
        return None, None
    except files.DamagedFileError as error:
        raise FileSystemError(f"{directory / MANIFEST} is in the way: {error}", hint=ELSEWHERE) from None
    return current, check_ours(directory, current)


def _sweep(directory: Path) -> None:
    """Remove our files that neither generation names.

    The generations are read from the disk, because after an interrupt the caller does not know how far it had come.
    """
    _, current = _replaceable(directory)
    kept: set[str | None] = {LOCK}
    if current is not None:
        kept |= needed(directory, current)
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


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """A URL in a store, and the manifest that is replaced there."""

    url: Url
    current: stores.Stored | None

    @classmethod
    def at(cls, url: Url) -> ObjectWriter:
        """The writer at `url`; an error if something that is not ours is in the way."""
        try:
            stored = stores.read(url / MANIFEST)
        except FileNotFoundError:
            if foreign := min((name for name in _objects(url) if not is_our_name(name)), default=None):
                raise FileSystemError(f"{url} is not an artifact: it contains {foreign!r}", hint=ELSEWHERE) from None
            return cls(url, None)
        check_ours(url, stored.data)
        return cls(url, stored)

    def put(self, name: str, data: bytes) -> None:
        stores.put(self.url / name, data)

    def commit(self, manifest: Manifest) -> Manifest:
        """Make `manifest`, whose payloads are written, the current one, unless another writer was faster."""
        committed = succeeding(manifest, None if self.current is None else self.current.data, self.put)
        text = committed.to_json()
        try:
            stores.put(self.url / MANIFEST, text, instead_of=None if self.current is None else self.current.version)
        except stores.ChangedError:
            if stores.read(self.url / MANIFEST).data != text:  # or else a first try did it, and its answer was lost
                raise FileSystemError(
                    f"another calcli has replaced {self.url} meanwhile; nothing was changed", hint="run this again"
                ) from None
        with suppress(OSError, CalcliError):  # what cannot be removed is left to the next writer
            _sweep_objects(self.url)
        return committed


def _objects(url: Url) -> dict[str, datetime]:
    """When each object below `url` was made, by the clock of the store; the keys are names."""
    try:
        return {entry.url.key.removeprefix(f"{url.key}/"): entry.modified for entry in stores.listing(url)}
    except FileNotFoundError as error:
        raise FileSystemError(f"cannot write {url}: {error.strerror}", hint="make the bucket first") from None


def _sweep_objects(url: Url) -> None:
    """Remove the objects of former generations, and those of writers that never committed."""
    kept = needed(url, Manifest.from_json(stores.read(url / MANIFEST).data))
    objects = _objects(url)
    for name, modified in objects.items():
        if name not in kept and is_our_name(name) and modified < objects[MANIFEST] - _LEFTOVER:
            stores.remove(url / name)
