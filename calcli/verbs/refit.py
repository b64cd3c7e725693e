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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.batch import Batch, FloatArray
from calcli.decisions.measure import Promise
from calcli.errors import UsageError
from calcli.files import as_text
from calcli.listener import SILENT, Listener, stage
from calcli.metrics import catalog as metrics
from calcli.models.auto import Evidence
from calcli.models.base import Model, decider_of, kept_at, open_model
from calcli.models.calibrator import CalibratorModel
from calcli.models.policy import (
    EVIDENCE,
    IN_PLACE,
    asked_in,
    label_refusal,
    seen_before,
    seen_warnings,
    too_few,
)
from calcli.models.recipe import Recipe
from calcli.models.requests import RefitRequest
from calcli.models.trial import TrialRows
from calcli.places import Url, folder
from calcli.reports.conditions import Guard
from calcli.reports.groups import LabelCheck, in_units
from calcli.reports.measuring import Measurements, data_facts, report_on
from calcli.reports.schema import Report
from calcli.tables.load import load
from calcli.tables.request import check_master, open_table
from calcli.tables.source import Source
from calcli.verbs.fit import trial_rows
from calcli.verbs.policies import REPLICATES, decision_entry
from calcli.verbs.refit_calibrator import RefitResult, refit_calibrator

NEW = "new"
"""The name of the policy of the new rows, in the report."""


@dataclass(frozen=True, slots=True)
class DecisionRefit:
    """The report, and whether the policy was replaced."""

    path: Path | Url
    report: Report
    kept: str | None
    """Why the one in place stays; None where it was replaced."""

    usual: bool
    """Whether it stays because nothing speaks against it, as on most nights."""

    why: str
    """The sentence that says what the new rows show."""


def _of_promise(promise: Promise) -> tuple[float, str]:
    """The p-value of the new rows if the policy in place keeps its promise, and what they show."""
    value = "on no rows" if promise.value is None else f"{promise.value:.4g} on new rows"
    return promise.p, f"the one in place promised {promise.target}, and has {value} (p = {promise.p:.3g})"


def _of_costs(saved: FloatArray, rows: Batch) -> tuple[float, str]:
    """The p-value if nothing is saved, by the normal distribution of the mean of what each row saves."""
    from scipy.stats import norm

    found = Evidence.of(saved, rows.weight, rows.together)
    mean = float(np.average(saved, weights=rows.weight))
    p = float(norm.sf(found.nats / found.error)) if found.error > 0.0 else 1.0
    return p, f"on new rows that did not choose it, the new one saves {mean:+.4g} a row (p = {p:.3g})"


def _decisions(
    old: Model, path: Path | Url, source: Source, request: RefitRequest, listener: Listener
) -> DecisionRefit:
    """A policy that decides by the score as it is, or intervals of amounts."""
    goal, flags = asked_in(old.manifest, path), old.flags
    goal = goal if request.resample_by is None else replace(goal, resample_by=request.resample_by)
    decider = decider_of(goal, flags)
    with stage(listener, "looking at the columns"):
        binding = old.bind(source, flags)
    with stage(listener, "reading"):
        loaded = load(source, binding, features=decider.features, bad_rows=request.bad_rows or "fail")
        loaded = in_units(loaded, goal.resample_by, None)
        seen = seen_before(loaded, old.manifest)
        # Rows that the rule in place was not chosen on judge it, if there are any.
        judges = np.ones(len(seen), dtype=np.bool_) if seen.all() else ~seen
        rows, judged = decider.rows(loaded, request.seed), old.judged(loaded).taken(judges)
    with stage(listener, "deciding"):
        numbers, promise = judged.measured(replicates=REPLICATES, seed=request.seed)
        choice = rows.choose(request.seed)
        if promise is not None:
            p, why = _of_promise(promise)
        else:
            paid = judged.paid()
            saved = np.zeros(int(judges.sum())) if paid is None else rows.saved(paid, judges, request.seed)
            p, why = _of_costs(saved, loaded.batch.take(judges))
    wrong = few = None
    if loaded.batch.label is not None:
        ranking = LabelCheck.of(loaded.batch)
        wrong, few = label_refusal(old.manifest, ranking), too_few(old.manifest, ranking)
    undecided = choice.why if choice.rule is None else None
    entries = [decision_entry(IN_PLACE, judged.kind, numbers, promise)]
    if choice.rule is not None:
        chosen = next(option for option in choice.options if option.name == choice.chosen)
        entries.append(decision_entry(NEW, choice.rule.kind, chosen.numbers, None))
    report = report_on("refit", request.seed, data_facts(loaded), binding, Measurements({}))
    # Is that enough to replace the policy?
    evidence, refused = -math.log(max(p, 1e-300)), wrong or undecided
    enough = evidence >= EVIDENCE
    reason = refused or (few if enough else f"{why}: that is not enough to replace it")
    report = replace(
        report,
        artifact=as_text(path),
        chosen=NEW if reason is None else IN_PLACE,
        refit={"replaced": reason is None, "evidence": evidence, "threshold": EVIDENCE, "reason": reason},
        warnings=seen_warnings(seen, ~seen),
        decisions=tuple(entries),
    )
    if reason is None:
        rows.model(choice, report.data, request.seed).save(path)
    kept = None if reason is None else f"{reason}; nothing was changed"
    return DecisionRefit(path, report, kept, refused is None and not enough, why)


def refit(request: RefitRequest, listener: Listener = SILENT) -> RefitResult | DecisionRefit:
    """Fit on new rows, and replace the artifact if that is shown to be better."""
    check_master(request.engine, request.master, request.sample)
    path = kept_at(request.artifact)
    old = open_model(path)
    if old.manifest.kind == "multi" or not store.exists(path):
        raise UsageError(
            f"{old.name}: calibrators of several labels are not renewed one night at a time",
            hint="fit them again: calcli fit DATA --multi LABELS SCORES -o DIR",
        )
    recipe = old.recipe
    if recipe is None:
        with _open(request) as source:
            return _decisions(old, path, source, request, listener)
    assert isinstance(old, CalibratorModel)  # only calibrators are fitted to rows
    return _calibrator(old, path, recipe, request, listener)


def _calibrator(
    old: CalibratorModel, path: Path | Url, recipe: Recipe, request: RefitRequest, listener: Listener
) -> RefitResult:
    """A calibrator, with its policy if it has one."""
    recipe = recipe if request.bad_rows is None else replace(recipe, bad_rows=request.bad_rows)
    # Check the recipe before any rows are read.
    if (request.resample_by, request.order_by) != (None, None):
        recipe = replace(recipe, resample_by=request.resample_by, order_by=request.order_by)
    recipe.check_settings(request.sides)
    recipe.check_installed({*request.sides.roles, *old.calibrator.sides.roles})
    Guard.of(request.guard, metrics.choose(recipe.metrics, request.guard))
    if request.engine == "local":
        with _open(request) as source:
            return refit_calibrator(request, old, path, recipe, TrialRows(source), listener)
    if request.pool_nights is not None:
        raise UsageError("--pool-nights counts files, and a cluster reads directories", hint="name the directories")
    with trial_rows(request, recipe.flags, recipe.resample_by, listener, old.fitted_binding, recipe.method) as rows:
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
