"""Several methods under the same splits: who predicts held-out rows best, and is it worth its complexity?"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.engines.listener import Listener, stage
from calcli.engines.workers import Finished, Job, NoWorkersError, Progressed, run_beside, run_here
from calcli.errors import FitError, UsageError
from calcli.fitting.cross_validation import (
    FoldPredictions,
    HeldOutPredictions,
    gathers_once,
    join_folds,
    predict_splits,
)
from calcli.fitting.splits import Splits
from calcli.methods.base import Params
from calcli.methods.spec import MethodSpec
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.numeric.threads import threads
from calcli.reports.schema import ReportWarning

IDENTITY = "identity"

MOST_PROCESSES = 8

WORTH_PROCESSES = 800_000
"""From so many scores on, rows times classes times methods, processes save more time than they take to start."""

TRAINED = 20
"""A method that looks at features counts as so many."""

HALF = 0.5
"""Within so many standard errors of the least loss a simpler method is preferred.

A whole one, as is common, keeps a simple method on small tables where a better one is known to be better in five cases
of six; none at all follows chance. docs/never-worse.md has the figures.
"""

_NO_FEATURES = "the table has no features"
_OUT_OF_TIME = "the time was spent before it had finished"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one method; `reason` says why it has no predictions, where it has none."""

    row: MethodSpec
    status: Literal["ok", "failed", "skipped"]
    predicted: HeldOutPredictions | None = None
    reason: str | None = None


class _SharedWork(NamedTuple):
    """What every process of a contest knows."""

    contenders: tuple[tuple[MethodSpec, Params], ...]
    batch: Batch
    splits: Splits
    sides: SideInputs
    seed: int


class FoldTask(NamedTuple):
    """Splits that a contender predicts in one go; `place` is its own."""

    place: int
    splits: tuple[int, ...]


def cross_validate(
    contenders: Mapping[MethodSpec, Params],
    batch: Batch,
    splits: Splits,
    *,
    budget: float,
    seed: int,
    listener: Listener,
    sides: SideInputs = NO_SIDE_INPUTS,
) -> tuple[Outcome, ...]:
    """Every method's held-out predictions, in the order given, from a process for each core where that is worth it.

    A method that fails is an outcome with its reason, and so is one that lacks features. One that has not finished
    when `budget` seconds are over is skipped; the identity never is. Only processes can be stopped within a fold.
    """
    until = time.monotonic() + budget
    work = _SharedWork(tuple(contenders.items()), batch, splits, sides, seed)
    job = Job(_predict, work)
    with stage(listener, "comparing", len(contenders) * len(splits)):
        board = Progress(work, listener)
        board.follow(run_here(job, board.heats(IDENTITY)))
        count = min(threads(), MOST_PROCESSES, len(list(board.heats())))
        if count > 0 and _is_worth_processes(work) and time.monotonic() < until:
            with suppress(NoWorkersError):
                board.follow(run_beside(job, board.heats(), count=count, threads=threads() // count, until=until))
        if time.monotonic() < until:
            board.follow(run_here(job, board.heats(), until=until))
        return board.outcomes()


def _is_worth_processes(work: _SharedWork) -> bool:
    trained = sum(row.needs_features for row, _ in work.contenders) if work.batch.features else 0
    methods = len(work.contenders) + trained * (TRAINED - 1)
    return threads() > 1 and len(work.batch) * work.batch.classes * methods >= WORTH_PROCESSES


def _predict(work: _SharedWork, heat: FoldTask) -> Iterator[FoldPredictions]:
    row, params = work.contenders[heat.place]
    sides = work.sides.only(row.sides)
    for part, _ in predict_splits(row, work.batch, params, work.splits, heat.splits, work.seed, sides):
        yield part


@dataclass(slots=True)
class _MethodProgress:
    """How far a contender has come: what it has predicted, and what went wrong, by split."""

    row: MethodSpec
    parts: dict[int, FoldPredictions] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)


class Progress:
    """Where all contenders stand."""

    def __init__(self, work: _SharedWork, listener: Listener) -> None:
        self._work = work
        self._listener = listener
        self._entries = [_MethodProgress(row) for row, _ in work.contenders]

    def heats(self, name: str | None = None) -> Iterator[FoldTask]:
        """What is still to be done, of one contender or of all, as things stand when the next one is asked for."""
        for place, entry in enumerate(self._entries):
            if self._lacks_features(entry.row) or name not in (None, entry.row.name):
                continue
            every = range(len(self._work.splits))
            once = gathers_once(entry.row, self._work.batch, self._work.splits)
            for splits in [tuple(every)] if once else [(split,) for split in every]:
                if not entry.errors and not entry.parts.keys() >= set(splits):
                    yield FoldTask(place, splits)

    def follow(self, events: Generator[Progressed[FoldTask, FoldPredictions] | Finished[FoldTask], None, None]) -> None:
        """Write down what happens, and tell the listener."""
        with closing(events):  # so that an interrupt ends at once what is being done
            for event in events:
                entry = self._entries[event.task.place]
                if isinstance(event, Progressed):
                    entry.parts[event.value.split] = event.value
                    if not entry.errors:
                        self._tell(entry, 1, f"fold {len(entry.parts)} of {len(self._work.splits)}")
                elif event.error is not None:
                    if not entry.errors:
                        self._tell(entry, len(self._work.splits) - len(entry.parts), "failed")
                    entry.errors[event.task.splits[0]] = event.error

    def outcomes(self) -> tuple[Outcome, ...]:
        """What became of each."""
        return tuple(self._outcome(entry) for entry in self._entries)

    def _outcome(self, entry: _MethodProgress) -> Outcome:
        if entry.errors:  # the same one whichever came first
            return Outcome(entry.row, "failed", reason=entry.errors[min(entry.errors)])
        missing = len(self._work.splits) - len(entry.parts)
        if missing:
            self._tell(entry, missing, "skipped")
            reason = _NO_FEATURES if self._lacks_features(entry.row) else _OUT_OF_TIME
            return Outcome(entry.row, "skipped", reason=reason)
        return Outcome(entry.row, "ok", join_folds(entry.parts, self._work.batch, self._work.splits))

    def _lacks_features(self, row: MethodSpec) -> bool:
        return row.lacks_columns(self._work.batch)

    def _tell(self, entry: _MethodProgress, steps: int, what: str) -> None:
        self._listener.advance(steps, f"{entry.row.name}, {what}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which method a contest selects, and why, in a sentence; and which were left out, because the time was spent."""

    name: str
    best: str
    why: str
    left_out: tuple[str, ...] = ()


def choice_warnings(choice: Choice) -> tuple[ReportWarning, ...]:
    """What a report says of a choice."""
    found = [ReportWarning("choice", choice.why)]
    if choice.left_out:
        found.append(ReportWarning("budget", f"not finished within the budget: {', '.join(choice.left_out)}"))
    return tuple(found)


def criterion(name: str) -> metrics.MetricSpec:
    """The metric that a selection goes by: one that is a mean over rows, so that two methods can be told apart.

    Calibration errors are refused with the reason: they reward methods that forget what the scores knew.
    """
    row = metrics.find(name)
    if row.rows is not None:
        return row
    known = ", ".join(each.name for each in metrics.specs() if each.rows is not None)
    if row.kind == "gap":
        raise UsageError(
            f"--criterion {name}: one bin for all rows has nearly none of it and knows nothing; over 832 experiments "
            "of CalArena the method with the lowest ECE was worse than no calibration by the Brier score in 56 %",
            hint=f"choose by {known}, and look at {name} afterwards",
        )
    raise UsageError(f"--criterion {name}: it is no mean over rows", hint=f"choose by {known}")


def choose(outcomes: Sequence[Outcome], batch: Batch, splits: Splits, by: metrics.MetricSpec) -> Choice:
    """The simplest method whose loss is within half a standard error of the least.

    The standard error is that of the paired difference over the rows that were held out. The identity is the simplest
    of all: it stays unless something beats it by more than that.
    """
    rows, per_row = batch.take(splits.predicted), by.load_rows()
    assert per_row is not None
    sign = -1.0 if by.direction == "higher" else 1.0
    losses = {
        outcome.row.name: sign * per_row(Scored(rows.labels, outcome.predicted.prob, rows.weight))
        for outcome in outcomes
        if outcome.predicted is not None
    }
    if not losses:
        raise FitError("no method could be fitted")
    mean = {name: float(np.average(loss, weights=rows.weight)) for name, loss in losses.items()}
    best = min(mean, key=lambda name: mean[name])
    simple = sorted((outcome.row for outcome in outcomes if outcome.row.name in losses), key=lambda row: row.simplicity)
    for row in simple:
        gap, error = _gap(losses[row.name], losses[best], rows.weight)
        if row.name == best or gap <= HALF * error:
            shown = {name: sign * value for name, value in mean.items()}
            left_out = tuple(outcome.row.name for outcome in outcomes if outcome.reason == _OUT_OF_TIME)
            why = _why(row.name, best, shown, (gap, error), by)
            if set(losses) == {IDENTITY} and len(outcomes) > 1:
                why = "nothing was compared: no method but no calibration had a result"
            return Choice(row.name, best, why, left_out)
    raise AssertionError("the best method is within its own error")


def _gap(one: FloatArray, other: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """How much higher the first loss is in the mean, and the standard error of that."""
    value, lo, _, _ = paired_difference(one, other, weight)
    if value is None:
        raise FitError("all held-out rows have weight 0")
    return value, 0.0 if lo is None else (value - lo) / Z975


def _why(name: str, best: str, mean: Mapping[str, float], gap: tuple[float, float], by: metrics.MetricSpec) -> str:
    what = {"nll": "log-loss", "brier": "Brier score"}.get(by.name, by.name)
    most = "highest" if by.direction == "higher" else "lowest"
    beside = f"no calibration has {mean[IDENTITY]:.5f}" if IDENTITY in mean else "no calibration is not among them"
    if name == IDENTITY:
        if best == IDENTITY:
            return f"nothing has a better {what} than no calibration ({mean[IDENTITY]:.5f}) on held-out rows"
        return (
            f"{best} betters the {what} of no calibration ({mean[IDENTITY]:.5f}) by {gap[0]:.5f} on held-out rows, "
            f"less than half a standard error ({HALF * gap[1]:.5f})"
        )
    if name == best:
        return f"{name} has the {most} {what} on held-out rows, {mean[name]:.5f}; {beside}"
    return (
        f"{name} is the simplest method within half a standard error ({HALF * gap[1]:.5f}) of the {most} {what} on "
        f"held-out rows ({best}, {mean[best]:.5f}); it has {mean[name]:.5f}, {beside}"
    )
