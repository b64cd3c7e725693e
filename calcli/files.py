"""Files that are there whole or not at all, and locks that keep writers apart.

There are two ways to replace a file; both write a temporary sibling, flush it to the disk, and rename it.

- `replace` puts bytes in place, for a writer that holds the lock of the directory: the name of the temporary file is
  fixed, so that whoever locks the directory next can sweep it. The caller syncs the directory, once for many files.
- `replacing` is a stream, for targets that no lock protects (`-o FILE`): each writer has a temporary file of its own,
  and locks it.

The promises rest on an atomic rename, on ``fsync`` and on locks (`calcli.locks`). The kernel releases a lock when its
holder dies, so a lock file that is merely present means nothing. `replace`, `read` and `locked` do each operation of
the disk through ``os``, where tests watch it and make it fail.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from calcli.errors import FileSystemError
from calcli.locks import AT_ONCE, ITSELF, WINDOWS, lock, rename, sync_directory

TEMPORARY = ".new-"
"""How the temporary files of `replace` begin."""

_CHUNK = 1 << 24
_POLL_SECONDS = 0.05
_UNTOLD_SECONDS = 1.0
_LEFTOVER_SECONDS = 3600
_HINTS = {
    errno.ENOSPC: "free some space, or choose another directory",
    errno.EDQUOT: "free some space, or choose another directory",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), or choose another directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that you may write to",
    errno.ENOTDIR: "a file is in the way; choose another directory",
    errno.EEXIST: "a file is in the way; choose another directory",
    errno.ELOOP: "symbolic links lead in a circle; name another file",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ENOLCK: "the file system has no locks; choose a directory on another one",
    errno.EOPNOTSUPP: "the file system has no locks; choose a directory on another one",
}


class DamagedFileError(Exception):
    """A file is not the one that was written under its name."""


@contextmanager
def disk_errors(action: str) -> Iterator[None]:
    """Turn an `OSError` raised within into one line: `action` (“cannot write DIR”), why, and what to do."""
    try:
        yield
    except OSError as error:
        reason, hint = os.strerror(error.errno) if error.errno else str(error), _HINTS.get(error.errno or 0)
        if error.errno == errno.ENOENT and _is_nowhere():
            reason, hint = "the working directory has been deleted", "change to a directory that exists"
        raise FileSystemError(f"{action}: {reason}", hint=hint) from error


def _is_nowhere() -> bool:
    """Whether the working directory has been deleted."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return True
    return False


def resolved(path: Path) -> Path:
    """The absolute path without links; raises an `OSError` where they lead in circles, in every version of Python."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return Path(os.path.realpath(path))


def as_text(path: str | os.PathLike[str]) -> str:
    """A path as text that every JSON parser takes: bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def base_name(path: str | os.PathLike[str]) -> str:
    """The name of a directory as text, where it is a link or ``.`` that of the one which is meant."""
    return as_text(Path(os.path.realpath(path)).name)


def replace(path: Path, data: bytes) -> None:
    """Make `path` a file with this content.

    The content is on the disk before the name is. That the name is, too, takes a `sync_directory`.
    """
    temporary = path.with_name(TEMPORARY + path.name)
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | ITSELF, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest[:_CHUNK]) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    rename(temporary, path)


def target_of(path: Path) -> Path:
    """Where a file is written: its path without links; a directory that is not there is refused, and not made."""
    with disk_errors(f"cannot write {path}"):
        target = resolved(path)  # a link stays a link
    if not target.parent.is_dir():
        raise FileSystemError(
            f"cannot write {path}: there is no directory {str(target.parent)!r}", hint="make the directory first"
        )
    return target


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary sibling, open for writing, that takes the place of `path` at the end, if nothing went wrong."""
    target = target_of(path)
    prefix = f".{target.name[:200]}."
    _remove_leftovers(target.parent, re.compile(re.escape(prefix) + r"[0-9a-f]{8}\.tmp"))
    temporary = target.with_name(f"{prefix}{os.urandom(4).hex()}.tmp")
    try:
        with create_locked(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            if not WINDOWS:  # while it is locked: no other writer takes it for a leftover
                rename(temporary, target)
        if WINDOWS:  # while it is open it has no other name
            rename(temporary, target)
        with suppress(OSError):  # some file systems cannot
            sync_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def create_locked(path: Path) -> IO[bytes]:
    """A new file, locked where the file system has locks."""
    while True:
        stream = path.open("xb")
        with suppress(OSError):
            lock(stream.fileno(), wait=True)
        if _is_at(path, stream.fileno()):
            return stream
        stream.close()  # another writer took it for a leftover before it was locked


def _remove_leftovers(directory: Path, names: re.Pattern[str]) -> None:
    """Remove the temporary files that killed writers left: those without a lock."""
    with suppress(OSError), os.scandir(directory) as entries:
        leftovers = [Path(entry.path) for entry in entries if names.fullmatch(entry.name)]
        for path in leftovers:
            with suppress(OSError):
                _remove_unless_locked(path)


def remove_folder_unless_locked(path: Path) -> None:
    """Remove the directory of a lock file that nobody holds: its owner was killed."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDWR | AT_ONCE)
        try:
            lock(handle)
            shutil.rmtree(path.parent, ignore_errors=True)
        finally:
            os.close(handle)
        shutil.rmtree(path.parent, ignore_errors=True)  # Windows removes no file that is open


def _remove_unless_locked(path: Path) -> None:
    if WINDOWS:
        if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:  # a file that is open is not removed
            path.unlink()
        return
    handle = os.open(path, os.O_RDWR | AT_ONCE)
    try:
        lock(handle)
        if _is_at(path, handle):  # its writer may have renamed it meanwhile
            path.unlink()
    finally:
        os.close(handle)


def read(path: Path, *, size: int | None = None, sha256: str | None = None) -> bytes:
    """The content of a regular file; a `DamagedFileError` for a link or another thing, another size or another hash."""
    if WINDOWS and path.is_symlink():
        raise DamagedFileError("it is a symbolic link, not a file")
    try:
        # Without O_NONBLOCK a named pipe put in place of a file would block for ever.
        handle = os.open(path, os.O_RDONLY | AT_ONCE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise DamagedFileError("it is a symbolic link or a socket, not a file") from None
        raise
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedFileError("it is not a regular file")
        if size is not None and status.st_size != size:
            raise DamagedFileError(f"it has {status.st_size} bytes, not {size}")
        with os.fdopen(handle, "rb", closefd=False) as file:
            data = file.read()
    finally:
        os.close(handle)
    return undamaged(data, sha256=sha256)


def undamaged(data: bytes, *, size: int | None = None, sha256: str | None = None) -> bytes:
    """The content, if it has the size and the hash that it should have; else a `DamagedFileError`."""
    if size is not None and len(data) != size:
        raise DamagedFileError(f"it has {len(data)} bytes, not {size}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise DamagedFileError("its content does not match its hash (sha256)")
    return data


def make_directory(directory: Path, made: list[Path]) -> None:
    """Make `directory` and its parents where they are missing, and append the new ones to `made`."""
    if directory.is_dir() or directory == directory.parent:
        return
    make_directory(directory.parent, made)
    try:
        directory.mkdir()
    except FileExistsError:
        if directory.is_dir():  # another writer was faster
            return
        raise
    made.append(directory)
    sync_directory(directory.parent)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a lock is waited for, and who is told that somebody waits."""

    seconds: float = 60.0
    told: Callable[[str], None] = lambda _: None


PATIENCE: ContextVar[Patience] = ContextVar("patience with locks", default=Patience())  # noqa: B039 it is frozen


@contextmanager
def patience(seconds: float, told: Callable[[str], None]) -> Iterator[None]:
    """Wait so long for each lock that is asked for inside, and tell of it after a second."""
    before = PATIENCE.set(Patience(seconds, told))
    try:
        yield
    finally:
        PATIENCE.reset(before)


@contextmanager
def locked(path: Path, timeout: float | None, made: list[Path]) -> Iterator[None]:
    """Hold the lock file `path`, in a directory that is made if need be; see `make_directory` for `made`.

    It is waited for as long as `timeout` says, or else the `patience` around.
    """
    timeout = PATIENCE.get().seconds if timeout is None else timeout
    deadline = time.monotonic() + timeout
    while True:
        make_directory(path.parent, made)
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | ITSELF, 0o666)
        except FileNotFoundError:
            if path.parent.is_dir():
                raise
            continue  # another writer failed, and removed the directory that it had made
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            raise FileSystemError(f"{path} is a symbolic link, which no lock may be", hint="remove it") from None
        try:
            if not _lock(handle, timeout, deadline, path):
                raise FileSystemError(
                    f"another calcli is writing to {path.parent}: it has held {path} for {timeout:g} s",
                    hint="wait until it is done and run this again; the lock of a killed process is free",
                )
            if _is_at(path, handle):
                yield
                return
            # The holder failed and removed the lock file that we waited for: try again with a new one.
        finally:
            os.close(handle)


def _lock(handle: int, timeout: float, deadline: float, path: Path) -> bool:
    start, told = time.monotonic(), PATIENCE.get().told
    said = False
    while True:
        try:
            lock(handle)
        except BlockingIOError:
            if (now := time.monotonic()) >= deadline:
                return False
            if not said and now - start >= _UNTOLD_SECONDS:
                said = True
                told(f"waiting up to {timeout:g} s for {path}: another process is writing to {path.parent}")
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _is_at(path: Path, handle: int) -> bool:
    """Whether the open file is still the one that `path` names."""
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(handle))
    return False
