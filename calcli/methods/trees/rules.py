"""Trees as rules that people can read."""

from __future__ import annotations

from calcli.methods.base import Section
from calcli.methods.trees.coding import Coder
from calcli.methods.trees.forest import Forest


def sections(coder: Coder, forest: Forest, *, alpha: float, loss: str) -> tuple[Section, ...]:
    return ()
