"""The columns that `apply` adds for a policy: the calibrated ones, and what is decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from calcli.decisions.policy import DECISION, REASON, Policy
from calcli.engines.calibrated_columns import CalibratedColumns
from calcli.engines.local import Computed
from calcli.errors import DataError
from calcli.state import Json
from calcli.tables.arrays import Levels, index_order
from calcli.tables.binding_types import Binding


@dataclass(frozen=True, slots=True)
class DecisionColumns:
    """The columns of a calibrator, and of the policy that decides by its probabilities."""

    calibrated: CalibratedColumns
    policy: Policy

    @property
    def binding(self) -> Binding:
        return self.calibrated.binding

    @property
    def features(self) -> bool:
        return self.calibrated.features

    @property
    def reads(self) -> list[str]:
        return list(dict.fromkeys([*self.calibrated.reads, *self.policy.rule.reads]))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.calibrated.names, DECISION, REASON)

    @property
    def words(self) -> Mapping[str, Sequence[Json]]:
        """What the numbers of the added columns stand for: a place in these."""
        actions = self.policy.rule.actions([*index_order(self.binding)])
        return dict(zip((DECISION, REASON), map(list, zip(*actions, strict=True)), strict=True))

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        computed = self.calibrated.compute(rows, levels)
        if self.calibrated.scale == "prob":
            prob = computed.values[0]
        else:
            prob = replace(self.calibrated, scale="prob").compute(rows, levels).values[0]
        action = self.policy.rule.decide(prob, beside(rows, self.policy.rule.reads)).astype(np.float64)
        return Computed([*computed.values, action, action], computed.bad)


def beside(rows: pl.DataFrame, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of numbers; NaN where there is none."""
    found = {}
    for name in names:
        if not rows[name].dtype.is_numeric():
            raise DataError(f"the column {name!r} holds {rows[name].dtype}, and the policy reads numbers in it")
        found[name] = rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return found
