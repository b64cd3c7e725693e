"""The four ways to change an artifact, with the generations that a reader may see before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from calcli.artifacts import store
from tests.support.artifacts import generation, leftovers, put


@dataclass(frozen=True)
class Scenario:
    """From `before` (None: nothing there) to `after`, told apart by the seed in the manifest."""

    name: str
    before: int | None
    after: int
    prepare: Callable[[Path], object]
    act: Callable[[Path], object]


def _twice(directory: Path) -> None:
    put(directory, 1)
    put(directory, 2)


ALL = (
    Scenario("first", None, 1, lambda directory: None, lambda directory: put(directory, 1)),
    Scenario("overwrite", 1, 2, lambda directory: put(directory, 1), lambda directory: put(directory, 2)),
    Scenario("overwrite with previous", 2, 3, _twice, lambda directory: put(directory, 3)),
    Scenario("rollback", 2, 1, _twice, store.rollback),
)


def seen(directory: Path) -> int | None:
    """The generation that a reader gets, whole, or None for no artifact at all."""
    return generation(directory) if store.exists(directory) else None


def heals(directory: Path) -> None:
    """The next write succeeds, keeps what was there as its previous generation, and leaves nothing lying about."""
    current = seen(directory)
    manifest = put(directory, 9)
    assert generation(directory) == 9
    assert (manifest.previous is None) == (current is None)
    assert leftovers(directory) == set()
    if current is not None:
        assert store.rollback(directory).seed == current
        assert generation(directory) == current
