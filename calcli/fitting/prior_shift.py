"""Prior-probability shift: scores that will be used at other class rates, as after undersampling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import FitError, UsageError, unknown_name

SUM_SLACK = 1e-6
"""How far the sum of the rates may be from 1."""


def prior_ratio_of(text: str | None, share: FloatArray, classes: Sequence[str]) -> tuple[float, ...] | None:
    """The target rate of each class over its rate among the calibration rows; None without ``--prior-shift``.

    `share` is the weight of the calibration rows of each class.
    """
    if text is None:
        return None
    rates = parse_rates(text, classes)
    if not share.all():
        absent = classes[int((share == 0).argmax())]
        raise FitError(f"--prior-shift: no row is of class {absent}, so its base rate is unknown")
    return tuple(float(rate) for rate in rates / (share / share.sum()))


def parse_rates(text: str, classes: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The rate of each class, in order."""
    if "=" not in text:
        if len(classes) != 2:
            raise UsageError(
                f"--prior-shift {text}: there are {len(classes)} classes",
                hint=f"give the rate of each: {','.join(f'{name}=RATE' for name in classes)}",
            )
        positive = _rate(text, text)
        return np.array([1.0 - positive, positive])
    given = dict(part.strip().rpartition("=")[::2] for part in text.split(","))
    for name in given:
        if name not in classes:
            raise UsageError(f"--prior-shift: {unknown_name('class', name, classes)}")
    missing = [name for name in classes if name not in given]
    if missing:
        raise UsageError(f"--prior-shift {text}: the rate of {missing[0]} is missing")
    rates = np.array([_rate(given[name], text) for name in classes])
    if abs(rates.sum() - 1.0) > SUM_SLACK:
        raise UsageError(f"--prior-shift {text}: the rates add up to {rates.sum():g}, not to 1")
    return rates


def _rate(text: str, whole: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < 1:
        raise UsageError(f"--prior-shift {whole}: {text!r} is not a rate between 0 and 1")
    return rate
