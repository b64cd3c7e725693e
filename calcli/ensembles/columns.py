"""The columns that `uncertainty apply` and `uncertainty decompose` add to a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.models.stream import AddedColumns, Computed, ModelColumns
from calcli.tables.arrays import Levels
from calcli.tables.checks import bound_columns, encode
from calcli.tables.members import MemberColumns, encode_members, refuse_bad_members
from calcli.tables.source import Source
from calcli.uncertainty.decomposition import Members, decompose, expected_kl, reverse_information
from calcli.uncertainty.ensemble import Ensemble

STEM = "uncertainty"


@dataclass(frozen=True, kw_only=True)
class UncertaintyColumns(AddedColumns):
    """The columns that are computed from the members' predictions."""

    classes: tuple[str, ...] = ()
    """Their names, where each has a column; none for two classes and for amounts."""

    regression: bool = False
    """Whether amounts are predicted."""

    model: bool = False
    """Whether the whole model's own prediction is among them, as of a virtual ensemble."""

    extra: bool = False
    """More measures of disagreement: ``epkl``, the expected divergence of one member from another, and ``rmi``, the
    same less knowledge uncertainty. The second is of classes alone, where both are in nats.
    """

    @property
    def names(self) -> tuple[str, ...]:
        parts = tuple(f"{STEM}_{part}" for part in ("total", "data", "knowledge"))
        model = self._of_classes("model") if self.model else ()
        return (*self._of_classes("mean"), *parts, *model, *(f"{STEM}_{name}" for name in self._extras))

    @property
    def _extras(self) -> tuple[str, ...]:
        if not self.extra:
            return ()
        return ("epkl",) if self.regression else ("epkl", "rmi")

    def _of_classes(self, part: str) -> tuple[str, ...]:
        return tuple(f"{STEM}_{part}_{name}" for name in self.classes) or (f"{STEM}_{part}",)

    def values(self, members: Members) -> list[FloatArray]:
        parts = decompose(members)
        values = [parts.mean, parts.total, parts.data, parts.knowledge]
        if self.model:
            values.append(members.only(-1).mean[:, 0])
        if self.extra:
            divergence = expected_kl(members, parts)
            values += [divergence, reverse_information(parts, divergence)][: len(self._extras)]
        return values


@dataclass(frozen=True, kw_only=True)
class PredictedColumns(UncertaintyColumns, ModelColumns):
    """From the predictions of an ensemble."""

    ensemble: Ensemble

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=True)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        if not len(rows):  # CatBoost takes no empty pool
            return Computed([np.empty(0) for _ in self.names])
        encoded = encode(rows, self.binding, label=False, features=True, levels=levels)
        return Computed(self.values(self.ensemble.members(encoded.batch.features)))


@dataclass(frozen=True, kw_only=True)
class DecomposedColumns(UncertaintyColumns):
    """From predictions of members that are in the table."""

    members: MemberColumns

    task = "decomposing"

    def refuse_bad_rows(self, source: Source) -> None:
        refuse_bad_members(source, self.members)

    @property
    def reads(self) -> list[str]:
        return self.members.names

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        encoded = encode_members(rows, self.members)
        return Computed(self.values(Members(encoded.mean, encoded.variance)), encoded.bad)
