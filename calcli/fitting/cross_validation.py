"""Predictions for rows that the calibrator has not seen: the base of every before/after comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDES, Batch, FloatArray, Sides
from calcli.fitting.splits import Splits
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import PLAIN, Calibrator, Ending
from calcli.methods.spec import Row


@dataclass(frozen=True, slots=True)
class Predicted:
    """Held-out predictions.

    Attributes
    ----------
    prob
        Calibrated probabilities of the rows that were held out, in order.
    fit_seconds, apply_seconds
        Time spent, over all splits.
    """

    prob: FloatArray
    fit_seconds: float
    apply_seconds: float


@dataclass(frozen=True, slots=True)
class Part:
    """What one split adds to it: the predictions of its rows, in order."""

    split: int
    prob: FloatArray
    fit_seconds: float
    apply_seconds: float


def predict_held_out(
    row: Row,
    batch: Batch,
    params: Params,
    splits: Splits,
    *,
    seed: int,
    done: Callable[[], None],
    sides: Sides = NO_SIDES,
    ending: Ending = PLAIN,
) -> tuple[Predicted, Calibrator]:
    """Fit on some rows and predict others, for each split; `done` is called after each.

    The calibrator is the one that was fitted last: with a single split, the only one.
    """
    parts: dict[int, Part] = {}
    for part, fitted in predict_splits(row, batch, params, splits, range(len(splits)), seed, sides, ending):
        parts[part.split], last = part, fitted
        done()
    return joined(parts, batch, splits), last


def joined(parts: Mapping[int, Part], batch: Batch, splits: Splits) -> Predicted:
    """The parts of all splits as one."""
    prob = np.empty(batch.score.shape)
    for part in parts.values():
        prob[splits.tests[part.split]] = part.prob
    return Predicted(
        prob[splits.predicted],
        sum(part.fit_seconds for part in parts.values()),
        sum(part.apply_seconds for part in parts.values()),
    )


def predict_splits(
    row: Row,
    batch: Batch,
    params: Params,
    splits: Splits,
    which: Sequence[int],
    seed: int,
    sides: Sides = NO_SIDES,
    ending: Ending = PLAIN,
) -> Iterator[tuple[Part, Calibrator]]:
    """For some of the splits, what was predicted, and by which calibrator."""
    sums: list[Sums] = []
    for split in which:
        started = time.perf_counter()
        if gathers_once(row, batch, splits):
            sums = sums or [calibrator.gather(row, batch.take(part), params) for part in splits.tests]
            fitted = _from_others(row, sums, split, params, batch.classes)
        else:
            fitted = calibrator.fit(row, batch.take(splits.train(split)), params, sides=sides, seed=seed)
        fitted = fitted.with_ending(ending)
        middle = time.perf_counter()
        prob = fitted.predict(batch.take(splits.tests[split]))
        yield Part(split, prob, middle - started, time.perf_counter() - middle), fitted


def gathers_once(row: Row, batch: Batch, splits: Splits) -> bool:
    """Whether what sums over all parts but one are made of is gathered for all splits together."""
    return splits.partition and row.from_sums(batch.classes)


def _from_others(row: Row, sums: list[Sums], index: int, params: Params, classes: int) -> Calibrator:
    first, *others = (part for place, part in enumerate(sums) if place != index)
    return calibrator.finish(row, sum(others, start=first), params, classes=classes)
