"""What `uncertainty apply` and `uncertainty decompose` add to a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.engines.local import Done
from calcli.tables.arrays import Levels
from calcli.tables.binding import Binding
from calcli.tables.checks import bound_columns, encode
from calcli.tables.members import MemberColumns, encode_members
from calcli.uncertainty.decomposition import Members, decompose, expected_kl, reverse_information
from calcli.uncertainty.ensemble import Ensemble

STEM = "uncertainty"


def extras(*, wanted: bool, regression: bool) -> tuple[Literal["epkl", "rmi"], ...]:
    """What `Columns.extra` is, where it is wanted."""
    if not wanted:
        return ()
    return ("epkl",) if regression else ("epkl", "rmi")


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns are added.

    Attributes
    ----------
    classes
        Their names, where each has a column; none for two classes and for amounts.
    model
        Whether the whole model's own prediction is among them, as of a virtual ensemble.
    extra
        More measures of disagreement: ``epkl``, the expected divergence of one member from another, and ``rmi``, what
        of it is not knowledge uncertainty. The second is of classes alone, where both are in nats.
    """

    classes: tuple[str, ...] = ()
    model: bool = False
    extra: tuple[Literal["epkl", "rmi"], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        parts = tuple(f"{STEM}_{part}" for part in ("total", "data", "knowledge"))
        model = self._each("model") if self.model else ()
        return (*self._each("mean"), *parts, *model, *(f"{STEM}_{name}" for name in self.extra))

    def _each(self, part: str) -> tuple[str, ...]:
        return tuple(f"{STEM}_{part}_{name}" for name in self.classes) or (f"{STEM}_{part}",)

    def values(self, members: Members) -> list[FloatArray]:
        """An array for each of the names."""
        parts = decompose(members)
        found = [*_columns(parts.mean), parts.total, parts.data, parts.knowledge]
        if self.model:
            found += _columns(members.only(-1).mean[:, 0])
        if self.extra:
            divergence = expected_kl(members, parts)
            found += [divergence, reverse_information(parts, divergence)][: len(self.extra)]
        return found


@dataclass(frozen=True, slots=True)
class Predicting:
    """The work of an ensemble."""

    binding: Binding
    ensemble: Ensemble
    columns: Columns

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=True)

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns.names

    def done(self, rows: pl.DataFrame, levels: Levels) -> Done:
        if not len(rows):  # CatBoost takes no empty pool
            return Done([np.empty(0) for _ in self.names])
        encoded = encode(rows, self.binding, label=False, features=True, levels=levels)
        return Done(self.columns.values(self.ensemble.members(encoded.batch.features)))


@dataclass(frozen=True, slots=True)
class Decomposing:
    """The same from predictions that are in the table."""

    members: MemberColumns
    columns: Columns

    @property
    def reads(self) -> list[str]:
        return self.members.names

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns.names

    def done(self, rows: pl.DataFrame, levels: Levels) -> Done:
        encoded = encode_members(rows, self.members)
        return Done(self.columns.values(Members(encoded.mean, encoded.variance)), encoded.bad)


def _columns(values: FloatArray) -> Sequence[FloatArray]:
    """One for each class, or the one there is; each whole in memory, as polars takes them."""
    parts = [values] if values.ndim == 1 else values.T
    return [np.ascontiguousarray(part) for part in parts]
