"""Cross-validation: predictions for held-out rows, from calibrators that have not seen them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.fitting.splits import Mask, Splits
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import PLAIN, FittedMethod, PostProcessing
from calcli.methods.spec import MethodSpec
from calcli.metrics.paired import LEAST_FOLDS, MOST_FOLDS, FoldFits

NONE_KNOWN: Mapping[int, FittedMethod] = {}

SAID = 500_000
"""About so many predictions of the folds' calibrators for rows of other folds are kept."""


@dataclass(frozen=True, slots=True)
class HeldOutPredictions:
    """Calibrated probabilities of the held-out rows, in order, and the time that all splits took.

    Attributes
    ----------
    fits
        What the calibrator of each fold says of the rows of the others, where that was asked for.
    """

    prob: FloatArray
    fit_seconds: float
    apply_seconds: float
    fits: FoldFits | None = None


@dataclass(frozen=True, slots=True)
class FoldPredictions:
    """Calibrated probabilities of the test rows of one split, in order, and those of `FoldFits`."""

    split: int
    prob: FloatArray
    fit_seconds: float
    apply_seconds: float
    said: FloatArray | None = None


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
) -> tuple[HeldOutPredictions, FittedMethod]:
    """Fit and predict in each split; `done` is called after each. The calibrator is that of the last split."""
    parts: dict[int, FoldPredictions] = {}
    step = step_of(batch, splits)
    every = range(len(splits))
    for part, fitted in predict_splits(spec, batch, params, splits, every, seed, sides, post_processing, step):
        parts[part.split], last = part, fitted
        done()
    return join_folds(parts, batch, splits), last


def step_of(batch: Batch, splits: Splits) -> int:
    """Which rows each fold's calibrator predicts for `FoldFits`: each so many-th, none where it is 0."""
    if not splits.partition or not LEAST_FOLDS <= len(splits) <= MOST_FOLDS:
        return 0
    return max(1, batch.score.size * len(splits) // SAID)


def join_folds(parts: Mapping[int, FoldPredictions], batch: Batch, splits: Splits) -> HeldOutPredictions:
    """The predictions of all splits in the order of the rows."""
    prob = np.empty(batch.score.shape)
    for part in parts.values():
        prob[splits.tests[part.split]] = part.prob
    said = [parts[split].said for split in range(len(splits))]
    known = tuple(one for one in said if one is not None)
    return HeldOutPredictions(
        prob[splits.predicted],
        sum(part.fit_seconds for part in parts.values()),
        sum(part.apply_seconds for part in parts.values()),
        FoldFits(known, step_of(batch, splits)) if len(known) == len(splits) else None,
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
    step: int = 0,
    known: Mapping[int, FittedMethod] = NONE_KNOWN,
) -> Iterator[tuple[FoldPredictions, FittedMethod]]:
    """The predictions and the calibrator of each of the splits `which`; `step` is that of `step_of`.

    `known` are calibrators of splits that need not be fitted again.
    """
    sums: list[Sums] = []
    for split in which:
        started = time.perf_counter()
        if split in known:
            fitted = known[split]
        elif gathers_once(spec, batch, splits):
            sums = sums or [calibrator.gather(spec, batch.take(part), params) for part in splits.tests]
            fitted = _from_others(spec, sums, split, params, batch.classes)
        else:
            fitted = calibrator.fit(spec, batch.take(splits.train(split)), params, sides=sides, seed=seed)
        fitted = fitted.with_post_processing(post_processing)
        middle = time.perf_counter()
        prob = fitted.predict(batch.take(splits.tests[split]))
        apply_seconds = time.perf_counter() - middle
        said = _said(fitted, batch, splits.tests[split], prob, step) if step else None
        yield FoldPredictions(split, prob, middle - started, apply_seconds, said), fitted


def _said(fitted: FittedMethod, batch: Batch, test: Mask, prob: FloatArray, step: int) -> FloatArray:
    """What a calibrator says of each `step`-th row; of the rows of its test it has said `prob`."""
    if fitted.whole_table:
        return fitted.predict(batch.take(slice(None, None, step)))
    others = ~test
    others[np.arange(len(batch)) % step > 0] = False
    said = np.empty(batch.score.shape)
    said[test], said[others] = prob, fitted.predict(batch.take(others))
    return said[::step]


def gathers_once(spec: MethodSpec, batch: Batch, splits: Splits) -> bool:
    """Whether each fold's sums are gathered once, so that every split fits from those of the other folds.

    Sums do not know of units, by which methods choose settings inside.
    """
    return splits.partition and batch.units is None and spec.from_sums(batch.classes)


def _from_others(spec: MethodSpec, sums: list[Sums], index: int, params: Params, classes: int) -> FittedMethod:
    first, *others = (part for place, part in enumerate(sums) if place != index)
    return calibrator.finish(spec, sum(others, start=first), params, classes=classes)
