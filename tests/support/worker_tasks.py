"""Tasks for worker processes, which import them by name, and whether those processes still run."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from calcli.errors import FitError
from tests.support.shell import HANGS


def double(shared: Mapping[str, Any], task: int) -> Iterator[int]:
    """As many values as the task says."""
    for value in range(task):
        yield 2 * value


def look(shared: Any, task: int) -> Iterator[Any]:
    yield shared


def scribble(shared: np.ndarray, task: int) -> Iterator[float]:
    """What lies in the array, over which it then writes."""
    yield float(shared.sum())
    shared[:] = task


def surroundings(shared: Any, task: str) -> Iterator[Any]:
    found: dict[str, Any] = {
        "pid": os.getpid(),
        "main": sys.modules["__main__"].__dict__.get("__file__"),
        "environment": dict(os.environ),
        "modules": sorted(sys.modules),
    }
    print("a line that nobody asked for")
    os.write(1, b"another\n")
    os.write(2, b"and another\n")
    yield found[task]


def misbehave(shared: Any, task: str) -> Iterator[str]:
    """Something that goes wrong."""
    if not task.startswith(("raise", "refuse", "warn", "behave")):
        assert "pytest" not in sys.modules, "this would end the tests"
    match task:
        case "raise":
            raise FloatingPointError("sparks")
        case "refuse":
            raise FitError("not with these rows", hint="take others")
        case "warn":
            warnings.warn("careful", RuntimeWarning, stacklevel=1)
        case "be killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(3)
        case "crash":
            ctypes.string_at(0)
    yield task


def nap(shared: str, task: int) -> Iterator[int]:
    """Sign in, and be busy for longer than any test."""
    Path(shared, str(os.getpid())).touch()
    if task > 0:
        time.sleep(10 * HANGS)
    yield task


def all_gone(signed_in: Path) -> bool:
    return not any(map(alive, signed_in.iterdir()))


def alive(signed: Path) -> bool:
    """Whether the process runs; one that has ended and that nobody has asked after does not."""
    try:
        os.kill(int(signed.name), 0)
        status = Path(f"/proc/{signed.name}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
