"""Short ways to fit a method of the catalog, and the checks that tests of methods share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calcli.batch import NO_SIDE_INPUTS, Batch, SideInputs
from calcli.methods import calibrator, catalog
from calcli.methods.base import ParamValue
from calcli.methods.calibrator import FittedMethod


def fitted(
    method: str,
    batch: Batch,
    preset: str | None = None,
    *,
    sides: SideInputs = NO_SIDE_INPUTS,
    seed: int = 0,
    **given: ParamValue,
) -> FittedMethod:
    """The method of this name with these parameters."""
    spec = catalog.find(method)
    return calibrator.fit(spec, batch, spec.resolve(given, preset), sides=sides, seed=seed)


def alone(batch: Batch, method: str = "") -> FittedMethod:
    """A calibrator of the scores without the features, such as trees start from."""
    return fitted(method or ("platt" if batch.classes == 2 else "sms"), replace(batch, features={}))


def log_loss(prob: np.ndarray, label: np.ndarray) -> float:
    """The mean log-loss of probabilities of the positive class, or of each class."""
    if prob.ndim == 1:
        prob = np.column_stack([1 - prob, prob])
    return -float(np.log(prob[np.arange(len(label)), label]).mean())


def loss_of(model: FittedMethod, batch: Batch) -> float:
    """The mean log-loss of what a calibrator predicts of rows."""
    return log_loss(model.predict(batch), batch.labels)


def repeated(batch: Batch) -> Batch:
    """The rows as often as their whole-numbered weights say, with the score and the label alone."""
    rows = batch.take(np.repeat(np.arange(len(batch)), batch.weights.astype(int)))
    return Batch(rows.score, rows.label)
