"""Class rates that have moved since the fit of a calibrator, found from rows without labels."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import DataError
from calcli.methods.post_processing import PostProcessing
from calcli.models.calibrator import CalibratorModel
from calcli.numeric.prior_shift import Moments, NotIdentifiedError, Rates, moved, rates
from calcli.reports.measuring import class_names

CONTRADICTED = 0.01
"""The p-value below which the scores contradict that only the class rates have moved."""


_CHANCE, _SMALL = 3.0, 0.005
"""Mean residuals at the fit of so many standard errors, and of so much, are no chance."""


class MovedRates(NamedTuple):
    """The class rates of rows, and how well they agree with the scores of the fit."""

    before: FloatArray
    """The class rates for which the calibrator was made."""

    rates: Rates
    p: float | None
    """The p-value of the hypothesis that only the rates have moved; None where the fit does not tell."""

    @property
    def contradicted(self) -> bool:
        return self.p is not None and self.p < CONTRADICTED


def moved_rates(model: CalibratorModel, prob: FloatArray, weight: FloatArray | None) -> MovedRates:
    """The class rates of rows to which a calibrator gives these probabilities."""
    columns = np.column_stack([1.0 - prob, prob]) if prob.ndim == 1 else prob
    weights, before = np.ones(len(prob)) if weight is None else weight, _rates_of_fit(model)
    try:
        found = rates(columns, before, weights, float(str(model.manifest.fit["rows"])))
    except NotIdentifiedError:
        raise DataError(
            f"--prior-shift estimate: the probabilities of {len(prob):,} rows do not determine the class rates",
            hint="use more rows, or a score that tells the classes apart better; or label some rows",
        ) from None
    fit = _moments(model)
    p = None if fit is None else moved(columns, before, weights, found.value, fit)
    return MovedRates(before, found, p)


def off_at_fit(model: CalibratorModel) -> str | None:
    """The class whose probabilities were off on average at the fit beyond chance, in words; None where none was."""
    kept = model.manifest.fit.get("residuals")
    if not isinstance(kept, dict) or model.calibrator.post_processing.prior_ratio:
        return None
    mean, error = (np.array(kept[name], dtype=np.float64)[:, 0] for name in ("mean", "error"))
    worst = int(np.argmax(np.abs(mean) - _CHANCE * error))
    if abs(mean[worst]) <= max(_CHANCE * error[worst], _SMALL):
        return None
    name = class_names(model.binding)[-1 if model.calibrator.classes == 2 else worst]
    return (
        f"at its fit the artifact's probabilities of {name} were off by {-mean[worst]:+.3f} on average: it is not "
        "calibrated, and what follows from it is off as well"
    )


def with_moved_rates(model: CalibratorModel, found: MovedRates) -> CalibratorModel:
    """The calibrator for rows with these class rates."""
    processing = model.calibrator.post_processing
    ratio = np.ones(len(found.before)) if processing.prior_ratio is None else np.array(processing.prior_ratio)
    # A rate of 0 is never certain: its lower end may be 0, its upper end is not.
    value = np.maximum(found.rates.value, 1e-9)
    new = tuple(float(one) for one in ratio * value / value.sum() / found.before)
    return replace(model, calibrator=model.calibrator.with_post_processing(PostProcessing(processing.exact, new)))


def _rates_of_fit(model: CalibratorModel) -> FloatArray:
    """The class rates for which the probabilities were made: those of the fit, or those of its --prior-shift."""
    rate = model.manifest.fit.get("label_rate")
    if isinstance(rate, dict):
        before = np.array([float(str(rate[name])) for name in class_names(model.binding)])
    elif isinstance(rate, float | int) and 0.0 < rate < 1.0:
        before = np.array([1.0 - rate, rate])
    else:
        raise DataError("--prior-shift estimate: the artifact does not say at which class rates it was fitted")
    ratio = model.calibrator.post_processing.prior_ratio
    before = before if ratio is None else before * np.array(ratio)
    return cast("FloatArray", before / before.sum())


def _moments(model: CalibratorModel) -> Moments | None:
    """The log-odds of the rows of the fit, as far as the artifact has them."""
    kept, fit = model.manifest.fit.get("residuals"), model.manifest.fit
    if not isinstance(kept, dict) or model.calibrator.classes > 2 or model.calibrator.post_processing.prior_ratio:
        return None
    (centre,), (spread,) = cast("list[float]", kept["centre"]), cast("list[float]", kept["spread"])
    return Moments(centre, spread, float(str(fit["rows"])))
