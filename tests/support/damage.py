"""Random damage to bytes, and how many attacks to try."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CASES = int(os.environ.get("CALCLI_SOAK", "60"))
"""So many attacks of each kind."""

LARGE = pytest.mark.skipif(CASES < 1_000, reason="takes minutes; run: just soak")

Damage = Callable[[bytearray, random.Random], bytearray]


def flip(data: bytearray, chance: random.Random) -> bytearray:
    """Some bits are others."""
    for _ in range(chance.choice((1, 1, 2, 8))):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return data


def cut(data: bytearray, chance: random.Random) -> bytearray:
    """The end is missing."""
    return data[: chance.randrange(len(data) + 1)]


def lose(data: bytearray, chance: random.Random) -> bytearray:
    """A piece in the middle is missing."""
    start = chance.randrange(len(data) + 1)
    del data[start : start + chance.randrange(1, 64)]
    return data


def repeat(data: bytearray, chance: random.Random) -> bytearray:
    """A piece is there twice."""
    start = chance.randrange(len(data) + 1)
    data[start:start] = data[start : start + chance.randrange(1, 64)]
    return data


def noise(data: bytearray, chance: random.Random) -> bytearray:
    """A piece is any bytes."""
    start = chance.randrange(len(data) + 1)
    data[start : start + 16] = chance.randbytes(chance.randrange(1, 32))
    return data


def huge(data: bytearray, chance: random.Random) -> bytearray:
    """A number in the middle is the largest there is."""
    start = chance.randrange(max(1, len(data) - 8))
    size = chance.choice((4, 8))
    data[start : start + size] = b"\xff" * (size - 1) + b"\x7f"
    return data


DAMAGES: tuple[Damage, ...] = (flip, cut, lose, repeat, noise, huge)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The data after one or two accidents."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2))):
        found = chance.choice(DAMAGES)(found, chance)
    return bytes(found)


@contextmanager
def nothing_but(folder: Path, *allowed: str) -> Iterator[None]:
    """What happens inside leaves nothing in the folder, and takes nothing away, but under these names."""
    before = listing(folder)
    yield
    after = listing(folder)
    changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    assert changed <= set(allowed), f"changed: {sorted(changed)}"


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file."""
    return {
        str(path.relative_to(folder)): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
        if not path.is_dir()
    }
