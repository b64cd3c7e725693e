"""A call in a process of its own, which may use the processor for so long and no longer.

The limit is one of processor time: a machine that is busy, or stopped for a while, changes nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 20
"""How many times the limit to wait by the clock, for what sleeps and never ends."""

_CONTEXT = multiprocessing.get_context("forkserver")


class UnfinishedError(Exception):
    """The call gave no result; the message says why."""


def preload(modules: Sequence[str]) -> None:
    """Import these once, before the first call, so that no call pays for it; those that are not installed are not."""
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)  # of the server, which has no other
    _CONTEXT.set_forkserver_preload(["__main__", *modules])


def bounded(function: Callable[..., Any], *args: Any, seconds: float) -> Any:
    """What ``function(*args)`` gives. What it raises, and that it was stopped, becomes an `UnfinishedError`."""
    here, there = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_child, args=(there, seconds, function, args))
    process.start()
    there.close()
    try:
        if not here.poll(PATIENCE * seconds):
            raise UnfinishedError(f"no result after {PATIENCE * seconds:.0f} s")
        value, error = here.recv()
    except EOFError:
        process.join()
        spent = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        said = f"not done in {seconds:.0f} s of processor time" if spent else f"it ended with {process.exitcode}"
        raise UnfinishedError(said) from None
    finally:
        process.kill()
        process.join()
        here.close()
    if error is not None:
        raise UnfinishedError(error)
    return value


def _child(answer: Connection, seconds: float, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # other people's progress bars
    os.dup2(nowhere, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
    try:
        value, error = function(*args), None
    except Exception as raised:
        value, error = None, f"{type(raised).__name__}: {str(raised).strip() or 'no reason given'}".splitlines()[0]
    answer.send((value, error))
