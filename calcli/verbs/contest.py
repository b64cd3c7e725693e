"""Several methods under the same splits: who predicts held-out rows best, and is it worth its complexity?"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np

from calcli.batch import Batch, FloatArray
from calcli.engines.listener import Listener, stage
from calcli.errors import CalcliError, FitError
from calcli.methods.base import Params
from calcli.methods.row import Row
from calcli.metrics.base import Scored
from calcli.metrics.paired import paired_difference
from calcli.metrics.proper import nll_rows
from calcli.verbs.crossfit import Predicted, predict_held_out
from calcli.verbs.splits import Splits

IDENTITY = "identity"

NORMAL_975 = 1.959963984540054
"""Standard errors from a difference to the end of its 95 % interval."""


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
    contenders: Mapping[Row, Params], batch: Batch, splits: Splits, *, budget: float, seed: int, listener: Listener
) -> tuple[Outcome, ...]:
    """Every method's held-out predictions, in the order given, on all cores.

    A method that fails is an outcome with its reason. One that has not finished when `budget` seconds are over is
    skipped; the identity never is.
    """
    clock = _Clock(time.monotonic() + budget)
    with stage(listener, "comparing", len(contenders) * len(splits)):
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        attempts = [_Attempt(row, params, batch, splits, seed, clock, listener) for row, params in contenders.items()]
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
    seed: int
    clock: _Clock
    listener: Listener
    fold: int = 0

    def outcome(self) -> Outcome:
        try:
            self.clock.check(self.row.name)
            predicted = predict_held_out(
                self.row, self.batch, self.params, self.splits, seed=self.seed, done=self._fold_done
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
    """Which method a contest selects, and why, in a sentence."""

    name: str
    best: str
    why: str


def choose(outcomes: Sequence[Outcome], batch: Batch, splits: Splits) -> Choice:
    """The simplest method whose log-loss is within one standard error of the least.

    The standard error is that of the paired difference over the rows that were held out. The identity is the simplest
    of all: it stays unless something beats it by more than that.
    """
    rows = batch.take(splits.predicted)
    losses = {
        outcome.row.name: nll_rows(Scored(rows.labels, outcome.predicted.prob, rows.weight))
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
            return Choice(row.name, best, _why(row.name, best, mean, gap, error))
    raise AssertionError("the best method is within its own error")


def _gap(one: FloatArray, other: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """How much higher the first loss is in the mean, and the standard error of that."""
    value, lo, _, _ = paired_difference(one, other, weight)
    if value is None:
        raise FitError("all held-out rows have weight 0")
    return value, 0.0 if lo is None else (value - lo) / NORMAL_975


def _why(name: str, best: str, mean: Mapping[str, float], gap: float, error: float) -> str:
    beside = f"no calibration has {mean[IDENTITY]:.5f}" if IDENTITY in mean else "no calibration is not among them"
    if name == IDENTITY:
        if best == IDENTITY:
            return f"nothing has a lower log-loss than no calibration ({mean[IDENTITY]:.5f}) on held-out rows"
        return (
            f"{best} lowers the log-loss of no calibration ({mean[IDENTITY]:.5f}) by {gap:.5f} on held-out rows, "
            f"less than one standard error ({error:.5f})"
        )
    if name == best:
        return f"{name} has the lowest log-loss on held-out rows, {mean[name]:.5f}; {beside}"
    return (
        f"{name} is the simplest method within one standard error ({error:.5f}) of the lowest log-loss on held-out "
        f"rows ({best}, {mean[best]:.5f}); it has {mean[name]:.5f}, {beside}"
    )
