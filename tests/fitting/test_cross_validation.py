"""Held-out predictions, and what the calibrators of the folds say of each other's rows."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch, Units
from calcli.fitting.cross_validation import predict_held_out
from calcli.fitting.splits import Holdout, split_rows
from calcli.methods import catalog

FOLDS = 5


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("units", [None, Units(np.arange(300) // 10)])
def test_of_its_own_fold_a_calibrator_says_what_was_held_out(method: str, units: Units | None) -> None:
    rng = np.random.default_rng(0)
    score = rng.normal(size=300)
    batch = Batch(score, (rng.random(300) < 1 / (1 + np.exp(-score))).astype(np.int64), units=units)
    spec = catalog.find(method)
    splits = split_rows(len(batch), Holdout("cv", folds=FOLDS), 0, units)
    predicted, _ = predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)
    assert len(predicted.fits.prob) == FOLDS
    for fold, prob in enumerate(predicted.fits.prob):
        own = splits.folds.place == fold
        np.testing.assert_allclose(prob[own], predicted.prob[own])
    for few in (Holdout("cv", folds=2), Holdout("share", share=0.2)):
        splits = split_rows(len(batch), few, 0, units)
        assert predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)[0].fits is None
