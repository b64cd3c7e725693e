"""The columns that a policy adds to a table beside those of the calibrator by whose probabilities it decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.decisions.formulas import names_of, outputs
from calcli.decisions.policy import (
    DECISION,
    REASON,
    SET,
    YES,
    AnyRule,
    ClassRule,
    GroupRule,
    MatrixRule,
    Policy,
    SetRule,
    spellings,
)
from calcli.export.document import table_inputs
from calcli.expressions import Term, choose
from calcli.models.columns import CalibratedColumns
from calcli.models.stream import Computed, ModelColumns
from calcli.numeric.links import logits
from calcli.tables import arrays
from calcli.tables.arrays import Levels, index_order
from calcli.tables.labels import class_text
from calcli.tables.source import Source

SEPARATOR = "|"
"""Between the classes of a set."""


@dataclass(frozen=True, slots=True)
class DecisionColumns(ModelColumns):
    """The columns of a calibrator, and of the policy that decides by its probabilities."""

    calibrated: CalibratedColumns
    policy: Policy

    task = CalibratedColumns.task
    rename = "try: --column NAME for the probability; leave others out with --keep, or rename them, before"

    @property
    def whole_table(self) -> bool:
        return self.calibrated.whole_table

    @property
    def reads(self) -> list[str]:
        return list(dict.fromkeys([*self.calibrated.reads, *self.policy.rule.reads]))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.calibrated.names, *self.types)

    @property
    def types(self) -> dict[str, pl.DataType]:
        if gives_sets(self.policy.rule):
            return {SET: pl.String()}
        decisions, _ = self._actions()
        return {DECISION: decisions.dtype, REASON: pl.String()}

    def doubt(self, source: Source) -> str | None:
        return self.calibrated.doubt(source)

    def remarks(self, source: Source) -> Sequence[str]:
        return self.calibrated.remarks(source)

    def refuse_bad_rows(self, source: Source) -> None:
        self.calibrated.refuse_bad_rows(source)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        computed = replace(self.calibrated, scale="prob").compute(rows, levels)
        prob = computed.values[0]
        if self.calibrated.scale == "logit":
            computed = replace(computed, values=[logits(prob)])
        found = self._decided(prob, rows)
        if found.ndim > 1:
            return replace(computed, others=[_sets(found, self._names)])
        return replace(computed, others=[words.gather(found) for words in self._actions()])

    def formulas(self) -> dict[str, Term]:
        """The columns as numbers: a decision is 1 for the positive class, or there is a column for each class."""
        prob = self.calibrated.formula()
        valid = table_inputs(self.binding).valid
        names = names_of(self.policy.rule, self._names)
        found = zip(names, outputs(self.policy.rule, prob), strict=True)
        return self.calibrated.terms(prob) | {name: choose(valid, term, None) for name, term in found}

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The decisions of `compute`, as the numbers of `policy`."""
        computed = self.calibrated.compute(rows, levels)
        prob = replace(self.calibrated, scale="prob").compute(rows, levels).values[0]
        found = self._decided(prob, rows)
        if found.ndim == 1:
            found = _numbered(self.policy.rule, self._names)[found]
        return replace(computed, values=[*computed.values, found.astype(np.float64)])

    def _decided(self, prob: FloatArray, rows: pl.DataFrame) -> NDArray[Any]:
        """The classes of each row, shape (n, K), or its action."""
        rule = self.policy.rule
        if isinstance(rule, SetRule):
            group = None if rule.column is None else codes(rows[rule.column], rule.groups)
            return rule.sets.predict(prob, group)
        if isinstance(rule, GroupRule):
            return rule.decide(prob, codes(rows[rule.column], rule.groups))
        beside = {name: arrays.numbers(rows[name]) for name in rule.reads}
        return rule.members(prob, beside) if isinstance(rule, ClassRule) and rule.top > 1 else rule.decide(prob, beside)

    @property
    def _names(self) -> list[str]:
        """The classes as text."""
        return [class_text(label) for label in index_order(self.binding)]

    def _actions(self) -> tuple[pl.Series, pl.Series]:
        """The decision and the reason of each action, by the action's number."""
        assert not isinstance(self.policy.rule, SetRule)
        actions = self.policy.rule.actions([*index_order(self.binding)])
        decisions, reasons = zip(*actions, strict=True)
        return pl.Series(decisions), pl.Series(reasons)


def _numbered(rule: AnyRule, classes: Sequence[str]) -> FloatArray:
    """The numbers of each action, shape (actions, columns)."""
    if isinstance(rule, ClassRule | MatrixRule):
        named = [name for name in (rule.names if isinstance(rule, MatrixRule) else classes) if name is not None]
        return np.array([[action == name for name in named] for action, _ in rule.actions(classes)], dtype=np.float64)
    return np.array([0.0, 1.0] * (1 + len(rule.groups)) if isinstance(rule, GroupRule) else YES)[:, None]


def gives_sets(rule: AnyRule) -> bool:
    """Whether a row may get several classes."""
    return isinstance(rule, SetRule) or (isinstance(rule, ClassRule) and rule.top > 1)


def codes(values: pl.Series, groups: Sequence[str]) -> IntArray:
    """The place of each row's value among the groups, of which the empty text stands for none; -1 for a new one."""
    places = {text: place for place, texts in enumerate(spellings(groups)) for text in texts}
    return values.cast(pl.String).fill_null("").replace_strict(places, default=-1, return_dtype=pl.Int64).to_numpy()


def _sets(members: NDArray[np.bool_], names: Sequence[str]) -> pl.Series:
    """The classes of each row's set as text; there are few different sets."""
    packed = np.packbits(members, axis=1)
    _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    texts = [SEPARATOR.join(name for name, held in zip(names, row, strict=True) if held) for row in members[first]]
    return pl.Series(texts, dtype=pl.String).gather(place.ravel())
