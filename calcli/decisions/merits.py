"""Figures of merit: one number of the four counts, and the threshold at which it is largest.

Such a threshold follows from no costs and has no promise of its own; what it is worth on new rows is measured by
decisions that other rows have chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from calcli.batch import FloatArray, LabelArray
from calcli.decisions.targets import RATES, Counts, Mask, Rate, decided

_STEP = 1e-6
"""The step of a share of rows, for derivatives."""

Merit = Callable[[Counts], FloatArray]


def _ratio(above: FloatArray, below: FloatArray) -> FloatArray:
    """The ratio, and 0 where nothing stands below."""
    below = np.asarray(below)
    return np.divide(above, below, out=np.zeros(below.shape), where=below > 0)


def f1(counts: Counts) -> FloatArray:
    """2 tp / (2 tp + fp + fn), the harmonic mean of precision and recall."""
    return _ratio(2.0 * counts.tp, 2.0 * counts.tp + counts.fp + counts.fn)


def youden(counts: Counts) -> FloatArray:
    """The recall of positives plus that of negatives, less 1 (Youden 1950)."""
    return _ratio(counts.tp, counts.tp + counts.fn) + _ratio(counts.tn, counts.tn + counts.fp) - 1.0


def balanced_accuracy(counts: Counts) -> FloatArray:
    """The mean of the recall of positives and that of negatives."""
    return 0.5 + 0.5 * youden(counts)


def mcc(counts: Counts) -> FloatArray:
    """The correlation of decision and truth (Matthews 1975)."""
    yes, no = counts.tp + counts.fp, counts.fn + counts.tn
    positive, negative = counts.tp + counts.fn, counts.fp + counts.tn
    # Roots before products: four counts of a billion rows do not fit into a number.
    below = np.sqrt(yes) * np.sqrt(no) * np.sqrt(positive) * np.sqrt(negative)
    return _ratio(counts.tp * counts.tn - counts.fp * counts.fn, below)


MERITS: Mapping[str, Merit] = {"f1": f1, "mcc": mcc, "balanced-accuracy": balanced_accuracy, "youden": youden}
"""The figures by their names on the command line."""


def _rate(rate: Rate) -> Merit:
    return lambda counts: _ratio(*rate.sums(counts))


FIGURES: Mapping[str, Merit] = {
    **MERITS,
    **{name: _rate(RATES[name]) for name in ("recall", "precision", "accuracy", "positive-rate")},
}
"""The figures and, beside a target, rates, each of which is largest at one end of all thresholds, or nearly so."""


def best_threshold(
    merit: Merit, prob: FloatArray, label: LabelArray, weight: FloatArray | None, among: FloatArray | None = None
) -> float:
    """The score at which the figure is largest, the lowest one of several; or one `among` these rising thresholds."""
    thresholds = np.unique(prob) if among is None else among
    counts = decided(prob, label, thresholds, weight, rates=()).counts
    return float(thresholds[int(np.argmax(merit(counts)))])


def pseudo_values(name: str, yes: Mask, label: LabelArray, weight: FloatArray | None) -> FloatArray:
    """The part of each row in the figure: numbers whose mean is the figure, and whose spread is that of its error.

    They are the figure plus its derivative in the direction of the row, so that a mean of many figures' differences and
    its interval are found as those of costs are.
    """
    merit, positive = FIGURES[name], label > 0
    cells = [yes & positive, yes & ~positive, ~yes & positive, ~yes & ~positive]
    shares = np.array([np.average(cell, weights=weight) for cell in cells])
    steps = _STEP * np.eye(len(shares))
    slopes = [
        float(merit(Counts(*(shares + step))) - merit(Counts(*(shares - step)))) / (2.0 * _STEP) for step in steps
    ]
    values: FloatArray = float(merit(Counts(*shares))) + np.array(slopes) @ (np.array(cells) - shares[:, None])
    return values
