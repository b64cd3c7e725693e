"""Held-out predictions, and what the calibrators of the folds say of each other's rows."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch, SamplingUnits
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.models import held_out
from calcli.models.held_out import Holdout, predict_held_out, split_rows

FOLDS = 5


@pytest.mark.parametrize("method", ["platt", "isotonic"])
@pytest.mark.parametrize("units", [None, SamplingUnits(np.arange(300) // 10)])
@pytest.mark.parametrize("step", [1, 4])
def test_what_a_calibrator_says_of_all_rows_is_what_one_fitted_on_the_other_folds_predicts(
    method: str, units: SamplingUnits | None, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each calibrator predicts a row once, be it of its own fold or of another."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=300)
    batch = Batch(score, (rng.random(300) < 1 / (1 + np.exp(-score))).astype(np.int64), units=units)
    spec = catalog.find(method)
    splits = split_rows(len(batch), Holdout("cv", folds=FOLDS), 0, units)
    monkeypatch.setattr(held_out, "SAID", FOLDS * 300 // step)
    seen, predict = list[int](), FittedMethod.predict
    monkeypatch.setattr(FittedMethod, "predict", lambda self, rows: seen.append(len(rows)) or predict(self, rows))
    predicted, _ = predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)
    asked = [test | (np.arange(300) % step == 0) for test in splits.tests]
    assert sum(seen) == np.sum(asked)
    assert predicted.fits.step == step
    for fold, said in enumerate(predicted.fits.prob):
        fitted = calibrator.fit(spec, batch.take(splits.train(fold)), spec.resolve(), seed=0)
        np.testing.assert_allclose(said, fitted.predict(batch)[::step], rtol=1e-9)
        np.testing.assert_array_equal(
            said[splits.tests[fold][::step]], predicted.prob[::step][splits.tests[fold][::step]]
        )
    for few in (Holdout("cv", folds=2), Holdout("share", share=0.2)):
        splits = split_rows(len(batch), few, 0, units)
        assert predict_held_out(spec, batch, spec.resolve(), splits, seed=0, done=lambda: None)[0].fits is None
