"""Files that take the place of others once they are whole.

Each is written beside its target under another name, flushed to the disk, and renamed. It is locked meanwhile, and the
kernel lets go of the lock when its holder dies: so the next writer of the same target can tell what a killed one has
left from what another one is writing, and removes it.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from calcli.errors import FileSystemError


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A temporary sibling, open for writing, that takes the place of `path` at the end, if nothing went wrong."""
    target = path.resolve()  # a link stays a link
    if not target.parent.is_dir():
        raise FileSystemError(
            f"cannot write {path}: there is no directory {str(target.parent)!r}", hint="make the directory first"
        )
    _remove_leftovers(target)
    temporary = target.with_name(f"{_prefix(target)}{uuid.uuid4().hex[:8]}.tmp")
    try:
        with _locked(temporary) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if target.exists():
                shutil.copymode(target, temporary)
            temporary.replace(target)  # while it is locked: nobody may take it for a leftover
        _sync_directory(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _prefix(target: Path) -> str:
    return f".{target.name[:200]}."


def _locked(path: Path) -> IO[bytes]:
    """A new file, locked where the file system has locks."""
    while True:
        stream = path.open("xb")
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        if _is_at(path, stream.fileno()):
            return stream
        stream.close()  # somebody took it for a leftover before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove the temporary siblings of `target` that nobody writes any more, as far as that can be done."""
    leftover = re.compile(re.escape(_prefix(target)) + r"[0-9a-f]{8}\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        found = [Path(entry.path) for entry in entries if leftover.fullmatch(entry.name)]
        for path in found:
            with suppress(OSError):
                _remove_unless_locked(path)


def _remove_unless_locked(path: Path) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, handle):  # its writer may have renamed it meanwhile
            path.unlink()
    finally:
        os.close(handle)


def _is_at(path: Path, handle: int) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(path.lstat(), os.fstat(handle))
    return False


def _sync_directory(folder: Path) -> None:
    with suppress(OSError):  # some file systems do not know how
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
