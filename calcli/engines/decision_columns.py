"""The columns that `apply` adds for a policy: the calibrated ones, and what is decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.decisions import formulas
from calcli.decisions.intervals import Amounts
from calcli.decisions.policy import (
    DECISION,
    ENDS,
    REASON,
    SET,
    YES,
    AnyRule,
    ClassRule,
    IntervalRule,
    MatrixRule,
    Policy,
    SetRule,
)
from calcli.engines.calibrated_columns import CalibratedColumns
from calcli.engines.local import Computed
from calcli.export.inputs import table_inputs
from calcli.expressions import Term, choose
from calcli.numeric.links import logits
from calcli.tables.arrays import Levels, index_order, numbers
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns, encode
from calcli.tables.labels import class_text

SEPARATOR = "|"
"""Between the classes of a set."""


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
        return (*self.calibrated.names, *self.types)

    @property
    def types(self) -> dict[str, pl.DataType]:
        if gives_sets(self.policy.rule):
            return {SET: pl.String()}
        decisions, _ = self._actions()
        return {DECISION: decisions.dtype, REASON: pl.String()}

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
        names = formulas.names_of(self.policy.rule, self._names)
        found = zip(names, formulas.outputs(self.policy.rule, prob), strict=True)
        return self.calibrated.terms(prob) | {name: choose(valid, term, None) for name, term in found}

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """What `compute` decides, as the numbers of `formulas`."""
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
        beside = {name: numbers(rows[name]) for name in rule.reads}
        return rule.members(prob, beside) if isinstance(rule, ClassRule) and rule.top > 1 else rule.decide(prob, beside)

    @property
    def _names(self) -> list[str]:
        """The classes as text."""
        return [class_text(label) for label in index_order(self.binding)]

    def _actions(self) -> tuple[pl.Series, pl.Series]:
        """What is decided by the number of the action, and why."""
        assert not isinstance(self.policy.rule, SetRule)
        actions = self.policy.rule.actions([*index_order(self.binding)])
        decisions, reasons = zip(*actions, strict=True)
        return pl.Series(decisions), pl.Series(reasons)


def _numbered(rule: AnyRule, classes: Sequence[str]) -> FloatArray:
    """The numbers of each action, shape (actions, columns)."""
    if isinstance(rule, ClassRule | MatrixRule):
        named = [name for name in (rule.names if isinstance(rule, MatrixRule) else classes) if name is not None]
        return np.array([[action == name for name in named] for action, _ in rule.actions(classes)], dtype=np.float64)
    return np.array(YES)[:, None]


@dataclass(frozen=True, slots=True)
class IntervalColumns:
    """The ends of the intervals that are built on predicted amounts."""

    binding: Binding
    rule: IntervalRule

    features = True

    @property
    def reads(self) -> list[str]:
        more = () if self.rule.column is None else (self.rule.column,)
        return list(dict.fromkeys([*bound_columns(self.binding, label=False, features=True), *more]))

    @property
    def names(self) -> tuple[str, ...]:
        return ENDS

    @property
    def types(self) -> dict[str, pl.DataType]:
        return {}

    def formulas(self) -> dict[str, Term]:
        """The ends as terms."""
        return formulas.ends(self.rule)

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The ends of `formulas`: those that there are, and missing where they are infinite."""
        computed = self.compute(rows, levels)
        ends = zip(ENDS, computed.values, strict=True)
        return replace(
            computed, values=[np.where(np.isinf(end), np.nan, end) for name, end in ends if name in self.formulas()]
        )

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        encoded = encode(rows, self.binding, label=False, features=True, levels=levels)
        rule = self.rule
        group = None if rule.column is None else codes(rows[rule.column], rule.groups)
        amounts = Amounts.of(encoded.batch, rule.lower, rule.upper, rule.spread, squared=rule.squared, group=group)
        ends = rule.intervals.predict(amounts.lower, amounts.upper, spread=amounts.spread, group=group)
        known = amounts.known
        return Computed(ends, None if known.all() else ~known)


def gives_sets(rule: AnyRule) -> bool:
    """Whether a row may get several classes."""
    return isinstance(rule, SetRule) or (isinstance(rule, ClassRule) and rule.top > 1)


def codes(values: pl.Series, groups: Sequence[str]) -> IntArray:
    """The place of each row's value among the groups, of which the empty text stands for none; -1 for a new one."""
    places = dict(zip(groups, range(len(groups)), strict=True))
    return values.cast(pl.String).fill_null("").replace_strict(places, default=-1, return_dtype=pl.Int64).to_numpy()


def _sets(members: NDArray[np.bool_], names: Sequence[str]) -> pl.Series:
    """The classes of each row's set as text; there are few different sets."""
    packed = np.packbits(members, axis=1)
    _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    texts = [SEPARATOR.join(name for name, held in zip(names, row, strict=True) if held) for row in members[first]]
    return pl.Series(texts, dtype=pl.String).gather(place.ravel())
