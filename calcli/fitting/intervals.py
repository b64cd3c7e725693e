"""Intervals on tables: the rows that choose them, and the artifact that keeps them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.artifacts.store import Artifact
from calcli.artifacts.strictjson import as_json
from calcli.decisions.goal import DecisionGoal
from calcli.decisions.intervals import Amounts
from calcli.decisions.options import Choice
from calcli.decisions.policy import IntervalRule
from calcli.engines.decision_columns import codes
from calcli.errors import ArtifactError, DataError
from calcli.fitting.manifest import manifest_of
from calcli.fitting.model import THRESHOLD
from calcli.numeric.probing import damage
from calcli.places import Url
from calcli.reports.groups import groups, values_of
from calcli.reports.schema import DataFacts
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded
from calcli.tables.source import Source
from calcli.tables.training_binding import bind_unscored


@dataclass(frozen=True, slots=True)
class IntervalModel:
    """Conformal intervals as an artifact keeps them; its features are the predictions that they are built on."""

    path: Path | Url | None
    manifest: Manifest
    binding: Binding
    sha256: str | None
    rule: IntervalRule

    method = "intervals"

    def save(self, path: str | Path | Url) -> None:
        """Keep it in a directory, or as the next generation of the artifact that is there."""
        store.write(path, self.manifest, {THRESHOLD: self.rule.to_state()})


def opened_intervals(artifact: Artifact) -> IntervalModel:
    """The intervals that an artifact holds; a damaged one is found by predicting with it."""
    if not artifact.manifest.holds_intervals:
        raise ArtifactError(f"{artifact.path} has no intervals", hint="try: calcli decide DATA --intervals 0.9")
    with damage(artifact.path, "a policy of intervals"):
        binding, rule = (
            Binding.from_json(artifact.manifest.binding),
            IntervalRule.from_state(artifact.states[THRESHOLD]),
        )
        if {feature.name for feature in binding.features} != set(rule.reads):
            raise ValueError("the intervals read other columns than the binding names")
        rule.intervals.predict(np.zeros(1), np.zeros(1), spread=np.ones(1), group=np.zeros(1, dtype=np.int64))
    return IntervalModel(artifact.path, artifact.manifest, binding, artifact.sha256, rule)


def bind_amounts(source: Source, flags: Flags, ask: DecisionGoal) -> Binding:
    """The label, and the predicted amounts as features."""
    names = dict.fromkeys((*ask.predicted, ask.spread, ask.variance))
    features = tuple(name for name in names if name is not None)
    if missing := [name for name in features if name not in source.columns]:
        raise DataError(
            f"the table has no column {missing[0]!r} of predictions",
            hint="name it: --prediction COLUMN, or --quantiles",
        )
    binding = bind_unscored(source, replace(flags, features=features), task="regression")
    if wrong := [feature.name for feature in binding.features if feature.role != "number"]:
        raise DataError(f"the column {wrong[0]!r} holds no numbers", hint="name another one: --prediction COLUMN")
    return binding


def amounts_of(loaded: Loaded, ask: DecisionGoal) -> tuple[Amounts, tuple[str, ...]]:
    """The loaded rows, and the names of their groups."""
    group, names = None, tuple[str, ...]()
    if ask.by is not None:
        found, group = groups(loaded, ask.by)
        names = tuple("" if name is None else name for name in found)
    columns = (*ask.predicted, ask.spread or ask.variance)
    amounts = Amounts.of(loaded.batch, *columns, squared=ask.variance is not None, group=group)
    if not amounts.known.all():
        bad = int((~amounts.known).sum())
        raise DataError(f"{bad:,} rows have no prediction, or no spread of 0 or more", hint="leave them out, before")
    return amounts, names


def measured_amounts(loaded: Loaded, rule: IntervalRule) -> Amounts:
    """The loaded rows, with the groups that the intervals know."""
    group = None
    if rule.column is not None:
        group = codes(values_of(loaded, rule.column, "the policy"), rule.groups)
    return Amounts.of(loaded.batch, rule.lower, rule.upper, rule.spread, squared=rule.squared, group=group)


def interval_model(ask: DecisionGoal, choice: Choice, data: DataFacts, binding: Binding, seed: int) -> IntervalModel:
    """The artifact of intervals that were chosen on these rows."""
    assert choice.intervals is not None
    manifest = manifest_of(
        data,
        binding,
        kind="policy",
        task="regression",
        method=IntervalModel.method,
        requested=IntervalModel.method,
        preset=None,
        params={},
        seed=seed,
        recipe={"decision": ask.to_json()},
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
    return IntervalModel(None, manifest, binding, None, choice.intervals)
