"""Locks of open files, and the few other things that files do differently on Windows.

A lock ends with its process, on every system. On POSIX it is ``flock``, which is for the whole file; on Windows it is a
lock of one byte that lies behind all data, because a byte that is locked there cannot be read by others.

Windows has no links to follow by mistake, no directories to flush, and renames nothing over a file that is open.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

WINDOWS = sys.platform == "win32"

ITSELF = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""Flags of `os.open`: the file itself and not the target of a link, for this process alone, byte for byte."""

AT_ONCE = ITSELF | getattr(os, "O_NONBLOCK", 0)
"""`ITSELF`, and a named pipe does not wait for its writer."""

_BEHIND = 0x7FFF_0000
_RENAME_SECONDS = 2.0
_PAUSE = 0.02

if sys.platform == "win32":
    import msvcrt

    def lock(handle: int, *, wait: bool = False) -> None:
        """Lock an open file; where another process holds it, a `BlockingIOError`, or `wait` some seconds first."""
        place = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, _BEHIND, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(error.errno, error.strerror) from None
        finally:
            os.lseek(handle, place, os.SEEK_SET)

else:
    import fcntl

    def lock(handle: int, *, wait: bool = False) -> None:
        """Lock an open file; where another process holds it, `wait`, or a `BlockingIOError`."""
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def rename(old: Path, new: Path) -> None:
    """Give a file the name of another, which it replaces in one step.

    On Windows a reader who has the old file open is waited for.
    """
    deadline = time.monotonic() + _RENAME_SECONDS
    while True:
        try:
            old.replace(new)
        except PermissionError:
            if not WINDOWS or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
        else:
            return


def sync_directory(directory: Path) -> None:
    """Bring the names in a directory to the disk; Windows does so by itself."""
    if WINDOWS:
        return
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_read_only(directory: Path) -> bool:
    """Whether the file system of a directory takes no writes from anybody."""
    with suppress(AttributeError):  # Windows cannot say
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    return False
