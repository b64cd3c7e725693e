"""The leaves of trees as a table of rules."""

from __future__ import annotations

from collections.abc import Sequence

from calcli.methods.base import Section
from calcli.state import Json


def rates(weight: float, positive: float, predicted: float) -> tuple[float | None, float | None]:
    """The label rate and the PUD of a leaf, from the sums of its weights, and of these times label and probability."""
    return (positive / weight if weight > 0 else None, predicted / positive if positive > 0 else None)


def leaf_section(
    title: str, rows: Sequence[tuple[Json, ...]], corrections: Sequence[str], note: str, *, with_rates: bool = True
) -> Section:
    """A table of leaves: tree, condition, rows, perhaps `rates`, and the columns that say what the leaf does."""
    columns = ("tree", "if", "rows", *(("label rate", "pud") if with_rates else ()), *corrections)
    return Section(title, columns, tuple(rows), note)
