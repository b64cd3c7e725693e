"""`refit`: the same recipe on new rows, kept only if it is not worse than what is in place. Made for nightly jobs.

The new calibrator is compared with the one in place and with no calibration on held-out rows of the new data. It
replaces the artifact unless it is worse than either by more than a margin.

The comparison cannot detect labels that were shuffled or have not come in yet: with them, predicting the base rate for
every row is truly better. So the artifact also stays if the scores no longer rank the labels better than chance, though
they did when it was fitted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from calcli.artifacts import store
from calcli.artifacts.manifest import Manifest
from calcli.batch import SideInputs
from calcli.engines.listener import SILENT, Listener, stage
from calcli.errors import DataError, UsageError
from calcli.files import as_text
from calcli.fitting.learn import learn
from calcli.fitting.manifest import write
from calcli.fitting.model import Model
from calcli.fitting.model import load as load_model
from calcli.fitting.recipe import Recipe
from calcli.fitting.side_inputs import NO_SIDE_FILES, SideFiles, sides_again
from calcli.fitting.splits import Mask
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.reports.groups import in_units
from calcli.reports.guard import Guard
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import (
    Candidate,
    class_names,
    data_facts,
    measure_all,
    raw_candidate,
    raw_probabilities,
    report_on,
)
from calcli.reports.schema import RAW, Report, ReportWarning, ScoreSource
from calcli.reports.score_check import score_warnings
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded, load
from calcli.tables.scores import OtherTableError
from calcli.tables.source import Data, Source, open_source

IN_PLACE = "in place"
"""The name of the artifact's present calibrator in the report."""

MARGIN = 0.001
"""The tolerance of the guard, relative to the metric without calibration."""


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """The request of `refit`.

    Attributes
    ----------
    artifact
        The directory to renew; its recipe is repeated.
    data
        The new rows: paths, globs, directories, ``-``, or a frame.
    guard
        The metric in which the new calibrator must not be worse.
    strict
        Whether it must be shown not to be worse: the upper end of the difference's interval is asked.
    resample_by, order_by
        As for `fit`; None are those of the recipe.
    sides
        What the method may use beside the rows; what the artifact keeps need not be named again.
    """

    artifact: str | Path
    data: Data
    guard: str = "nll"
    strict: bool = False
    resample_by: str | None = None
    order_by: str | None = None
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    delimiter: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RefitResult:
    """The report, and whether the artifact was replaced.

    Attributes
    ----------
    path
        The artifact, renewed or not.
    kept
        Why the one in place stays; None where it was replaced.
    name
        Of the new calibrator in the report.
    guard
        What decided, with its margin on these rows.
    moved
        By how much the new probabilities of the compared rows differ from those in place: the mean, and the most.
    """

    path: Path
    report: Report
    kept: str | None
    name: str
    guard: Guard
    moved: tuple[float, float]


def refit(request: RefitRequest, listener: Listener = SILENT) -> RefitResult:
    """Fit on new rows, and replace the artifact unless that makes it worse."""
    # Open the artifact, and check its recipe before any rows are read.
    old, path = load_model(request.artifact), Path(request.artifact)
    recipe = Recipe.from_json(old.manifest.recipe)
    if (request.resample_by, request.order_by) != (None, None):
        recipe = replace(recipe, resample_by=request.resample_by, order_by=request.order_by)
    recipe.check_settings(request.sides)
    sides = {*request.sides.roles, *old.calibrator.sides.roles}
    recipe.check_installed(sides)
    chosen = metrics.choose(f"{recipe.metrics},{request.guard}")
    guard = Guard.of(request.guard, chosen, strict=request.strict)
    features = recipe.needs_features or old.needs_features
    with open_source(request.data, format=request.input_format, delimiter=request.delimiter) as source:
        # Bind columns to roles as the artifact does.
        with stage(listener, "looking at the columns"):
            binding = _bind(source, recipe.flags, old.fitted_binding, features=features)
        recipe.check_installed(sides, len(binding.features))
        classes = class_names(binding)

        # Load.
        with stage(listener, "reading"):
            loaded = load(source, binding, features=features, bad_rows=recipe.bad_rows)
            loaded = in_units(loaded, source, recipe.resample_by, recipe.order_by)
            seen = _seen_before(source, loaded, old)
            side_inputs = sides_again(request.sides, binding, old.calibrator.sides, old.manifest.sides)

        # Learn: select a method, predict held-out rows, fit.
        learned = learn(recipe, loaded.batch, classes, seed=request.seed, listener=listener, sides=side_inputs.sides)
        for remark in learned.calibrator.remarks():
            listener.note(remark)
        if learned.rows is None:
            raise UsageError(
                f"{path} was fitted with --holdout none: without held-out rows no refit can be checked",
                hint="fit it again with another --holdout",
            )

        # Measure no calibration, the calibrator in place and the new one on held-out rows, new ones if there are any.
        unseen = learned.rows & ~seen
        compared = learned.restricted_to(unseen) if unseen.any() else learned
        rows = compared.held_out(loaded.batch)
        edges = SideInputs(edges=side_inputs.sides.edges)  # those of the new rows are new to the one in place too
        in_place = ScoreSource("artifact", path=as_text(path), method=old.method, sha256=old.sha256, fitted=old.fitted)
        with stage(listener, "measuring"):
            candidates = [
                raw_candidate(rows),
                Candidate(IN_PLACE, in_place, old.calibrator.predict(rows, edges)),
                *compared.candidates,
            ]
            measured = measure_all(
                candidates, rows, chosen, request.options, classes, against=(RAW, IN_PLACE), folds=compared.folds
            )
        report = report_on(
            "refit",
            request.seed,
            data_facts(source, loaded, binding),
            binding,
            measured,
            artifact=as_text(path),
            chosen=learned.spec.name,
            warnings=(
                *score_warnings(learned.label_check, raw_probabilities(loaded.batch), binding),
                *_warnings(seen, unseen),
            ),
        )

    # Keep it, unless the labels look wrong or the guard refuses.
    guard = _with_margin(guard, report)
    refused = _label_refusal(old, learned.label_check) or _refusal(guard, report, learned.spec.name)
    result = RefitResult(path, report, refused, learned.spec.name, guard, _moved(*candidates[1:]))
    if refused is not None:
        return replace(result, report=replace(report, chosen=IN_PLACE))
    write(path, recipe, compared, binding, report, side_inputs)
    return result


def rollback(artifact: str | Path, listener: Listener = SILENT) -> Path:
    """Put the previous generation back in place; a second rollback undoes the first."""
    before = store.describe(artifact)
    now = store.rollback(artifact)
    listener.note(
        f"{artifact} is the fit {_of_fit(now)} again; the one {_of_fit(before)} is kept, and another --rollback puts "
        "it back"
    )
    return Path(artifact)


def _bind(source: Source, flags: Flags, known: Binding, *, features: bool) -> Binding:
    """The binding of the fit in place."""
    try:
        return bind(source, flags, known=known, features=features)
    except OtherTableError as error:
        hint = "a refit reads the same columns: rename it, or use calcli fit for another one"
        raise DataError(error.message, hint=hint) from error


def _of_fit(manifest: Manifest) -> str:
    """``of 2026-01-31 12:00:05 UTC on 30,000 rows``."""
    rows = cast("int", manifest.fit["rows"])
    return f"of {manifest.created[:19].replace('T', ' ')} UTC on {rows:,} rows"


def _moved(in_place: Candidate, new: Candidate) -> tuple[float, float]:
    """The mean and the largest difference of the probabilities of a row; of its classes, the largest."""
    moved = np.abs(new.prob - in_place.prob).reshape(len(new.prob), -1).max(axis=1)
    return float(moved.mean()), float(moved.max())


def _label_refusal(old: Model, now: LabelCheck | None) -> str | None:
    """Why the labels look wrong; None where the raw scores still rank them, or did not at the fit in place."""
    before = LabelCheck.from_json(old.manifest.fit.get("ranking"))
    if before is None or not before.beyond_chance(4):
        return None
    if now is None:
        return "all labels of the new rows are of one class: have the others come in yet?; nothing was changed"
    if now.beyond_chance(2):
        return None
    return (
        f"the scores do not tell the classes apart on the new rows (auc {now.auc:.3f}), though they did on those of "
        f"the fit in place ({before.auc:.3f}): are these the right labels?; nothing was changed"
    )


def _seen_before(source: Source, loaded: Loaded, old: Model) -> Mask:
    """The rows of files that the artifact in place was fitted on: on them it has an unfair advantage."""
    files = old.manifest.data.get("files")
    hashes = {file["sha256"] for file in files if isinstance(file, dict)} if isinstance(files, list) else set()
    seen, start = np.zeros(loaded.rows, dtype=np.bool_), 0
    if hashes & {file.sha256 for file in source.files()}:
        for file in source.files():
            rows = loaded.rows  # standard input comes alone
            if file.path is not None:
                separator = None if source.dialect is None else source.dialect.separator
                with open_source(file.path, format=source.format, delimiter=separator) as part:
                    rows = part.rows()
            seen[start : start + rows] = file.sha256 in hashes
            start += rows
    return seen if loaded.row_numbers is None else seen[loaded.row_numbers]


def _warnings(seen: Mask, unseen: Mask) -> tuple[ReportWarning, ...]:
    if not seen.any():
        return ()
    text = f"{int(seen.sum()):,} of {len(seen):,} rows were in the files of the fit in place"
    if unseen.any():
        return (ReportWarning("seen-before", f"{text} and are not compared on"),)
    return (ReportWarning("seen-before", f"{text}: it is compared on rows that it was fitted on"),)


def _with_margin(guard: Guard, report: Report) -> Guard:
    """The guard with its tolerance, a share of the metric without calibration."""
    base = report.value(RAW, guard.metric.name)
    return guard if base is None else replace(guard, margin=MARGIN * abs(base))


def _refusal(guard: Guard, report: Report, score: str) -> str | None:
    """Why the new calibrator must not replace the old one; None where it may."""
    worse = guard.violation(report, score)
    if worse is None:
        return None
    versus = "no calibration" if worse.versus == RAW else "the one in place"
    how = "cannot be shown not to be worse" if guard.strict else "is worse"
    return (
        f"{worse.score} on the new rows {how} than {versus}: {worse.metric} {worse.value:+.6f}, "
        f"allowed {guard.margin:.6f}; nothing was changed"
    )
