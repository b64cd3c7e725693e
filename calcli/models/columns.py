"""The columns that a calibrator adds to a table, and those of a policy that decides by its probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, IntArray
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
)
from calcli.errors import UsageError
from calcli.export.document import table_inputs
from calcli.expressions import Term, Terms, choose
from calcli.methods.calibrator import FittedMethod, formula_of
from calcli.models.base import Scale
from calcli.models.stream import Computed, ModelColumns
from calcli.numeric.links import logits
from calcli.tables import arrays
from calcli.tables.arrays import Levels, index_order
from calcli.tables.binding_types import Binding
from calcli.tables.checks import bound_columns, encode
from calcli.tables.labels import class_text
from calcli.tables.load import doubt_of_scale
from calcli.tables.load import load as load_rows
from calcli.tables.side_tables import load_nodes
from calcli.tables.source import Source


def link_remarks(calibrator: FittedMethod, binding: Binding, source: Source) -> tuple[str, ...]:
    """How an edge list links the rows of a table, and how many it does not link."""
    return () if binding.node_id is None else calibrator.remarks(load_nodes(source, binding.node_id))


@dataclass(frozen=True, slots=True)
class CalibratedColumns(ModelColumns):
    """The columns that a calibrator adds."""

    stem: str
    """Their name; with more than two classes the name of the class follows."""

    calibrator: FittedMethod
    scale: Scale = "prob"
    """Whether they hold probabilities, or what `logits` makes of them."""

    extra: bool = False
    """Whether to add the logits, and the interval and the extras of the method where it has them."""

    features: bool = False
    """Whether the method reads them."""

    task = "calibrating"
    rename = "try: --column NAME"

    @property
    def whole_table(self) -> bool:
        return self.calibrator.whole_table

    @property
    def reads(self) -> list[str]:
        return bound_columns(self.binding, label=False, features=self.features)

    @property
    def names(self) -> tuple[str, ...]:
        stems = [self.stem]
        if self.extra:
            stems.append(f"{self.stem}__logit")
            if self.calibrator.spec.interval:
                stems += [f"{self.stem}__lo", f"{self.stem}__hi"]
        if len(self.binding.classes) > 2:
            stems = [f"{stem}_{class_text(label)}" for stem in stems for label in self.binding.classes]
        return (*stems, *(f"{self.stem}__{name}" for name in self._extras))

    @property
    def _extras(self) -> tuple[str, ...]:
        """Outputs of the method for a row as a whole, without a column for each class."""
        return self.calibrator.extra_names if self.extra else ()

    def formula(self) -> Terms:
        """The probabilities of rows that can be used, by the columns of the table."""
        table = table_inputs(self.binding)
        return formula_of(self.calibrator, table.score, table.features)

    def terms(self, prob: Terms) -> dict[str, Term]:
        """The columns without extras, of the probabilities of `formula`; null where `compute` finds a bad row."""
        valid = table_inputs(self.binding).valid
        values = prob if self.scale == "prob" else terms.logits(prob)
        return {name: choose(valid, value, None) for name, value in zip(self.names, values, strict=True)}

    def formulas(self) -> dict[str, Term]:
        """The columns as terms of the columns of the table."""
        return self.terms(self.formula())

    def written_terms(self) -> dict[str, Term] | None:
        with suppress(UsageError):
            return None if self.extra else self.formulas()
        return None

    def doubt(self, source: Source) -> str | None:
        return doubt_of_scale(source, self.binding)

    def remarks(self, source: Source) -> Sequence[str]:
        """Notes on rows that an edge list links."""
        return link_remarks(self.calibrator, self.binding, source)

    def refuse_bad_rows(self, source: Source) -> None:
        load_rows(source, self.binding, features=self.features, label=False, check_scale=False)

    def compute(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        encoded = encode(rows, self.binding, label=False, features=self.features, levels=levels)
        if encoded.bad is None or not self.calibrator.whole_table:
            return Computed(self._values(encoded.batch), encoded.bad)
        # Where rows depend on each other, the bad ones must not take part.
        good = ~encoded.bad
        values = []
        for of_good in self._values(encoded.batch.take(good)):
            values.append(np.zeros((len(good), *of_good.shape[1:])))
            values[-1][good] = of_good
        return Computed(values, encoded.bad)

    def _values(self, batch: Batch) -> list[FloatArray]:
        prob = self.calibrator.predict(batch)
        values = [prob if self.scale == "prob" else logits(prob)]
        if self.extra:
            values.append(logits(prob))
            if self.calibrator.spec.interval:
                values += self.calibrator.interval(batch)
        if self._extras:
            extras = self.calibrator.extras(batch)
            values += [extras[name] for name in self._extras]
        return values


SEPARATOR = "|"
"""Between the classes of a set."""


@dataclass(frozen=True, slots=True)
class DecisionColumns(ModelColumns):
    """The columns of a calibrator, and of the policy that decides by its probabilities."""

    calibrated: CalibratedColumns
    policy: Policy

    task, rename = CalibratedColumns.task, CalibratedColumns.rename

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
    places = dict(zip(groups, range(len(groups)), strict=True))
    return values.cast(pl.String).fill_null("").replace_strict(places, default=-1, return_dtype=pl.Int64).to_numpy()


def _sets(members: NDArray[np.bool_], names: Sequence[str]) -> pl.Series:
    """The classes of each row's set as text; there are few different sets."""
    packed = np.packbits(members, axis=1)
    _, first, place = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    texts = [SEPARATOR.join(name for name, held in zip(names, row, strict=True) if held) for row in members[first]]
    return pl.Series(texts, dtype=pl.String).gather(place.ravel())
