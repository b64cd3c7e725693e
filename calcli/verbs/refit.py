"""`refit`: the same recipe on new rows, kept only if it is shown to be better than what is in place. For nightly jobs.

The new calibrator is compared with the one in place on held-out rows of the new data. It replaces the artifact if it
makes their labels so much more likely that chance hardly does it in a year of nights, nor a few rows alone, and is not
worse in the guard's metric than the one in place or no calibration. So the luck of a night replaces no calibrator that
is right by one that was fitted on fewer rows.

A policy is chosen anew with its calibrator, on the held-out rows and for what it was chosen for before; if nothing
meets its target, the artifact stays as it is.

The comparison cannot detect labels that were shuffled or have not come in yet: with them, predicting the base rate for
every row is truly better. So the artifact also stays if the scores no longer rank the labels better than chance, though
they did when it was fitted.

A policy without a calibrator, of a score as it is or of intervals of amounts, is chosen again on the new rows, for what
it was chosen for before. It replaces the one in place only for a reason that chance gives on one night of 7,300 at
most: the new rows refute what the one in place promised; or, where it was chosen for its costs, the new one costs less
on new rows that did not choose it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.batch import FloatArray
from calcli.decisions.choice import choose
from calcli.decisions.goal import Choice, DecisionGoal, decision_splits
from calcli.decisions.intervals import choose_intervals, measure_intervals
from calcli.decisions.measure import Promise, Rows, measure, paid_of
from calcli.decisions.policy import Policy
from calcli.errors import UsageError
from calcli.evaluation.policies import REPLICATES, decision_entry
from calcli.files import as_text
from calcli.listener import SILENT, Listener, stage
from calcli.metrics import catalog as metrics
from calcli.models.auto import Evidence
from calcli.models.base import open_model
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Mask
from calcli.models.intervals import IntervalModel, amounts_of, interval_model, measured_amounts
from calcli.models.model_selection import IDENTITY
from calcli.models.policy import (
    EVIDENCE,
    IN_PLACE,
    asked_in,
    label_refusal,
    measured_rows,
    rows_of,
    seen_before,
    seen_warnings,
    uncalibrated,
    with_policy,
)
from calcli.models.recipe import Recipe
from calcli.models.requests import RefitRequest
from calcli.models.trial import TrialRows
from calcli.places import Url, folder
from calcli.reports.conditions import Guard
from calcli.reports.groups import LabelCheck, in_units
from calcli.reports.measuring import Measurements, data_facts, report_on
from calcli.reports.schema import Report
from calcli.state import Json
from calcli.tables.binding import bind, bind_unscored
from calcli.tables.binding_types import Flags
from calcli.tables.load import load
from calcli.tables.request import check_master, open_table
from calcli.tables.source import Source
from calcli.verbs.fit import trial_rows
from calcli.verbs.refit_calibrator import RefitResult, refit_calibrator

NEW = "new"
"""The name of the policy of the new rows, in the report."""


@dataclass(frozen=True, slots=True)
class PolicyRefit:
    """The report, and whether the policy was replaced."""

    path: Path | Url
    report: Report
    kept: str | None
    """Why the one in place stays; None where it was replaced."""

    usual: bool
    """Whether it stays because nothing speaks against it, as on most nights."""

    why: str
    """The sentence that says what the new rows show."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """The evidence of new rows against the policy in place, in nats and in words."""

    evidence: float
    why: str

    @classmethod
    def of_promise(cls, promise: Promise) -> _Shown:
        value = "on no rows" if promise.value is None else f"{promise.value:.4g} on new rows"
        speaks = -math.log(max(promise.p, 1e-300))
        why = f"the one in place promised {promise.target}, and has {value} (p = {promise.p:.3g})"
        return cls(speaks, why)

    @classmethod
    def of_costs(cls, saved: FloatArray, rows: Rows) -> _Shown:
        """By the normal distribution of the mean of what each row saves."""
        from scipy.stats import norm

        found = Evidence.of(saved, rows.weight, rows.together)
        mean = float(np.average(saved, weights=rows.weight))
        p = float(norm.sf(found.nats / found.error)) if found.error > 0.0 else 1.0
        why = f"on new rows that did not choose it, the new one saves {mean:+.4g} a row (p = {p:.3g})"
        return cls(-math.log(max(p, 1e-300)), why)


def refit_policy(
    old: CalibratorModel,
    path: Path | Url,
    source: Source,
    flags: Flags,
    resample_by: str | None,
    seed: int,
    listener: Listener,
) -> PolicyRefit:
    """A policy that decides by the score as it is."""
    assert old.policy is not None
    ask = _asked(old.manifest, path, resample_by)
    with stage(listener, "looking at the columns"):
        binding = bind(source, flags, known=old.fitted_binding)
    with stage(listener, "reading"):
        loaded = in_units(load(source, binding, features=False), ask.resample_by, None)
        seen = seen_before(loaded, old.manifest)
        rows = rows_of(loaded, old.calibrator.predict(loaded.batch), ask)
        group, beside = measured_rows(loaded, old.policy.rule)
    with stage(listener, "deciding"):
        judge = _judges(seen)
        judges, there = replace(rows, group=group).taken(judge), {name: of[judge] for name, of in beside.items()}
        numbers, promise = measure(old.policy, judges, there, replicates=REPLICATES, seed=seed)
        shown = _Shown.of_costs(_saved(old.policy, ask, rows.taken(judge), there, seed), judges)
        if promise is not None:
            shown = _Shown.of_promise(promise)
        choice = choose(ask, rows, seed)
    wrong = label_refusal(old.manifest, LabelCheck.of(loaded.batch))
    undecided = choice.why if choice.policy is None else None
    entries = [decision_entry(IN_PLACE, old.policy.kind, numbers, promise)]
    entries += [] if choice.policy is None else [_new_entry(choice, choice.policy.kind)]
    report = report_on("refit", seed, data_facts(loaded), binding, Measurements({}, (), (), ()))
    result = _result(path, replace(report, decisions=tuple(entries)), shown, seen, wrong or undecided)
    if result.kept is None:
        model = uncalibrated(loaded, flags, seed)
        with_policy(model, ask, choice, report.data).save(path)
    return result


def refit_intervals(
    old: IntervalModel, path: Path | Url, source: Source, resample_by: str | None, seed: int, listener: Listener
) -> PolicyRefit:
    """Intervals of predicted amounts."""
    ask = _asked(old.manifest, path, resample_by)
    with stage(listener, "looking at the columns"):
        binding = bind_unscored(source, known=old.binding)
    with stage(listener, "reading"):
        loaded = in_units(load(source, binding, features=True), ask.resample_by, None)
        seen = seen_before(loaded, old.manifest)
        amounts, groups = amounts_of(loaded, ask)
    with stage(listener, "deciding"):
        numbers, promised = measure_intervals(old.rule, measured_amounts(loaded, old.rule).taken(_judges(seen)))
        promise = promised.tested()
        choice = choose_intervals(ask, amounts, groups, seed)
    entries = decision_entry(IN_PLACE, old.rule.kind, numbers, promise), _new_entry(choice, old.rule.kind)
    report = report_on("refit", seed, data_facts(loaded), binding, Measurements({}, (), (), ()))
    result = _result(path, replace(report, decisions=entries), _Shown.of_promise(promise), seen, None)
    if result.kept is None:
        interval_model(ask, choice, report.data, binding, seed).save(path)
    return result


def _asked(manifest: Manifest, path: Path | Url, resample_by: str | None) -> DecisionGoal:
    ask = asked_in(manifest, path)
    return ask if resample_by is None else replace(ask, resample_by=resample_by)


def _judges(seen: Mask) -> Mask:
    """The rows that the policy in place is judged by: those that it was not chosen on, if there are any."""
    return np.ones(len(seen), dtype=np.bool_) if seen.all() else ~seen


def _saved(policy: Policy, ask: DecisionGoal, rows: Rows, beside: Mapping[str, FloatArray], seed: int) -> FloatArray:
    """The costs that each row saves under a policy chosen on other rows; 0 where no policy can be chosen."""
    saved = np.zeros(len(rows.prob))
    paid = paid_of(policy, rows, beside)
    if paid is None:
        return saved
    for train, test in decision_splits(rows.units, len(saved), ask.folds, seed):
        new = choose(ask, rows.taken(train), seed).policy
        cost = None if new is None else paid_of(new, rows.taken(test), {name: of[test] for name, of in beside.items()})
        saved[test] = 0.0 if cost is None else paid[test] - cost
    return saved


def _new_entry(choice: Choice, kind: str) -> dict[str, Json]:
    chosen = next(option for option in choice.options if option.name == choice.chosen)
    return decision_entry(NEW, kind, chosen.numbers, None)


def _result(path: Path | Url, report: Report, shown: _Shown, seen: Mask, refused: str | None) -> PolicyRefit:
    """Whether that is enough to replace the policy."""
    enough = shown.evidence >= EVIDENCE
    unshown = None if enough else f"{shown.why}: that is not enough to replace it"
    reason = refused or unshown
    report = replace(
        report,
        artifact=as_text(path),
        chosen=NEW if reason is None else IN_PLACE,
        refit={"replaced": reason is None, "evidence": shown.evidence, "threshold": EVIDENCE, "reason": reason},
        warnings=seen_warnings(seen, ~seen),
    )
    kept = None if reason is None else f"{reason}; nothing was changed"
    return PolicyRefit(path, report, kept, refused is None and not enough, shown.why)


def refit(request: RefitRequest, listener: Listener = SILENT) -> RefitResult | PolicyRefit:
    """Fit on new rows, and replace the artifact if that is shown to be better."""
    check_master(request.engine, request.master, request.sample)
    old, path = open_model(store.read(request.artifact)), folder(request.artifact)
    more = request.resample_by, request.seed, listener
    if isinstance(old, IntervalModel):
        with _open(request) as source:
            return refit_intervals(old, path, source, *more)
    assert isinstance(old, CalibratorModel)
    recipe = Recipe.from_json(old.manifest.recipe)
    if old.policy is not None and recipe.method == IDENTITY:
        with _open(request) as source:
            return refit_policy(old, path, source, recipe.flags, *more)
    return _calibrator(old, path, recipe, request, listener)


def _calibrator(
    old: CalibratorModel, path: Path | Url, recipe: Recipe, request: RefitRequest, listener: Listener
) -> RefitResult:
    """A calibrator, with its policy if it has one."""
    # Check the recipe before any rows are read.
    if (request.resample_by, request.order_by) != (None, None):
        recipe = replace(recipe, resample_by=request.resample_by, order_by=request.order_by)
    recipe.check_settings(request.sides)
    recipe.check_installed({*request.sides.roles, *old.calibrator.sides.roles})
    Guard.of(request.guard, metrics.choose(f"{recipe.metrics},{request.guard}"))
    if request.engine == "local":
        with _open(request) as source:
            return refit_calibrator(request, old, path, recipe, TrialRows(source), listener)
    if request.pool_nights is not None:
        raise UsageError("--pool-nights counts files, and a cluster reads directories", hint="name the directories")
    with trial_rows(request, recipe.flags, recipe.resample_by, listener, old.fitted_binding) as rows:
        return refit_calibrator(request, old, path, recipe, rows, listener)


def rollback(artifact: str | Path, listener: Listener = SILENT) -> Path | Url:
    """Put the previous generation back in place; a second rollback undoes the first."""
    path = folder(artifact)
    before = store.describe(path)
    now = store.rollback(path)
    listener.note(
        f"{path} is the fit {_of_fit(now)} again; the one {_of_fit(before)} is kept, and another --rollback puts "
        "it back"
    )
    return path


def _open(request: RefitRequest) -> Source:
    """The table: of its files, the nights that are asked for."""
    if request.engine != "local":
        raise UsageError(
            "--engine spark renews calibrators, and not policies without one",
            hint="take a sample of the rows, and leave out --engine",
        )
    nights = request.pool_nights
    if nights is not None and nights < 1:
        raise UsageError(f"--pool-nights {nights}: at least one night is needed")
    source = open_table(request, last=nights)
    if nights is not None and not source.paths:
        source.close()
        raise UsageError(f"--pool-nights {nights} counts files, and {source.name} is none", hint="name the files")
    return source


def _of_fit(manifest: Manifest) -> str:
    """``of 2026-01-31 12:00:05 UTC on 30,000 rows``."""
    rows = cast("int", manifest.fit["rows"])
    return f"of {manifest.created[:19].replace('T', ' ')} UTC on {rows:,} rows"
