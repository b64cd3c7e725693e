"""Predictions for rows that the calibrator has not seen: the base of every before/after comparison."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDES, Batch, FloatArray, Sides
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import PLAIN, Calibrator, Ending
from calcli.methods.row import Row
from calcli.verbs.splits import Splits


@dataclass(frozen=True, slots=True)
class Predicted:
    """Held-out predictions.

    Attributes
    ----------
    prob
        Calibrated probabilities of the rows that were held out, in order.
    last
        The calibrator that was fitted last: with a single split, the only one.
    fit_seconds, apply_seconds
        Time spent, over all splits.
    """

    prob: FloatArray
    last: Calibrator
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
) -> Predicted:
    """Fit on some rows and predict others, for each split; `done` is called after each."""
    prob = np.empty(batch.score.shape)
    fit_seconds = apply_seconds = 0.0
    sums: list[Sums] = []
    for index, test in enumerate(splits.tests):
        started = time.perf_counter()
        if splits.partition and row.load_sums(batch.classes) is not None:
            # What sums over all parts but one are made of is gathered once, not once for each part.
            sums = sums or [calibrator.gather(row, batch.take(part), params) for part in splits.tests]
            fitted = _from_others(row, sums, index, params, batch.classes)
        else:
            fitted = calibrator.fit(row, batch.take(splits.train(index)), params, sides=sides, seed=seed)
        fitted = fitted.with_ending(ending)
        middle = time.perf_counter()
        prob[test] = fitted.predict(batch.take(test))
        fit_seconds += middle - started
        apply_seconds += time.perf_counter() - middle
        done()
    return Predicted(prob[splits.predicted], fitted, fit_seconds, apply_seconds)


def _from_others(row: Row, sums: list[Sums], index: int, params: Params, classes: int) -> Calibrator:
    first, *others = (part for place, part in enumerate(sums) if place != index)
    return calibrator.finish(row, sum(others, start=first), params, classes=classes)
