"""Short ways to fit a method of the catalog, and the checks that tests of methods share."""

from __future__ import annotations

import numpy as np

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.base import ParamValue
from calcli.methods.calibrator import FittedMethod


def fitted(method: str, batch: Batch, **given: ParamValue) -> FittedMethod:
    """The method of this name with these parameters."""
    spec = catalog.find(method)
    return calibrator.fit(spec, batch, spec.resolve(given))


def log_loss(prob: np.ndarray, label: np.ndarray) -> float:
    """The mean log-loss of the probabilities of more than two classes."""
    return -float(np.log(prob[np.arange(len(label)), label]).mean())


def repeated(batch: Batch) -> Batch:
    """The rows as often as their whole-numbered weights say, with the score and the label alone."""
    rows = batch.take(np.repeat(np.arange(len(batch)), batch.weights.astype(int)))
    return Batch(rows.score, rows.label)
