"""The features of a very wide table that tell the most about the labels, each looked at by itself.

Models are then trained on these alone: a screening, as by Fan & Lv 2008. A feature cuts rows into groups, a level or a
bin each, with the sums g of w (y - p) and h of w p (1 - p). If it has nothing to tell beyond p, g^2 is h on average; so
it tells the sum of (g^2 - h) / (h + 1), in units of the standard deviation sqrt(2 sum of (h / (h + 1))^2).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from calcli.batch import Column, FloatArray, IntArray
from calcli.numeric.bins import totals

BINS = 8
"""The bins of a number, of equal mass."""

PRIOR = 1.0
"""The number that is added to h: a group of few rows tells little, whatever their labels are."""

MOST_ROWS, MOST_SORTED = 50_000, 2_000
"""So many rows are looked at, and so many of them say where bins end."""

MOST_CELLS = 1 << 20
"""The number of values that are looked at together."""

DIGITS = 6
"""The worth of features is rounded to so many digits, since sums depend on the processor beyond them."""


def most_telling(
    features: Mapping[str, Column], label: IntArray, weight: FloatArray, prob: FloatArray, count: int
) -> tuple[str, ...]:
    """The names of the `count` features that tell the most beyond these probabilities, the most telling first.

    All features as they come, if they are no more. `prob` is that of class 1, or has a column for each class.
    """
    if len(features) <= count:
        return tuple(features)
    some = slice(None, None, max(1, -(-len(label) // MOST_ROWS)))
    each = prob[some] if prob.ndim > 1 else np.column_stack([1.0 - prob[some], prob[some]])
    is_class = label[some, None] == np.arange(each.shape[1])
    rows = np.concatenate([(is_class - each).T, (each * (1.0 - each)).T]) * weight[some]
    told: dict[str, float] = {}
    numbers: list[str] = []
    for name, column in features.items():
        if column.role == "category":
            codes = column.values[some].astype(np.int64) + 1
            told[name] = float(_told(np.stack([totals(codes, one, len(column.levels) + 1) for one in rows])))
        else:
            numbers.append(name)
    at_once = max(1, MOST_CELLS // rows.shape[1])
    for first in range(0, len(numbers), at_once):
        part = numbers[first : first + at_once]
        of_bins = _of_bins(np.stack([features[name].values[some] for name in part]), rows.T)
        told |= zip(part, _told(of_bins.T).tolist(), strict=True)
    return tuple(sorted(features, key=lambda name: -told[name])[:count])


def _of_bins(values: FloatArray, rows: FloatArray) -> FloatArray:
    """The sums of `rows` over the bins of each line of `values` and over its missing ones: shape (lines, bins, 2 K)."""
    ordered = np.sort(values[:, :: -(-values.shape[1] // MOST_SORTED)], axis=1)  # missing values come last
    missing = np.isnan(values)
    known = np.count_nonzero(~np.isnan(ordered), axis=1)
    above = [~missing @ rows]
    for place in range(1, BINS):
        cut = ordered[np.arange(len(values)), known * place // BINS - (known == 0)]
        above.append((values > cut[:, None]) @ rows)
    bins = -np.diff([*above, np.zeros_like(above[0])], axis=0)
    return np.stack([*bins, missing @ rows], axis=1)


def _told(groups: FloatArray) -> FloatArray:
    """The worth of features, by g and h of each class and group: shape (2 K, groups, ..)."""
    g, h = np.split(groups, 2)
    spread = np.sqrt(2.0 * np.square(h / (h + PRIOR)).sum(axis=(0, 1)))
    told: FloatArray = ((np.square(g) - h) / (h + PRIOR)).sum(axis=(0, 1)) / np.maximum(spread, 1e-12)
    return np.round(told, DIGITS)
