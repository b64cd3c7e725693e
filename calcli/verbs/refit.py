"""`refit`: the same recipe on new rows, kept only if it is not worse than what is in place. For the nights.

On rows of the new data that were held out, the new calibrator is compared with the one in place and with no
calibration. It replaces the artifact unless it is worse than either by more than a margin; otherwise nothing changes.

One thing such a comparison cannot see: labels that were shuffled, or have not come in yet. On them a calibrator that
says the base rate of every row is truly better. So scores that no longer tell positives from negatives, though they
did when the artifact was fitted, change nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from calcli.artifacts import store
from calcli.batch import Batch, SideInputs
from calcli.engines.listener import SILENT, Listener, stage
from calcli.errors import UsageError
from calcli.fitting.learn import Learned, learn
from calcli.fitting.manifest import manifest_of
from calcli.fitting.model import Model
from calcli.fitting.model import load as load_model
from calcli.fitting.recipe import Recipe
from calcli.fitting.requests import contenders, needs_features
from calcli.fitting.side_inputs import NO_SIDE_FILES, SideFiles, sides_again
from calcli.fitting.splits import Mask
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.numeric.links import probabilities
from calcli.reports.guard import Guard
from calcli.reports.label_check import LabelCheck
from calcli.reports.measuring import Candidate, Measurements, class_names, measure_all, report_on
from calcli.reports.schema import RAW, Difference, Report, ReportWarning, ScoreSource
from calcli.tables.binding import bind
from calcli.tables.load import Loaded, load
from calcli.tables.source import Data, Source, open_source

IN_PLACE = "in place"
"""The name of the artifact's present calibrator in the report."""

MARGIN = 0.001
"""How much worse is still taken for equal, as a share of the metric without calibration."""


@dataclass(frozen=True, slots=True)
class RefitRequest:
    """What `refit` is asked.

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
    sides
        What the method may use beside the rows; what the artifact keeps need not be named again.
    """

    artifact: str | Path
    data: Data
    guard: str = "nll"
    strict: bool = False
    options: Options = Options()
    sides: SideFiles = NO_SIDE_FILES
    input_format: str | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RefitResult:
    """What was found.

    Attributes
    ----------
    path
        The artifact, renewed or not.
    kept
        Why the one in place stays; None where it was replaced.
    """

    path: Path
    report: Report
    kept: str | None


def refit(request: RefitRequest, listener: Listener = SILENT) -> RefitResult:
    """Fit on new rows, and replace the artifact unless that makes it worse."""
    old = load_model(request.artifact)
    path = Path(request.artifact)
    recipe = Recipe.from_json(old.manifest.recipe)
    recipe.check()
    request.sides.check(contenders(recipe), recipe.flags)
    chosen = metrics.choose(f"{recipe.metrics},{request.guard}")
    guard = Guard.of(request.guard, chosen, strict=request.strict)
    features = needs_features(recipe) or old.needs_features
    with open_source(request.data, format=request.input_format) as source:
        binding = bind(source, recipe.flags, known=old.fitted_binding, features=features)
        with stage(listener, "reading"):
            loaded = load(source, binding, features=features, bad_rows=recipe.bad_rows)
            seen = _seen_before(source, loaded, old)
            beside = sides_again(request.sides, binding, old.calibrator.sides, old.manifest.sides)
        learned = learn(
            recipe, loaded.batch, class_names(binding), seed=request.seed, listener=listener, sides=beside.sides
        )
        for remark in learned.calibrator.remarks():
            listener.note(remark)
        if learned.rows is None or learned.prob is None:
            raise UsageError(
                f"{path} was fitted with --holdout none: without held-out rows no refit can be checked",
                hint="fit it again with another --holdout",
            )
        judged = learned.rows & ~seen
        warnings = _warnings(seen, judged)
        if not judged.any():
            judged = learned.rows
        with stage(listener, "measuring"):
            edges = SideInputs(edges=beside.sides.edges)  # those of the new rows are new to the one in place too
            measured = _measured(
                old, learned, loaded.batch, edges, judged, chosen, request.options, class_names(binding)
            )
        report = report_on(
            "refit",
            request.seed,
            source,
            loaded,
            binding,
            measured,
            artifact=str(path),
            chosen=learned.row.name,
            warnings=warnings,
        )
    ranking = LabelCheck.of(loaded.batch)
    kept = no_longer_ranks(old, ranking) or _objection(guard, report, learned.row.name)
    if kept is None:
        facts = beside.facts_of(learned.row)
        manifest = manifest_of(
            recipe, learned, binding, report, int(judged.sum()), ranking, learned.residuals(loaded.batch), facts
        )
        store.write(path, manifest, {store.STATE: learned.calibrator.to_state(), **beside.kept(learned.row)})
        return RefitResult(path, report, None)
    return RefitResult(path, replace(report, chosen=IN_PLACE), kept)


def rollback(artifact: str | Path) -> Path:
    """Put the previous generation back in place; done twice, nothing has changed."""
    store.rollback(artifact)
    return Path(artifact)


def no_longer_ranks(old: Model, now: LabelCheck | None) -> str | None:
    """Why these labels cannot be right; None where the scores still tell the classes apart, or never did."""
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
    """The rows that come from files which the artifact in place was fitted on: it has an unfair advantage there."""
    known = _hashes(old)
    seen = np.zeros(loaded.rows, dtype=np.bool_)
    start = 0
    if known & {file.sha256 for file in source.files()}:
        for file in source.files():
            rows = loaded.rows  # standard input comes alone
            if file.path is not None:
                with open_source(file.path, format=source.format) as part:
                    rows = part.rows()
            seen[start : start + rows] = file.sha256 in known
            start += rows
    return seen if loaded.row_numbers is None else seen[loaded.row_numbers]


def _hashes(old: Model) -> set[str]:
    """Of the files that the artifact in place was fitted on."""
    files = old.manifest.data.get("files")
    return {str(file["sha256"]) for file in files if isinstance(file, dict)} if isinstance(files, list) else set()


def _warnings(seen: Mask, judged: Mask) -> tuple[ReportWarning, ...]:
    if not seen.any():
        return ()
    count = f"{int(seen.sum()):,} of {len(seen):,} rows"
    if judged.any():
        return (ReportWarning("seen-before", f"{count} were in the files of the fit in place and are not compared on"),)
    return (
        ReportWarning(
            "seen-before",
            f"{count} were in the files of the fit in place: it is compared on rows that it was fitted on",
        ),
    )


def _measured(
    old: Model,
    learned: Learned,
    batch: Batch,
    edges: SideInputs,
    judged: Mask,
    chosen: tuple[metrics.MetricSpec, ...],
    options: Options,
    classes: tuple[str, ...],
) -> Measurements:
    """No calibration, the calibrator in place and the new one, on the same rows."""
    assert learned.rows is not None
    assert learned.prob is not None
    rows = learned.reweighted(batch.take(judged))
    in_place = ScoreSource("artifact", path=str(old.path), method=old.method, sha256=old.sha256, fitted=old.fitted)
    new = ScoreSource("method", method=learned.row.name)
    return measure_all(
        [
            Candidate(RAW, ScoreSource("raw"), probabilities(rows.score)),
            Candidate(IN_PLACE, in_place, old.calibrator.predict(rows, edges)),
            Candidate(learned.row.name, new, learned.prob[judged[learned.rows]], learned.seconds),
        ],
        rows,
        chosen,
        options,
        classes,
        against=(RAW, IN_PLACE),
    )


def _objection(guard: Guard, report: Report, name: str) -> str | None:
    """Why the new calibrator must not replace the old one; None where it may."""
    metric = guard.metric.name
    base = report.value(RAW, metric)
    guard = replace(guard, margin=MARGIN * abs(base) if base is not None else guard.margin)
    for each in report.differences:
        if (each.score, each.metric) == (name, metric) and guard.worse(each):
            return _sentence(each, guard)
    return None


def _sentence(each: Difference, guard: Guard) -> str:
    versus = "no calibration" if each.versus == RAW else "the one in place"
    how = "cannot be shown not to be worse" if guard.strict else "is worse"
    return (
        f"{each.score} on the new rows {how} than {versus}: {each.metric} {each.value:+.6f}, "
        f"allowed {guard.margin:.6f}; nothing was changed"
    )
