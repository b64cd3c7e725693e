"""Predictions for rows that the calibrator has not seen: the base of every before/after comparison."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.engines.listener import Listener, stage
from calcli.errors import UsageError
from calcli.methods import calibrator
from calcli.methods.base import Params, Sums
from calcli.methods.calibrator import Calibrator
from calcli.methods.row import Row
from calcli.numeric.folds import folds, held_out
from calcli.numeric.rng import stream

CROSS_VALIDATED_ROWS = 1_000_000
"""Up to so many rows the default is 5-fold cross-validation, above it one 90/10 split."""


@dataclass(frozen=True, slots=True)
class Holdout:
    """How rows are held out: ``cv:5``, ``0.1`` or ``none``."""

    kind: Literal["cv", "share", "none"]
    folds: int = 0
    share: float = 0.0

    def __str__(self) -> str:
        return {"cv": f"cv:{self.folds}", "share": f"{self.share:g}", "none": "none"}[self.kind]

    @property
    def refit_on_all(self) -> bool:
        """Whether the artifact is a fit on all rows, not the one that was evaluated."""
        return self.kind != "share"

    @classmethod
    def parse(cls, text: str | None, rows: int) -> Holdout:
        """The scheme that `text` names; None is the default for so many rows."""
        if text is None:
            return cls("cv", folds=5) if rows <= CROSS_VALIDATED_ROWS else cls("share", share=0.1)
        if text == "none":
            return cls("none")
        if match := re.fullmatch(r"cv:(\d+)", text):
            count = int(match[1])
            if count < 2:
                raise UsageError(f"--holdout {text}: cross-validation needs at least 2 folds")
            return cls("cv", folds=count)
        try:
            share = float(text)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise UsageError(f"--holdout {text} is none of cv:5 (folds), 0.1 (a share of the rows), none")
        return cls("share", share=share)


@dataclass(frozen=True, slots=True)
class Predicted:
    """Held-out predictions.

    Attributes
    ----------
    rows
        Which rows have one.
    prob
        Their calibrated probabilities.
    last
        The calibrator that was fitted last: with a single split, the only one.
    fit_seconds, apply_seconds
        Time spent, over all folds.
    """

    rows: NDArray[np.bool_]
    prob: FloatArray
    last: Calibrator
    fit_seconds: float
    apply_seconds: float


def predict_held_out(
    row: Row, batch: Batch, params: Params, holdout: Holdout, *, seed: int, listener: Listener
) -> Predicted:
    """Fit on some rows and predict the others, for each part that `holdout` makes."""
    if holdout.kind == "cv":
        count = min(holdout.folds, len(batch))
        fold = folds(batch.labels, count, stream(seed, "folds"))
        parts = [fold == index for index in range(count)]
    else:
        parts = [held_out(batch.labels, holdout.share, stream(seed, "split"))]
    prob = np.empty(batch.score.shape)
    fit_seconds = apply_seconds = 0.0
    fitter = _Fitter(row, batch, params, parts, seed)
    with stage(listener, f"checking {row.name} on held-out rows", len(parts)):
        for index, part in enumerate(parts):
            started = time.perf_counter()
            fitted = fitter.without(index)
            middle = time.perf_counter()
            prob[part] = fitted.predict(batch.take(part))
            fit_seconds += middle - started
            apply_seconds += time.perf_counter() - middle
            listener.advance(1)
    rows = np.logical_or.reduce(parts)
    return Predicted(rows, prob[rows], fitted, fit_seconds, apply_seconds)


class _Fitter:
    """Fits on all parts but one. A method that is fitted from sums gathers each part once, not once for each fold."""

    def __init__(self, row: Row, batch: Batch, params: Params, parts: list[NDArray[np.bool_]], seed: int) -> None:
        self._row, self._batch, self._params, self._parts, self._seed = row, batch, params, parts, seed
        self._sums: list[Sums] = []
        if len(parts) > 1 and row.load_sums(batch.classes) is not None:
            self._sums = [calibrator.gather(row, batch.take(part), params) for part in parts]

    def without(self, index: int) -> Calibrator:
        if self._sums:
            first, *others = (sums for place, sums in enumerate(self._sums) if place != index)
            return calibrator.finish(self._row, sum(others, start=first), self._params, classes=self._batch.classes)
        rest = self._batch.take(~self._parts[index])
        return calibrator.fit(self._row, rest, self._params, seed=self._seed)
