"""Several methods under the same splits: who predicts held-out rows best, and is it worth its complexity?"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.batch import NO_SIDES, Batch, FloatArray, Sides
from calcli.engines.listener import Listener, stage
from calcli.errors import CalcliError, FitError, UsageError
from calcli.methods.base import Params
from calcli.methods.row import Row
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Scored
from calcli.metrics.paired import Z975, paired_difference
from calcli.verbs.crossfit import Predicted, predict_held_out
from calcli.verbs.report import Warned
from calcli.verbs.splits import Splits

IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one method; `reason` says why it has no predictions, where it has none."""

    row: Row
    status: Literal["ok", "failed", "skipped"]
    predicted: Predicted | None = None
    reason: str | None = None


class _OutOfTimeError(Exception):
    """The budget is spent, or the contest is being ended."""


@dataclass(slots=True)
class _Clock:
    """When the contest must end. What runs in other threads looks here after each fold."""

    deadline: float
    stopped: bool = False

    def check(self, name: str) -> None:
        late = name != IDENTITY and time.monotonic() > self.deadline
        if self.stopped or late:
            raise _OutOfTimeError


def run_contest(
    contenders: Mapping[Row, Params],
    batch: Batch,
    splits: Splits,
    *,
    budget: float,
    seed: int,
    listener: Listener,
    sides: Sides = NO_SIDES,
) -> tuple[Outcome, ...]:
    """Every method's held-out predictions, in the order given, with a thread for each core.

    A method that fails is an outcome with its reason, and so is one that lacks features. One that has not finished
    when `budget` seconds are over is skipped; the identity never is.
    """
    clock = _Clock(time.monotonic() + budget)
    with stage(listener, "comparing", len(contenders) * len(splits)):
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        attempts = [
            _Attempt(row, params, batch, splits, sides, seed, clock, listener) for row, params in contenders.items()
        ]
        try:
            return tuple(pool.map(_Attempt.outcome, attempts))
        finally:
            clock.stopped = True  # after Ctrl-C: what is still running ends with its fold
            pool.shutdown(cancel_futures=True)


@dataclass(slots=True)
class _Attempt:
    """One method's turn."""

    row: Row
    params: Params
    batch: Batch
    splits: Splits
    sides: Sides
    seed: int
    clock: _Clock
    listener: Listener
    fold: int = 0

    def outcome(self) -> Outcome:
        if self.row.needs_features and not self.batch.features:
            return self._without_result("skipped", "the table has no features")
        try:
            self.clock.check(self.row.name)
            predicted = predict_held_out(
                self.row,
                self.batch,
                self.params,
                self.splits,
                seed=self.seed,
                sides=self.sides.only(self.row.sides),
                done=self._fold_done,
            )
        except _OutOfTimeError:
            return self._without_result("skipped", "the time was spent before it had finished")
        except CalcliError as error:
            return self._without_result("failed", str(error))
        except Exception as error:  # whatever a method dies of is a row of the comparison, not its end
            return self._without_result("failed", f"{type(error).__name__}: {error}")
        return Outcome(self.row, "ok", predicted)

    def _fold_done(self) -> None:
        self.fold += 1
        self.listener.advance(1, f"{self.row.name}, fold {self.fold} of {len(self.splits)}")
        if self.fold < len(self.splits):
            self.clock.check(self.row.name)

    def _without_result(self, status: Literal["failed", "skipped"], reason: str) -> Outcome:
        self.listener.advance(len(self.splits) - self.fold, f"{self.row.name}, {status}")
        return Outcome(self.row, status, reason=reason)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which method a contest selects, and why, in a sentence; and which were left out, because the time was spent."""

    name: str
    best: str
    why: str
    left_out: tuple[str, ...] = ()


def choice_warnings(choice: Choice) -> tuple[Warned, ...]:
    """What a report says of a choice."""
    found = [Warned("choice", choice.why)]
    if choice.left_out:
        found.append(Warned("budget", f"not finished within the budget: {', '.join(choice.left_out)}"))
    return tuple(found)


def criterion(name: str) -> metrics.Row:
    """The metric that a selection goes by: one that is a mean over rows, so that two methods can be told apart.

    Calibration errors are refused with the reason: they reward methods that forget what the scores knew.
    """
    row = metrics.find(name)
    if row.rows is not None:
        return row
    known = ", ".join(each.name for each in metrics.rows() if each.rows is not None)
    if row.kind == "gap":
        raise UsageError(
            f"--criterion {name}: one bin for all rows has nearly none of it and knows nothing; over 832 experiments "
            "of CalArena the method with the lowest ECE was worse than no calibration by the Brier score in 56 %",
            hint=f"choose by {known}, and look at {name} afterwards",
        )
    raise UsageError(f"--criterion {name}: it is no mean over rows", hint=f"choose by {known}")


def choose(outcomes: Sequence[Outcome], batch: Batch, splits: Splits, by: metrics.Row) -> Choice:
    """The simplest method whose loss is within one standard error of the least.

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
        if row.name == best or gap <= error:
            shown = {name: sign * value for name, value in mean.items()}
            left_out = tuple(outcome.row.name for outcome in outcomes if outcome.status == "skipped")
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


def _why(name: str, best: str, mean: Mapping[str, float], gap: tuple[float, float], by: metrics.Row) -> str:
    what = {"nll": "log-loss", "brier": "Brier score"}.get(by.name, by.name)
    most = "highest" if by.direction == "higher" else "lowest"
    beside = f"no calibration has {mean[IDENTITY]:.5f}" if IDENTITY in mean else "no calibration is not among them"
    if name == IDENTITY:
        if best == IDENTITY:
            return f"nothing has a better {what} than no calibration ({mean[IDENTITY]:.5f}) on held-out rows"
        return (
            f"{best} betters the {what} of no calibration ({mean[IDENTITY]:.5f}) by {gap[0]:.5f} on held-out rows, "
            f"less than one standard error ({gap[1]:.5f})"
        )
    if name == best:
        return f"{name} has the {most} {what} on held-out rows, {mean[name]:.5f}; {beside}"
    return (
        f"{name} is the simplest method within one standard error ({gap[1]:.5f}) of the {most} {what} on held-out "
        f"rows ({best}, {mean[best]:.5f}); it has {mean[name]:.5f}, {beside}"
    )
