"""Cross-validated comparison of methods: their held-out predictions, and which method to choose by them."""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from calcli import extras
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, IntArray, SideInputs
from calcli.errors import FitError, UsageError
from calcli.listener import Listener, stage
from calcli.methods import calibrator
from calcli.methods.base import Params
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PLAIN, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.paired import Z975, paired_difference
from calcli.models.held_out import (
    FoldPredictions,
    HeldOutPredictions,
    Splits,
    gathers_once,
    join_folds,
    predict_splits,
    step_of,
)
from calcli.models.workers import Finished, Job, NoWorkersError, Progressed, run_beside, run_here, run_in_threads
from calcli.numeric.threads import one_thread_of_algebra, threads
from calcli.reports.schema import ReportWarning

IDENTITY = "identity"

MOST_PROCESSES = 8

WORTH_PROCESSES = 800_000
"""From so many scores on (rows times classes times methods) processes save more time than they take to start."""

TRAINED = 20
"""A method that reads features counts as so many."""

STANDARD_ERRORS = 0.5
"""Within so many standard errors of the least loss a simpler method is preferred.

A whole one, as is common, keeps a simple method on small tables where a better one is known to be better in five cases
of six; none at all follows chance.
"""

_NO_FEATURES = "the table has no features"
OUT_OF_TIME = "the time was spent before it had finished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The held-out predictions of a method, or the reason why it has none.

    `fitted` is the calibrator of all rows, if it was asked for.
    """

    spec: MethodSpec
    status: Literal["ok", "failed", "skipped"]
    predicted: HeldOutPredictions | None = None
    reason: str | None = None
    fitted: FittedMethod | None = None


class SharedWork(NamedTuple):
    """The data of a comparison that every process gets once."""

    candidates: tuple[tuple[MethodSpec, Params], ...]
    batch: Batch
    splits: Splits
    sides: SideInputs
    seed: int
    settle: bool
    post_processing: PostProcessing


class FoldTask(NamedTuple):
    """Splits that a candidate predicts in one go."""

    candidate: int
    splits: tuple[int, ...]


def cross_validate(
    candidates: Mapping[MethodSpec, Params],
    batch: Batch,
    splits: Splits,
    *,
    budget: float | None,
    seed: int,
    listener: Listener,
    sides: SideInputs = NO_SIDE_INPUTS,
    settle: bool = False,
    post_processing: PostProcessing = PLAIN,
) -> tuple[Outcome, ...]:
    """The held-out predictions of every method, in the order given, from several processes where that is worth it.

    With `settle` each method is first fitted on all rows, and keeps the settings that it chose there in every split.
    Where it chose them by these splits, the calibrators that it compared are those of the splits.

    A method that fails or lacks features has an outcome with the reason. One that has not finished within `budget`
    seconds is skipped; the identity never is. Only a process can be stopped within a fold.
    """
    until = math.inf if budget is None else time.monotonic() + budget
    work = SharedWork(tuple(candidates.items()), batch, splits, sides, seed, settle, post_processing)
    job = Job(_predict, work)
    with stage(listener, "comparing", len(candidates) * len(splits)):
        # Side by side, what takes longest shall not come last; where the time is limited, the simplest are first.
        progress = Progress(work, listener, costly_first=budget is None and threads() > 1)
        # 1. The identity, here and without a time limit: every other method is compared with it.
        progress.follow(run_here(job, progress.tasks(IDENTITY)))
        # 2. The other methods side by side, if there is enough work: in threads, as the methods of `auto` leave the
        # interpreter for nearly all of their time, and else in processes, if they can be started.
        count = min(threads(), MOST_PROCESSES, len(list(progress.tasks())))
        worth = count > 0 and _is_worth_processes(work) and time.monotonic() < until
        if worth and settle and budget is None:
            progress.follow(run_in_threads(job, progress.tasks()))
        elif worth:
            with suppress(NoWorkersError):
                tasks = progress.tasks()
                progress.follow(run_beside(job, tasks, count=count, threads=threads() // count, until=until))
        # 3. What is still to do, here.
        if time.monotonic() < until:
            progress.follow(run_here(job, progress.tasks(), until=until))
        outcomes = progress.outcomes()
    for outcome in outcomes:
        if outcome.spec.name == IDENTITY and outcome.status == "failed":  # what it lacks, all methods lack
            raise FitError(str(outcome.reason))
    return outcomes


def _is_worth_processes(work: SharedWork) -> bool:
    trained = sum(spec.needs_features for spec, _ in work.candidates) if work.batch.features else 0
    methods = len(work.candidates) + trained * (TRAINED - 1)
    return threads() > 1 and len(work.batch) * work.batch.classes * methods >= WORTH_PROCESSES


def _predict(work: SharedWork, task: FoldTask) -> Iterator[FoldPredictions | FittedMethod]:
    with one_thread_of_algebra():
        yield from _settled_and_predicted(work, task)


def _settled_and_predicted(work: SharedWork, task: FoldTask) -> Iterator[FoldPredictions | FittedMethod]:
    spec, params = work.candidates[task.candidate]
    sides = work.sides.only(spec.sides)
    known: Mapping[int, FittedMethod] = {}
    step, seconds = step_of(work.batch, work.splits), 0.0
    if work.settle:
        settled = calibrator.settle(spec, work.batch, params, list(work.splits), sides=sides, seed=work.seed)
        yield settled.fitted.with_post_processing(work.post_processing)
        params, known = settled.params, settled.of_splits
        step, seconds = 0, settled.seconds / len(task.splits)
    for fold, _ in predict_splits(
        spec, work.batch, params, work.splits, task.splits, work.seed, sides, work.post_processing, step, known
    ):
        yield replace(fold, fit_seconds=fold.fit_seconds + seconds)


Event: TypeAlias = Progressed[FoldTask, FoldPredictions | FittedMethod] | Finished[FoldTask]


class Progress:
    """The predictions and the errors of all candidates so far, by split."""

    def __init__(self, work: SharedWork, listener: Listener, *, costly_first: bool) -> None:
        self._work, self._listener, self._costly_first = work, listener, costly_first
        self._specs = [spec for spec, _ in work.candidates]
        self._folds: list[dict[int, FoldPredictions]] = [{} for _ in self._specs]
        self._errors: list[dict[int, str]] = [{} for _ in self._specs]
        self._fitted: dict[int, FittedMethod] = {}

    def tasks(self, name: str | None = None) -> Iterator[FoldTask]:
        """The open tasks of one candidate or of all, as of the moment when the next one is asked for."""
        every = range(len(self._work.splits))
        for candidate, spec in self._in_order():
            if spec.lacks_columns(self._work.batch) or name not in (None, spec.name):
                continue
            once = self._work.settle or gathers_once(spec, self._work.batch, self._work.splits)
            for splits in [tuple(every)] if once else [(split,) for split in every]:
                if not self._errors[candidate] and not self._folds[candidate].keys() >= set(splits):
                    self._advance(candidate, 0, "fitting")
                    yield FoldTask(candidate, splits)

    def _in_order(self) -> list[tuple[int, MethodSpec]]:
        each = [*enumerate(self._specs)]
        return each[::-1] if self._costly_first else each

    def follow(self, events: Generator[Event, None, None]) -> None:
        """Record predictions and errors as they come, and report each fold to the listener."""
        count = len(self._work.splits)
        with closing(events):  # an interrupt ends the running tasks at once
            for event in events:
                candidate = event.task.candidate
                folds, errors = self._folds[candidate], self._errors[candidate]
                if isinstance(event, Progressed) and isinstance(event.value, FittedMethod):
                    self._fitted[candidate] = event.value
                elif isinstance(event, Progressed):
                    folds[event.value.split] = event.value
                    if not errors:
                        self._advance(candidate, 1, f"fold {len(folds)} of {count}")
                elif event.error is not None:
                    if not errors:
                        self._advance(candidate, count - len(folds), "failed")
                    errors[event.task.splits[0]] = event.error

    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome of each candidate, when nothing more is run."""
        return tuple(map(self._outcome, range(len(self._specs))))

    def _outcome(self, candidate: int) -> Outcome:
        spec, folds, errors = self._specs[candidate], self._folds[candidate], self._errors[candidate]
        if errors:  # that of the first split, whichever came first
            return Outcome(spec, "failed", reason=errors[min(errors)])
        if missing := len(self._work.splits) - len(folds):
            self._advance(candidate, missing, "skipped")
            reason = _NO_FEATURES if spec.lacks_columns(self._work.batch) else OUT_OF_TIME
            return Outcome(spec, "skipped", reason=reason)
        predicted = join_folds(folds, self._work.batch, self._work.splits)
        return Outcome(spec, "ok", predicted, fitted=self._fitted.get(candidate))

    def _advance(self, candidate: int, steps: int, text: str) -> None:
        self._listener.advance(steps, f"{self._specs[candidate].name}, {text}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The method that a comparison chooses, the one with the least loss, and the reason in a sentence.

    `left_out` are the methods that did not finish within the budget, `not_installed` those that need a package which is
    not installed, with its name.
    """

    name: str
    best: str
    why: str
    left_out: tuple[str, ...] = ()
    not_installed: Mapping[str, str] = field(default_factory=dict)
    cost: str | None = None
    """How much better a choice without a limit would be, where there is one."""


def choice_warnings(choice: Choice) -> tuple[ReportWarning, ...]:
    """A report's warnings about a choice."""
    warnings = [ReportWarning("choice", choice.why)]
    if choice.cost is not None:
        warnings.append(ReportWarning("choice", choice.cost))
    if choice.left_out:
        warnings.append(ReportWarning("budget", f"not finished within the budget: {', '.join(choice.left_out)}"))
    if missing := choice.not_installed:
        packages = sorted(set(missing.values()))
        verb = "is" if len(packages) == 1 else "are"
        text = f"left out, as {' and '.join(packages)} {verb} not installed: {', '.join(missing)}"
        warnings.append(ReportWarning("not-installed", f"{text}; try: {extras.install_line(packages)}"))
    return tuple(warnings)


def criterion(name: str) -> MetricSpec:
    """The metric to choose by: a mean over rows, so that a paired difference has a standard error.

    Calibration errors are refused: a method that discards the scores' information can have the least of them.
    """
    metric = metrics.find(name)
    if metric.row_mean:
        return metric
    names = ", ".join(each.name for each in metrics.specs() if each.row_mean)
    if metric.kind == "gap":
        raise UsageError(
            f"--criterion {name}: a constant prediction, the base rate, has a calibration error near 0, so it cannot "
            "choose a method",
            hint=f"choose by {names}",
        )
    raise UsageError(f"--criterion {name}: only means over rows can choose a method", hint=f"choose by {names}")


def choose(outcomes: Sequence[Outcome], batch: Batch, splits: Splits, metric: MetricSpec) -> Choice:
    """The simplest method whose loss is within half a standard error of the least.

    The standard error is that of the paired difference over the held-out rows. The identity is the simplest method of
    all, so it stays unless another one has a loss that is less by more than that.
    """
    # The loss of each method in each held-out row, and its mean.
    rows = batch.take(splits.predicted)
    losses = {
        outcome.spec.name: criterion_rows(metric, Scored(rows.labels, outcome.predicted.prob, rows.weight))
        for outcome in outcomes
        if outcome.predicted is not None
    }
    means = {name: float(np.average(loss, weights=rows.weight)) for name, loss in losses.items()}
    best = min(means, key=lambda name: means[name])

    # From the simplest on, the first that is close enough to the best.
    specs = sorted(
        (outcome.spec for outcome in outcomes if outcome.spec.name in losses), key=lambda spec: spec.simplicity
    )
    for spec in specs:
        lead, error = gap(losses[spec.name], losses[best], rows.weight, rows.together)
        if spec.name == best or lead <= STANDARD_ERRORS * error:
            break
    why = _why(spec.name, best, (lead, error), metric)
    if set(losses) == {IDENTITY} and len(outcomes) > 1:
        why = "nothing was compared: no method but no calibration had a result"
    unfinished = tuple(outcome.spec.name for outcome in outcomes if outcome.reason == OUT_OF_TIME)
    return Choice(spec.name, best, why, unfinished)


def gap(
    loss: FloatArray, least: FloatArray, weight: FloatArray | None, units: IntArray | None = None
) -> tuple[float, float]:
    """The mean of the first loss minus that of the second, and its standard error; rows of a unit count as one."""
    value, lo, _, _ = paired_difference(loss, least, weight, units)
    if value is None:
        raise FitError("all held-out rows have weight 0")
    return value, 0.0 if lo is None else (value - lo) / Z975


def criterion_rows(metric: MetricSpec, scored: Scored) -> FloatArray:
    """The share of each row in the criterion; less is better."""
    per_row = metric.load_rows()
    assert per_row is not None
    return -per_row(scored) if metric.direction == "higher" else per_row(scored)


def loss_name(metric: MetricSpec) -> str:
    """The criterion's name in a sentence."""
    return {"nll": "log-loss", "brier": "Brier score"}.get(metric.name, metric.name)


def _why(name: str, best: str, gap: tuple[float, float], metric: MetricSpec) -> str:
    """Why it was chosen, without the numbers of the methods: those of the report may be of other rows or folds."""
    what = loss_name(metric)
    most = "highest" if metric.direction == "higher" else "lowest"
    if name == best == IDENTITY:
        return f"no method has a better {what} than no calibration on held-out rows"
    if name == IDENTITY:
        return (
            f"{best} improves the {what} of no calibration by {gap[0]:.5f} on held-out rows, "
            f"less than half a standard error ({STANDARD_ERRORS * gap[1]:.5f})"
        )
    if name == best:
        return f"{name} has the {most} held-out {what} of all methods and of no calibration"
    return (
        f"{name} is the simplest method within half a standard error ({STANDARD_ERRORS * gap[1]:.5f}) of the {most} "
        f"{what} on held-out rows, which {best} has"
    )
