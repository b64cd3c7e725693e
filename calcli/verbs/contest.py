"""Several methods under the same splits: who predicts held-out rows best, and is it worth its complexity?"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from calcli.batch import Batch, FloatArray
from calcli.engines.listener import Listener, stage
from calcli.errors import CalcliError, FitError
from calcli.methods.base import Params
from calcli.methods.row import Row
from calcli.metrics.base import Scored
from calcli.metrics.paired import paired_difference
from calcli.metrics.proper import nll_rows
from calcli.numeric.links import probabilities
from calcli.verbs.crossfit import Predicted, predict_held_out
from calcli.verbs.splits import Splits

IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one method; `reason` says why it has no predictions, where it has none."""

    row: Row
    status: Literal["ok", "failed", "skipped"]
    predicted: Predicted | None = None
    reason: str | None = None


class _OutOfTime(Exception):
    """The budget is spent."""


def run_contest(
    contenders: Mapping[str, Params],
    find: Callable[[str], Row],
    batch: Batch,
    splits: Splits,
    *,
    budget: float,
    seed: int,
    listener: Listener,
) -> tuple[Outcome, ...]:
    """Every method's held-out predictions, in the order given, on all cores.

    A method that fails is an outcome with its reason. One that has not finished when `budget` seconds are over is
    skipped; the identity never is.
    """
    deadline = time.monotonic() + budget
    stopped = False

    def attempt(name: str) -> Outcome:
        row = find(name)
        fold = 0

        def done() -> None:
            nonlocal fold
            fold += 1
            listener.advance(1, f"{name}, fold {fold} of {len(splits)}")
            if stopped or (fold < len(splits) and name != IDENTITY and time.monotonic() > deadline):
                raise _OutOfTime

        try:
            if stopped or (name != IDENTITY and time.monotonic() > deadline):
                raise _OutOfTime
            return Outcome(row, "ok", predict_held_out(row, batch, contenders[name], splits, seed=seed, done=done))
        except _OutOfTime:
            listener.advance(len(splits) - fold, f"{name}, skipped")
            return Outcome(row, "skipped", reason=f"the budget of {budget:g} s was spent")
        except Exception as error:  # noqa: BLE001: whatever a method dies of is a row of the comparison, not its end
            listener.advance(len(splits) - fold, f"{name}, failed")
            return Outcome(row, "failed", reason=_reason(error))

    with stage(listener, "comparing", len(contenders) * len(splits)):
        pool = ThreadPoolExecutor(max_workers=os.cpu_count() or 1)
        try:
            return tuple(pool.map(attempt, contenders))
        finally:
            stopped = True  # after Ctrl-C: what is still running ends with its fold
            pool.shutdown(cancel_futures=True)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, CalcliError) else f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which method a contest selects, and why, in a sentence."""

    name: str
    best: str
    why: str


def choose(outcomes: Sequence[Outcome], batch: Batch, splits: Splits) -> Choice:
    """The simplest method whose log-loss is within one standard error of the least.

    The standard error is that of the paired difference over the rows that were held out. The identity is the simplest of
    all: it stays unless something beats it by more than that.
    """
    rows = batch.take(splits.predicted)
    losses = {
        outcome.row.name: _losses(rows, outcome.predicted.prob) for outcome in outcomes if outcome.predicted is not None
    }
    if not losses:
        raise FitError("no method could be fitted")
    mean = {name: Scored(rows.labels, probabilities(rows.score), rows.weight).mean(loss) for name, loss in losses.items()}
    best = min(mean, key=lambda name: mean[name])
    simple = sorted((outcome.row for outcome in outcomes if outcome.row.name in losses), key=lambda row: row.simplicity)
    for row in simple:
        gap, error = _gap(losses[row.name], losses[best], rows.weight)
        if row.name == best or gap <= error:
            return Choice(row.name, best, _why(row.name, best, mean, gap, error))
    raise AssertionError("the best method is within its own error")


def _losses(rows: Batch, prob: FloatArray) -> FloatArray:
    return nll_rows(Scored(rows.labels, prob, rows.weight))


def _gap(one: FloatArray, other: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """How much higher the first loss is in the mean, and the standard error of that."""
    found = paired_difference(one, other, weight)
    return found.value, found.error


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
        f"{name} is the simplest method within one standard error ({error:.5f}) of the lowest log-loss on held-out rows "
        f"({best}, {mean[best]:.5f}); it has {mean[name]:.5f}, {beside}"
    )
