"""A calibrator on new rows, compared with the one in place, which it replaces if it is shown to be better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray, SideInputs
from calcli.errors import DataError, UsageError
from calcli.files import as_text
from calcli.homes import Brief
from calcli.listener import Listener, stage
from calcli.metrics import catalog as metrics
from calcli.models import auto
from calcli.models.calibrator import CalibratorModel
from calcli.models.held_out import Mask
from calcli.models.learn import learn
from calcli.models.policy import (
    EVIDENCE,
    IN_PLACE,
    asked_of,
    chosen_again,
    file_of_rows,
    file_refusal,
    label_refusal,
    seen_before,
    seen_warnings,
    too_few,
    with_policy,
)
from calcli.models.recipe import Recipe
from calcli.models.requests import RefitRequest, write
from calcli.models.side_inputs import sides_again
from calcli.models.trial import AS_IT_IS, Contender, Judgement, Trial, TrialRows
from calcli.numeric.e_process import NightSums, between_nights
from calcli.numeric.losses import log_loss
from calcli.places import Url, folder
from calcli.reports.conditions import Guard
from calcli.reports.drift_baseline import DriftBaseline
from calcli.reports.groups import LabelCheck, score_warnings
from calcli.reports.measuring import raw_probabilities, report_on
from calcli.reports.schema import RAW, Report, ScoreSource, Seconds
from calcli.tables.binding import bind
from calcli.tables.binding_types import Binding, Flags, OtherTableError
from calcli.tables.source import Source
from calcli.verbs.drift import DriftRows
from calcli.verbs.drift_log import DriftLog, drift_baseline_of

MARGIN = 0.001
"""The tolerance of the guard, relative to the metric without calibration."""

STANDARD_ERRORS = 2.0
"""The gain must be so many of its standard errors too, so that a few surprises in the tails do not make it."""


NIGHTS = 10
"""From so many new nights on, they tell themselves how much nights differ."""

UNKNOWN = 0.3
"""Where nothing tells: the standard deviation of what the rows of a night share, on the log-odds."""

NEARER = 2.5
"""Of fewer nights so much more evidence is asked for. Night after night, one will come whose luck is large; the new
calibrator is still nearer to the truth if luck was less than half of the difference, that is a quarter of the evidence,
and once in 2,300 nights it has as much. If shifts are anything up to 2 on the log-odds and nights differ by 0.3, 3 % of
replacements in a year are worse (with 2.0, 8 %), and a shift of 2 is found in four nights at most (with 3.0, in none
where nights do not differ)."""

_KNOWN = {
    "pooled": "as much as the pooled nights differ",
    "log": "as much as nights have differed in the log of --drift",
    "assumed": f"as so few nights do not tell how much nights differ: {UNKNOWN} on the log-odds is assumed",
}


class NightEffect(NamedTuple):
    """How many times the variance of a mean residual is that over independent rows, as rows of a night share effects.

    `known` says by what: the nights that are ``pooled``, the ``log`` of --drift; or it is ``assumed``.
    """

    factor: float
    nights: int
    known: str

    @classmethod
    def of(cls, nights: Sequence[Sequence[NightSums]], log: DriftLog | None) -> NightEffect:
        """From the sums of residuals of each night, by class; the log is that of the calibrator in place."""
        night = [[one.night for one in of_night] for of_night in nights]
        mean, noise, lean = (np.array([[getattr(one, name) for one in each] for each in night]) for name in _SUMS)
        share = np.array([of_night[0].weight for of_night in nights])[:, None, None] / sum(
            one[0].weight for one in nights
        )
        between = None if log is None else log.between_nights(night[0])
        known = "assumed" if between is None else "log"
        if len(nights) >= NIGHTS:  # by the differences of successive nights, so that a lasting change is none of it
            known, steps = "pooled", (np.diff(mean, axis=0) / math.sqrt(2.0), (noise[1:] + noise[:-1]) / 2.0)
            between = between_nights(*(one.reshape(len(one), -1) for one in steps)).reshape(mean.shape[1:])
        allowed = (UNKNOWN * (share * lean).sum(axis=0)) ** 2 if between is None else between
        chance = (share**2 * noise).sum(axis=0)
        ratio = np.divide((share**2).sum() * allowed, chance, out=np.zeros_like(chance), where=chance > 0.0)
        return cls(1.0 + float(ratio.max()), len(nights), known)


_SUMS = ("mean", "noise", "lean")


@dataclass(frozen=True, slots=True)
class Evidence:
    """How much higher the log-likelihood of the compared rows is with the new calibrator, and how much is asked for."""

    evidence: float
    threshold: float
    nights: int | None = None
    known: str | None = None
    """`nights`, `known`: how many nights are compared on, and what tells how much nights differ, of `NightEffect`; None
    on a cluster, where rows are not known by night."""

    @classmethod
    def of(cls, rows: Batch, in_place: FloatArray, new: FloatArray, effect: NightEffect) -> Evidence:
        gain = log_loss(in_place, rows.labels) - log_loss(new, rows.labels)
        found = auto.Evidence.of(gain, rows.weight, rows.together)
        asked = effect.factor if effect.nights >= NIGHTS else NEARER * effect.factor
        return replace(cls.asked(found._replace(effect=found.effect * asked)), nights=effect.nights, known=effect.known)

    @classmethod
    def asked(cls, found: auto.Evidence) -> Evidence:
        """With what is asked for."""
        return cls(found.nats, max(EVIDENCE * found.effect, STANDARD_ERRORS * found.error))

    def lacking(self, name: str) -> str | None:
        """Why it does not show that the new calibrator is better; None where it does."""
        if self.evidence >= self.threshold:
            return None
        return (
            f"the new {name} is not shown to be better than the one in place: the log-likelihood of the new rows "
            f"changes by {self.evidence:+.1f} nats, and {self.threshold:+.1f} are required"
            + ("" if self.known is None else f", {_KNOWN[self.known]}")
        )


@dataclass(frozen=True, slots=True, repr=False)
class RefitResult(Brief):
    """The report, and whether the artifact was replaced."""

    path: Path | Url
    """The artifact, renewed or not."""

    report: Report
    kept: str | None
    """Why the one in place stays; None where it was replaced."""

    usual: bool
    """Whether it stays because nothing shows the new one to be better, as on most nights."""

    name: str
    """The name of the new calibrator in the report."""

    evidence: Evidence
    """For the new calibrator being better than the one in place."""

    guard: Guard
    """What it must not be worse in, with the margin on these rows."""

    moved: tuple[float, float]
    """By how much the new probabilities of the compared rows differ from those in place: the mean, and the most."""


def refit_calibrator(
    request: RefitRequest,
    old: CalibratorModel,
    path: Path | Url,
    recipe: Recipe,
    rows: TrialRows,
    listener: Listener,
) -> RefitResult:
    """Fit on these rows; if they are a sample, compare on the others."""
    on_cluster = request.engine != "local"
    chosen = metrics.choose(recipe.metrics, request.guard, *(["nll"] if on_cluster else []))
    trial, seen = _read(request, old, recipe, rows, listener)

    # Learn: select a method, predict held-out rows, fit.
    by_row = old.policy is None and not old.calibrator.whole_table  # it can be measured on rows that are not all here
    others = by_row and rows.measures(recipe)
    asked, sides = replace(recipe, holdout="none") if others else recipe, trial.sides.sides
    learned = learn(asked, trial.batch, trial.classes, seed=request.seed, listener=listener, sides=sides)
    learned = replace(learned, sampled=rows.sampled, label_check=LabelCheck.of(trial.batch))
    for remark in learned.calibrator.remarks():
        listener.note(remark)
    if learned.rows is None and not others:
        raise UsageError(
            f"{path} was fitted with --holdout none: without held-out rows no refit can be checked",
            hint="fit it again with another --holdout",
        )

    # Measure no calibration, the calibrator in place and the new one on held-out rows, new ones if there are any.
    source = ScoreSource("artifact", path=as_text(path), method=old.method, sha256=old.sha256, fitted=old.fitted)
    in_place = Contender(IN_PLACE, source, fitted=old.calibrator)
    judgement = Judgement(chosen, request.options, (RAW, IN_PLACE), main=learned.spec.name)
    unseen = seen if learned.rows is None else learned.rows & ~seen
    with stage(listener, "measuring"):
        if others:
            new = Contender.learned(learned)._replace(seconds=Seconds())
            measured, data, sums = trial.elsewhere([AS_IT_IS, in_place, new], judgement)
            evidence, learned = Evidence.asked(sums.evidence((2, 1))), sums.learned(learned)
            # How far probabilities moved is that of the sample's rows.
            moved = _moved(old.calibrator.predict(trial.batch), learned.calibrator.predict(trial.batch))
        else:
            learned = learned.restricted_to(unseen) if unseen.any() else learned
            held_out, new = learned.held_out(trial.batch), Contender.learned(learned)
            edges = SideInputs(edges=sides.edges)  # those of the new rows are new to the one in place too
            before, after = old.calibrator.predict(held_out, edges), learned.predicted
            contenders = [AS_IT_IS, in_place._replace(prob=before), new]
            measured, data = trial.here(contenders, judgement, held_out, learned.folds)
            effect = _night_effect(old, held_out, before, file_of_rows(trial.loaded)[learned.rows])
            evidence, moved = Evidence.of(held_out, before, after, effect), _moved(before, after)
    report = report_on(
        "refit",
        request.seed,
        data,
        trial.binding,
        measured,
        artifact=as_text(path),
        chosen=learned.spec.name,
        warnings=(
            *([] if rows.sampled is None else [rows.sampled.warning]),
            *score_warnings(learned.label_check, raw_probabilities(trial.batch), trial.binding),
            *seen_warnings(seen, unseen),
        ),
    )
    guard = Guard.of(request.guard, chosen)
    if (base := report.value(RAW, guard.metric.name)) is not None:
        guard = replace(guard, margin=MARGIN * abs(base))

    # Keep the new one if the labels look right, it is shown to be better and the guard agrees.
    name = learned.spec.name
    wrong = label_refusal(old.manifest, learned.label_check) or file_refusal(old, trial.loaded, seen)
    few = too_few(old.manifest, learned.label_check)
    choice = chosen_again(old, trial.loaded, learned, request.seed) if (wrong or few) is None else None
    unshown = evidence.lacking(name)
    undecided = choice.why if choice is not None and choice.policy is None else None
    why = wrong or unshown or _refusal(guard, report, name) or few or undecided
    report = replace(
        report,
        chosen=name if why is None else IN_PLACE,
        refit={"replaced": why is None, **asdict(evidence), "reason": why},
    )
    if why is None:
        manifest = write(path if choice is None else None, recipe, learned, trial.binding, report, trial.sides)
        if choice is not None:
            model = CalibratorModel.of(path, manifest, trial.binding, None, learned.calibrator)
            with_policy(model, asked_of(old), choice, report.data).save(path)
    kept, usual = why and f"{why}; nothing was changed", why is not None and why == unshown
    return RefitResult(path, report, kept, usual, name, evidence, guard, moved)


def _read(
    request: RefitRequest, old: CalibratorModel, recipe: Recipe, rows: TrialRows, listener: Listener
) -> tuple[Trial, Mask]:
    """The rows, with columns bound to roles as the artifact does, and which of them it was made of."""
    features = recipe.needs_features or old.needs_features
    with stage(listener, "looking at the columns"):
        binding = _bind(rows.source, recipe.flags, old.fitted_binding, features=features)
    recipe.check_installed({*request.sides.roles, *old.calibrator.sides.roles}, len(binding.features))
    sides = sides_again(request.sides, binding, old.calibrator.sides, old.manifest.sides)
    trial = Trial.read(rows, binding, recipe, sides, listener, features=features)
    return trial, seen_before(trial.loaded, old.manifest)


def _bind(source: Source, flags: Flags, known: Binding, *, features: bool) -> Binding:
    """The binding of the fit in place."""
    try:
        return bind(source, flags, known=known, features=features)
    except OtherTableError as error:
        hint = "a refit reads the same columns: rename it, or use calcli fit for another one"
        raise DataError(error.message, hint=hint) from error


def _night_effect(old: CalibratorModel, rows: Batch, prob: FloatArray, night: IntArray) -> NightEffect:
    """The effect of nights, each a file, on residuals under the calibrator in place."""
    baseline = drift_baseline_of(old) or DriftBaseline.of(prob, rows.labels, rows.weight)
    nights = [
        DriftRows(prob[night == one], rows.labels[night == one], rows.weights[night == one]).nights(baseline)
        for one in np.unique(night)
    ]
    log = None if old.path is None else DriftLog.read(folder(f"{old.path}.drift.json"), old)
    return NightEffect.of([sums for sums in nights if sums[0].weight > 0], log)


def _moved(in_place: FloatArray, new: FloatArray) -> tuple[float, float]:
    """The mean and the largest difference of the probabilities of a row; of its classes, the largest."""
    moved = np.abs(new - in_place).reshape(len(new), -1).max(axis=1)
    return float(moved.mean()), float(moved.max())


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
