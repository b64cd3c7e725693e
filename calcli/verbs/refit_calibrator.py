"""A calibrator on new rows, compared with the one in place, which it replaces if it is shown to be better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.engines.listener import Listener, stage
from calcli.engines.local import BadRows
from calcli.errors import DataError, UsageError
from calcli.files import as_text
from calcli.fitting import contest
from calcli.fitting.learn import Learned, learn
from calcli.fitting.manifest import write
from calcli.fitting.model import Model
from calcli.fitting.policies import asked_of, chosen_again, with_policy
from calcli.fitting.recipe import Recipe
from calcli.fitting.renewal import EVIDENCE, IN_PLACE, file_refusal, label_refusal, seen_before, seen_warnings
from calcli.fitting.requests import RefitRequest
from calcli.fitting.side_inputs import LoadedSideInputs, sides_again
from calcli.fitting.splits import Mask
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Options
from calcli.metrics.catalog import MetricSpec
from calcli.numeric.losses import log_loss
from calcli.places import Url
from calcli.reports.groups import in_units
from calcli.reports.guard import Guard
from calcli.reports.measuring import (
    Candidate,
    Measurements,
    class_names,
    data_facts,
    measure_all,
    raw_candidate,
    raw_probabilities,
    report_on,
)
from calcli.reports.schema import RAW, DataFacts, Report, ScoreSource, Seconds
from calcli.reports.score_check import score_warnings
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags
from calcli.tables.load import Loaded, load
from calcli.tables.scores import OtherTableError
from calcli.tables.source import Source

if TYPE_CHECKING:
    from calcli.spark.sample import TableSample

MARGIN = 0.001
"""The tolerance of the guard, relative to the metric without calibration."""

STANDARD_ERRORS = 2.0
"""The gain must be so many of its standard errors too, so that a few surprises in the tails do not make it."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much higher the log-likelihood of the compared rows is with the new calibrator, and how much is asked for."""

    evidence: float
    threshold: float

    @classmethod
    def of(cls, rows: Batch, in_place: Candidate, new: Candidate) -> Evidence:
        gain = log_loss(in_place.prob, rows.labels) - log_loss(new.prob, rows.labels)
        return cls.asked(contest.Evidence.of(gain, rows.weight, rows.together))

    @classmethod
    def asked(cls, found: contest.Evidence) -> Evidence:
        """With what is asked for."""
        return cls(found.nats, max(EVIDENCE * found.effect, STANDARD_ERRORS * found.error))

    def lacking(self, name: str) -> str | None:
        """Why it does not show that the new calibrator is better; None where it does."""
        if self.evidence >= self.threshold:
            return None
        return (
            f"the new {name} is not shown to be better than the one in place: the log-likelihood of the new rows "
            f"changes by {self.evidence:+.1f} nats, and {self.threshold:+.1f} are required"
        )


@dataclass(frozen=True, slots=True)
class RefitResult:
    """The report, and whether the artifact was replaced.

    Attributes
    ----------
    path
        The artifact, renewed or not.
    kept
        Why the one in place stays; None where it was replaced.
    usual
        Whether it stays because nothing shows the new one to be better, as on most nights.
    name
        Of the new calibrator in the report.
    evidence
        That the new calibrator is better than the one in place.
    guard
        What it must not be worse in, with the margin on these rows.
    moved
        By how much the new probabilities of the compared rows differ from those in place: the mean, and the most.
    """

    path: Path | Url
    report: Report
    kept: str | None
    usual: bool
    name: str
    evidence: Evidence
    guard: Guard
    moved: tuple[float, float]


def refit_calibrator(
    request: RefitRequest,
    old: Model,
    path: Path | Url,
    recipe: Recipe,
    source: Source,
    listener: Listener,
    sample: TableSample | None = None,
) -> RefitResult:
    """Fit on these rows; if they are a sample, compare on the others."""
    chosen = metrics.choose(f"{recipe.metrics},{request.guard}" + ("" if sample is None else ",nll"))
    read = _read(request, old, recipe, source, listener)
    loaded, binding = read.loaded, read.loaded.binding

    # Learn: select a method, predict held-out rows, fit.
    others = None if sample is None or not _by_row(old) or not sample.measures(recipe) else sample
    asked, classes = recipe if others is None else replace(recipe, holdout="none"), class_names(binding)
    learned = learn(asked, loaded.batch, classes, seed=request.seed, listener=listener, sides=read.sides.sides)
    learned = learned if sample is None else replace(learned, sampled=sample.sampled)
    for remark in learned.calibrator.remarks():
        listener.note(remark)
    if learned.rows is None and others is None:
        raise UsageError(
            f"{path} was fitted with --holdout none: without held-out rows no refit can be checked",
            hint="fit it again with another --holdout",
        )

    # Measure no calibration, the calibrator in place and the new one on held-out rows, new ones if there are any.
    in_place = ScoreSource("artifact", path=as_text(path), method=old.method, sha256=old.sha256, fitted=old.fitted)
    unseen = read.seen if learned.rows is None else learned.rows & ~read.seen
    with stage(listener, "measuring"):
        if others is not None:
            there = (others, chosen, request.options, recipe.bad_rows)
            comparison = _on_others(old, learned, in_place, loaded, there, listener)
        else:
            edges = SideInputs(edges=read.sides.sides.edges)  # those of the new rows are new to the one in place too
            compared = learned.restricted_to(unseen) if unseen.any() else learned
            old_prob = old.calibrator.predict(compared.held_out(loaded.batch), edges)
            place = Candidate(IN_PLACE, in_place, old_prob)
            comparison = _on_held_out(place, compared, loaded, chosen, request.options)
    sampled = comparison.learned.sampled
    report = report_on(
        "refit",
        request.seed,
        comparison.data,
        binding,
        comparison.measured,
        artifact=as_text(path),
        chosen=learned.spec.name,
        warnings=(
            *([] if sampled is None else [sampled.warning]),
            *score_warnings(learned.label_check, raw_probabilities(loaded.batch), binding),
            *seen_warnings(read.seen, unseen),
        ),
    )
    guard = _with_margin(Guard.of(request.guard, chosen), report)
    return _judged(request, old, path, recipe, read, comparison, guard, report)


class _Read(NamedTuple):
    """The new rows, those of them that the artifact in place was made of, and what the method may use beside them."""

    loaded: Loaded
    seen: Mask
    sides: LoadedSideInputs


def _read(request: RefitRequest, old: Model, recipe: Recipe, source: Source, listener: Listener) -> _Read:
    """The rows, with columns bound to roles as the artifact does."""
    features = recipe.needs_features or old.needs_features
    with stage(listener, "looking at the columns"):
        binding = _bind(source, recipe.flags, old.fitted_binding, features=features)
    recipe.check_installed({*request.sides.roles, *old.calibrator.sides.roles}, len(binding.features))
    with stage(listener, "reading"):
        loaded = load(source, binding, features=features, bad_rows=recipe.bad_rows)
        loaded = in_units(loaded, recipe.resample_by, recipe.order_by)
        seen = seen_before(loaded, old.manifest)
        return _Read(loaded, seen, sides_again(request.sides, binding, old.calibrator.sides, old.manifest.sides))


def _judged(
    request: RefitRequest,
    old: Model,
    path: Path | Url,
    recipe: Recipe,
    read: _Read,
    comparison: _Comparison,
    guard: Guard,
    report: Report,
) -> RefitResult:
    """Keep the new one if the labels look right, it is shown to be better and the guard agrees."""
    learned, evidence, name = comparison.learned, comparison.evidence, comparison.learned.spec.name
    wrong = label_refusal(old.manifest, learned.label_check) or file_refusal(old, read.loaded, read.seen)
    choice = None if wrong is not None else chosen_again(old, read.loaded, learned, request.seed)
    unshown = evidence.lacking(name)
    undecided = choice.why if choice is not None and choice.policy is None else None
    why = wrong or unshown or _refusal(guard, report, name) or undecided
    report = replace(
        report,
        chosen=name if why is None else IN_PLACE,
        refit={"replaced": why is None, **asdict(evidence), "reason": why},
    )
    if why is None:
        binding = read.loaded.binding
        manifest = write(path if choice is None else None, recipe, learned, binding, report, read.sides)
        if choice is not None:
            model = Model.of(path, manifest, binding, None, learned.calibrator)
            with_policy(model, asked_of(old), choice, report.data).save(path)
    kept, usual = why and f"{why}; nothing was changed", why is not None and why == unshown
    return RefitResult(path, report, kept, usual, name, evidence, guard, comparison.moved)


def _bind(source: Source, flags: Flags, known: Binding, *, features: bool) -> Binding:
    """The binding of the fit in place."""
    try:
        return bind(source, flags, known=known, features=features)
    except OtherTableError as error:
        hint = "a refit reads the same columns: rename it, or use calcli fit for another one"
        raise DataError(error.message, hint=hint) from error


class _Comparison(NamedTuple):
    """The calibrator in place and the new one on the same rows; the attributes are those of `RefitResult`."""

    learned: Learned
    measured: Measurements
    data: DataFacts
    evidence: Evidence
    moved: tuple[float, float]


def _on_held_out(
    in_place: Candidate, learned: Learned, loaded: Loaded, chosen: Sequence[MetricSpec], options: Options
) -> _Comparison:
    """On the rows that were held out."""
    rows, (new,) = learned.held_out(loaded.batch), learned.candidates
    candidates, classes = [raw_candidate(rows), in_place, new], class_names(loaded.binding)
    measured = measure_all(candidates, rows, chosen, options, classes, against=(RAW, IN_PLACE), folds=learned.folds)
    evidence, moved = Evidence.of(rows, in_place, new), _moved(in_place.prob, new.prob)
    return _Comparison(learned, measured, data_facts(loaded), evidence, moved)


def _on_others(
    old: Model,
    learned: Learned,
    in_place: ScoreSource,
    loaded: Loaded,
    there: tuple[TableSample, Sequence[MetricSpec], Options, BadRows],
    listener: Listener,
) -> _Comparison:
    """On the rows of a cluster outside the sample; how far probabilities moved is that of the sample's rows."""
    (sample, chosen, options, bad_rows), name, new = there, learned.spec.name, learned.calibrator
    calibrators, against = {IN_PLACE: old.calibrator, name: new}, (RAW, IN_PLACE)
    sums = sample.measure(
        calibrators, name, loaded.binding, chosen, options, listener, bad_rows=bad_rows, against=against
    )
    sources = [(RAW, ScoreSource("raw")), (IN_PLACE, in_place), (name, learned.source)]
    measured = sums.measured([(*each, Seconds()) for each in sources])
    moved = _moved(old.calibrator.predict(loaded.batch), new.predict(loaded.batch))
    data, evidence = sums.data(loaded), Evidence.asked(sums.evidence((2, 1)))
    return _Comparison(sums.learned(learned), measured, data, evidence, moved)


def _by_row(old: Model) -> bool:
    """Whether the artifact can be measured on rows that are not all here: it decides nothing, and takes each alone."""
    return old.policy is None and not old.calibrator.whole_table


def _moved(in_place: FloatArray, new: FloatArray) -> tuple[float, float]:
    """The mean and the largest difference of the probabilities of a row; of its classes, the largest."""
    moved = np.abs(new - in_place).reshape(len(new), -1).max(axis=1)
    return float(moved.mean()), float(moved.max())


def _with_margin(guard: Guard, report: Report) -> Guard:
    """The guard with its tolerance, a share of the metric without calibration."""
    base = report.value(RAW, guard.metric.name)
    return guard if base is None else replace(guard, margin=MARGIN * abs(base))


def _refusal(guard: Guard, report: Report, score: str) -> str | None:
    """Why the new calibrator must not replace the old one though it is more likely; None where it may."""
    worse = guard.violation(report, score)
    if worse is None:
        return None
    versus = "no calibration" if worse.versus == RAW else "the one in place"
    return (
        f"the new {worse.score} is worse than {versus} on the new rows: {worse.metric} {worse.value:+.6f}, "
        f"allowed {guard.margin:.6f}"
    )
