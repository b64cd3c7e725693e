"""The number of threads to work with."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from calcli.errors import FileSystemError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

_OF_PROCESS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def threads() -> int:
    """The number that ``--threads`` set, else that of the processors that this process may use."""
    return asked() or processors()


def asked() -> int:
    """The number that ``--threads`` set, or 0."""
    number = os.environ.get("OMP_NUM_THREADS", "")
    return int(number) if number.isdecimal() else 0


def sharing() -> int:
    """How many threads more may share the processors where a few items are left; none if a number was asked for."""
    return 0 if asked() else processors() - 1


_LIBRARIES, _THREAD = 2_900_000_000, 32_000_000
"""Bytes of addresses that polars, pyarrow, numpy and the allocators reserve, and that each thread adds: measured."""


def check_addresses() -> None:
    """Refuse to start under a limit in which the libraries would abort, or wait for ever for a thread that failed."""
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], _LIBRARIES + _THREAD * threads()
    if 0 <= limit < needed:  # no limit is -1
        raise FileSystemError(
            f"this process may use {limit / 1e9:.2f} GB of addresses, and its libraries and {threads()} threads need "
            f"{needed / 1e9:.2f} GB",
            hint=f"raise the limit: ulimit -v {math.ceil(needed / 1024)}",
        )


class _Limit:
    """The limit on the threads of algebra, which is one of the whole process."""

    def __init__(self) -> None:
        self._lock, self._limited, self._wanted = threading.Lock(), ExitStack(), 0

    def enter(self) -> None:
        """Begin it, if nobody has."""
        with self._lock:
            if self._wanted == 0:
                self._limited.enter_context(_algebra().limit(limits=1))
            self._wanted += 1

    def leave(self) -> None:
        """End it, if nobody else wants it."""
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                self._limited.close()


_LIMIT = _Limit()


@contextmanager
def one_thread_of_algebra() -> Iterator[None]:
    """Products and solutions of matrices on one thread: several would add up in an order of their own."""
    _LIMIT.enter()
    try:
        yield
    finally:
        _LIMIT.leave()


@cache
def _algebra() -> ThreadpoolController:
    """The libraries behind numpy's matrices, looked for once: that takes longer than most fits."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@cache
def processors() -> int:
    """The processors of this machine, or as many as this process is held to: by its affinity or by a container."""
    held_to = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.floor(min(held_to, quota())))


def quota(of_process: Path = _OF_PROCESS, groups: Path = _GROUPS) -> float:
    """The number of processors whose time the control groups leave to this process; infinite where nothing limits it.

    A limit of a container is ``cpu.max`` of its group or of one above: microseconds of work in so many of the clock
    (cgroup v2). More threads than that would only be made to wait.
    """
    try:
        own = next(line[3:] for line in of_process.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return math.inf
    place = groups / own.strip("/")
    return min(_limit(folder) for folder in (place, *place.parents) if folder.is_relative_to(groups))


def _limit(group: Path) -> float:
    try:
        most, period = (group / "cpu.max").read_text().split()
        return int(most) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return math.inf
