"""Conformal intervals of amounts on tables: the rows that choose them, and the artifact that keeps them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from calcli.artifacts.store import Artifact
from calcli.artifacts.strictjson import as_json
from calcli.batch import FloatArray
from calcli.decisions.formulas import ends
from calcli.decisions.goal import Choice, DecisionGoal
from calcli.decisions.intervals import Amounts, choose_intervals, measure_intervals
from calcli.decisions.measure import Number, Promise, Promised
from calcli.decisions.policy import ENDS, IntervalRule
from calcli.errors import DataError, UsageError
from calcli.expressions import Term
from calcli.models.base import RULE, ColumnOptions, Contents, Decider, DecisionRows, Given, Model, check_reads
from calcli.models.decided import codes
from calcli.models.held_out import Mask
from calcli.models.manifests import manifest_of
from calcli.models.stream import Computed, ModelColumns
from calcli.reports.groups import groups_of_new_rows, values_of
from calcli.reports.schema import DataFacts
from calcli.state import State, damage_reported
from calcli.tables.arrays import Levels
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.checks import bound_columns, encode
from calcli.tables.load import Loaded
from calcli.tables.source import Data, Source

_WHAT = "a policy of intervals"


@dataclass(frozen=True, slots=True)
class IntervalColumns(ModelColumns):
    """The ends of the intervals that are built on predicted amounts."""

    rule: IntervalRule

    @property
    def reads(self) -> list[str]:
        more = () if self.rule.column is None else (self.rule.column,)
        return list(dict.fromkeys([*bound_columns(self.binding, label=False, features=True), *more]))

    @property
    def names(self) -> tuple[str, ...]:
        return ENDS

    def formulas(self) -> dict[str, Term]:
        """The ends as terms."""
        return ends(self.rule)

    def numbers(self, rows: pl.DataFrame, levels: Levels) -> Computed:
        """The ends of `policy`: those that there are, and missing where they are infinite."""
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


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class IntervalModel(Model):
    """Conformal intervals as an artifact keeps them; its features are the predictions that they are built on."""

    rule: IntervalRule

    @classmethod
    def read(cls, artifact: Artifact) -> IntervalModel:
        with damage_reported(artifact.path, _WHAT):
            binding = Binding.from_json(artifact.manifest.binding)
            rule = IntervalRule.from_state(artifact.states[RULE])
            if {feature.name for feature in binding.features} != set(rule.reads):
                raise ValueError("the intervals read other columns than the binding names")
        return cls(artifact.path, artifact.manifest, binding, artifact.sha256, rule)

    def probe(self) -> None:
        with damage_reported(self.path, _WHAT):
            one = np.ones(1)
            self.rule.intervals.predict(0 * one, 0 * one, spread=one, group=np.zeros(1, dtype=np.int64))

    def columns(self, source: Source, flags: Flags, options: ColumnOptions) -> IntervalColumns:
        added = IntervalColumns(bind_unscored(source, known=self.binding, need_label=False), self.rule)
        check_reads(source, added.reads)
        return added

    def exported_columns(self, options: ColumnOptions) -> IntervalColumns:
        return IntervalColumns(self.binding, self.rule)

    def contents(self, *, rules: bool) -> Contents:
        return Contents(numbers=dict(self.rule.to_state().params))

    @property
    def states(self) -> dict[str, State]:
        return {RULE: self.rule.to_state()}

    def bind(self, source: Source, flags: Flags) -> Binding:
        return bind_unscored(source, flags, known=self.binding)

    def judged(self, loaded: Loaded) -> JudgedAmounts:
        rule, group = self.rule, None
        if rule.column is not None:
            group = codes(values_of(loaded, rule.column, "the policy"), rule.groups)
        amounts = Amounts.of(loaded.batch, rule.lower, rule.upper, rule.spread, squared=rule.squared, group=group)
        return JudgedAmounts(rule, amounts)


@dataclass(frozen=True, slots=True)
class AmountDecider(Decider):
    """Intervals of amounts that the columns of a table predict."""

    calibrator = None
    features = True

    @classmethod
    def of(cls, goal: DecisionGoal, flags: Flags, calibrator: Given | None, edges: Data | None) -> AmountDecider:
        if calibrator is not None:
            raise UsageError(
                "--intervals are for predictions in the table: --with is a calibrator", hint="leave it out"
            )
        if edges is not None:
            raise UsageError("--intervals are for predictions in the table: they use no --edges", hint="leave it out")
        return cls(goal, flags)

    def bind(self, source: Source) -> Binding:
        names = dict.fromkeys((*self.goal.predicted, self.goal.spread, self.goal.variance))
        features = tuple(name for name in names if name is not None)
        if missing := [name for name in features if name not in source.columns]:
            raise DataError(
                f"the table has no column {missing[0]!r} of predictions",
                hint="name it: --prediction COLUMN, or --quantiles",
            )
        binding = bind_unscored(source, replace(self.flags, features=features), task="regression")
        if wrong := [feature.name for feature in binding.features if feature.role != "number"]:
            raise DataError(f"the column {wrong[0]!r} holds no numbers", hint="name another one: --prediction COLUMN")
        return binding

    def rows(self, loaded: Loaded, seed: int) -> AmountRows:
        goal, group, names = self.goal, None, tuple[str, ...]()
        if goal.by is not None:
            names, group = groups_of_new_rows(loaded, goal.by, loaded.binding.label)
        columns = (*goal.predicted, goal.spread or goal.variance)
        amounts = Amounts.of(loaded.batch, *columns, squared=goal.variance is not None, group=group)
        if not amounts.known.all():
            bad = int((~amounts.known).sum())
            raise DataError(
                f"{bad:,} rows have no prediction, or no spread of 0 or more", hint="leave them out, before"
            )
        return AmountRows(goal, loaded.binding, amounts, names)


@dataclass(frozen=True, slots=True)
class AmountRows(DecisionRows):
    """Rows with the amounts that came true, and the names of their groups."""

    goal: DecisionGoal
    binding: Binding
    amounts: Amounts
    groups: tuple[str, ...]

    def choose(self, seed: int) -> Choice:
        return choose_intervals(self.goal, self.amounts, self.groups, seed)

    def model(self, choice: Choice, data: DataFacts, seed: int) -> IntervalModel:
        assert choice.intervals is not None
        manifest = manifest_of(
            data,
            self.binding,
            kind="policy",
            task="regression",
            method="intervals",
            requested="intervals",
            preset=None,
            params={},
            seed=seed,
            recipe={"decision": self.goal.to_json()},
            fit={
                "holdout": {"scheme": "none", "rows": 0, "refit_on_all": True},
                "before": {},
                "after": {},
                "difference": {},
                "decision": as_json(choice.to_json()),
            },
            definitions={},
            sides=(),
            contains_rows=False,
        )
        return IntervalModel(None, manifest, self.binding, None, choice.intervals)


@dataclass(frozen=True, slots=True)
class JudgedAmounts:
    """Rows with the amounts that came true, under intervals that were not chosen on them."""

    rule: IntervalRule
    amounts: Amounts

    @property
    def kind(self) -> str:
        return self.rule.kind

    def taken(self, mask: Mask) -> JudgedAmounts:
        return replace(self, amounts=self.amounts.taken(mask))

    def measured(self, *, replicates: int, seed: int) -> tuple[dict[str, Number], Promise | None]:
        numbers, promised = measure_intervals(self.rule, self.amounts)
        return numbers, promised.tested()

    def promised(self) -> list[Promised]:
        return [measure_intervals(self.rule, self.amounts)[1]]

    def paid(self) -> FloatArray | None:
        return None
