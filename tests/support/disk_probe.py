"""Observe every operation that changes the disk, or act just before it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

OPERATIONS = ("open", "write", "fsync", "replace", "unlink", "mkdir", "rmdir")

Before = Callable[[str, tuple[Any, ...]], None]


@contextmanager
def probed(before: Before, *, sync: bool = True) -> Iterator[dict[str, Callable[..., Any]]]:
    """Call `before` ahead of each operation; yields the real ones. Without `sync`, fsync does nothing, but counts."""
    real = {name: getattr(os, name) for name in OPERATIONS}

    def wrapped(name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            if name != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                before(name, arguments)
            return None if name == "fsync" and not sync else real[name](*arguments, **named)

        return operation

    for name in OPERATIONS:
        setattr(os, name, wrapped(name))
    try:
        yield real
    finally:
        for name in OPERATIONS:
            setattr(os, name, real[name])


def count(action: Callable[[], object]) -> int:
    """How many operations `action` takes."""
    seen: list[str] = []
    with probed(lambda name, _: seen.append(name), sync=False):
        action()
    return len(seen)


@contextmanager
def at(place: int, happen: Callable[[str, tuple[Any, ...], dict[str, Callable[..., Any]]], None]) -> Iterator[None]:
    """Let something happen ahead of the operation number `place`, counted from 0."""
    counter = iter(range(10**9))

    def before(name: str, arguments: tuple[Any, ...]) -> None:
        if next(counter) == place:
            happen(name, arguments, real)

    with probed(before, sync=False) as real:
        yield


def write_half(name: str, arguments: tuple[Any, ...], real: dict[str, Callable[..., Any]]) -> None:
    """What a disk does that is full, or a process that is killed, in the middle of a write."""
    if name == "write":
        real["write"](arguments[0], arguments[1][: len(arguments[1]) // 2])
