"""Predictions for rows that the calibrator has not seen: the base of every before/after comparison."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.fitting.splits import Splits
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import PLAIN, Calibrator, PostProcessing
from calcli.methods.spec import MethodSpec


@dataclass(frozen=True, slots=True)
class HeldOutPredictions:
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
class FoldPredictions:
    """What one split adds to it: the predictions of its rows, in order."""

    split: int
    prob: FloatArray
    fit_seconds: float
    apply_seconds: float


def predict_held_out(
    spec: MethodSpec,
    batch: Batch,
    params: Params,
    splits: Splits,
    *,
    seed: int,
    done: Callable[[], None],
    sides: SideInputs = NO_SIDE_INPUTS,
    post_processing: PostProcessing = PLAIN,
) -> tuple[HeldOutPredictions, Calibrator]:
    """Fit on some rows and predict others, for each split; `done` is called after each.

    The calibrator is the one that was fitted last: with a single split, the only one.
    """
    parts: dict[int, FoldPredictions] = {}
    for part, fitted in predict_splits(spec, batch, params, splits, range(len(splits)), seed, sides, post_processing):
        parts[part.split], last = part, fitted
        done()
    return join_folds(parts, batch, splits), last


def join_folds(parts: Mapping[int, FoldPredictions], batch: Batch, splits: Splits) -> HeldOutPredictions:
    """The parts of all splits as one."""
    prob = np.empty(batch.score.shape)
    for part in parts.values():
        prob[splits.tests[part.split]] = part.prob
    return HeldOutPredictions(
        prob[splits.predicted],
        sum(part.fit_seconds for part in parts.values()),
        sum(part.apply_seconds for part in parts.values()),
    )


def predict_splits(
    spec: MethodSpec,
    batch: Batch,
    params: Params,
    splits: Splits,
    which: Sequence[int],
    seed: int,
    sides: SideInputs = NO_SIDE_INPUTS,
    post_processing: PostProcessing = PLAIN,
) -> Iterator[tuple[FoldPredictions, Calibrator]]:
    """For some of the splits, what was predicted, and by which calibrator."""
    sums: list[Sums] = []
    for split in which:
        started = time.perf_counter()
        if gathers_once(spec, batch, splits):
            sums = sums or [calibrator.gather(spec, batch.take(part), params) for part in splits.tests]
            fitted = _from_others(spec, sums, split, params, batch.classes)
        else:
            fitted = calibrator.fit(spec, batch.take(splits.train(split)), params, sides=sides, seed=seed)
        fitted = fitted.with_post_processing(post_processing)
        middle = time.perf_counter()
        prob = fitted.predict(batch.take(splits.tests[split]))
        yield FoldPredictions(split, prob, middle - started, time.perf_counter() - middle), fitted


def gathers_once(spec: MethodSpec, batch: Batch, splits: Splits) -> bool:
    """Whether what sums over all parts but one are made of is gathered for all splits together."""
    return splits.partition and spec.from_sums(batch.classes)


def _from_others(spec: MethodSpec, sums: list[Sums], index: int, params: Params, classes: int) -> Calibrator:
    first, *others = (part for place, part in enumerate(sums) if place != index)
    return calibrator.finish(spec, sum(others, start=first), params, classes=classes)
