"""`refit`: the same recipe on new rows, kept only if it is shown to be better than what is in place. For nightly jobs.

The new calibrator is compared with the one in place on held-out rows of the new data. It replaces the artifact if it
makes their labels so much more likely that chance hardly does it in a year of nights, nor a few rows alone, and is not
worse in the guard's metric than the one in place or no calibration. So the luck of a night replaces no calibrator that
is right by one that was fitted on fewer rows.

A policy is chosen anew with its calibrator, on the held-out rows and for what it was chosen for before; if nothing
meets its target, the artifact stays as it is. One without a calibrator has rules of its own: see `refit_policy`.

The comparison cannot detect labels that were shuffled or have not come in yet: with them, predicting the base rate for
every row is truly better. So the artifact also stays if the scores no longer rank the labels better than chance, though
they did when it was fitted.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.engines.listener import SILENT, Listener
from calcli.engines.options import check_master
from calcli.errors import UsageError
from calcli.fitting.intervals import opened_intervals
from calcli.fitting.model import Model, opened
from calcli.fitting.model_selection import IDENTITY
from calcli.fitting.recipe import Recipe
from calcli.fitting.requests import RefitRequest
from calcli.metrics import catalog as metrics
from calcli.places import Url, folder
from calcli.reports.guard import Guard
from calcli.tables.source import Source, open_source
from calcli.verbs.refit_calibrator import RefitResult, refit_calibrator
from calcli.verbs.refit_policy import PolicyRefit, refit_intervals, refit_policy


def refit(request: RefitRequest, listener: Listener = SILENT) -> RefitResult | PolicyRefit:
    """Fit on new rows, and replace the artifact if that is shown to be better."""
    check_master(request.engine, request.master, request.sample)
    artifact, path = store.read(request.artifact), folder(request.artifact)
    more = request.resample_by, request.seed, listener
    if artifact.manifest.holds_intervals:
        with _open(request) as source:
            return refit_intervals(opened_intervals(artifact), path, source, *more)
    old = opened(artifact)
    recipe = Recipe.from_json(old.manifest.recipe)
    if old.policy is not None and recipe.method == IDENTITY:
        with _open(request) as source:
            return refit_policy(old, path, source, recipe.flags, *more)
    return _calibrator(old, path, recipe, request, listener)


def _calibrator(old: Model, path: Path | Url, recipe: Recipe, request: RefitRequest, listener: Listener) -> RefitResult:
    """A calibrator, with its policy if it has one."""
    # Check the recipe before any rows are read.
    if (request.resample_by, request.order_by) != (None, None):
        recipe = replace(recipe, resample_by=request.resample_by, order_by=request.order_by)
    recipe.check_settings(request.sides)
    recipe.check_installed({*request.sides.roles, *old.calibrator.sides.roles})
    Guard.of(request.guard, metrics.choose(f"{recipe.metrics},{request.guard}"))
    if request.engine == "local":
        with _open(request) as source:
            return refit_calibrator(request, old, path, recipe, source, listener)

    from calcli.spark.sample import sampled_table

    if request.pool_nights is not None:
        raise UsageError("--pool-nights counts files, and a cluster reads directories", hint="name the directories")
    with sampled_table(request, recipe.flags, recipe.resample_by, listener, old.fitted_binding) as sample:
        return refit_calibrator(request, old, path, recipe, sample.source, listener, sample)


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
    source = open_source(request.data, format=request.input_format, delimiter=request.delimiter, last=nights)
    if nights is not None and not source.paths:
        source.close()
        raise UsageError(f"--pool-nights {nights} counts files, and {source.name} is none", hint="name the files")
    return source


def _of_fit(manifest: Manifest) -> str:
    """``of 2026-01-31 12:00:05 UTC on 30,000 rows``."""
    rows = cast("int", manifest.fit["rows"])
    return f"of {manifest.created[:19].replace('T', ' ')} UTC on {rows:,} rows"
