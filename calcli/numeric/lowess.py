"""Lowess: a smooth curve through points, by lines through the nearest of them (Cleveland 1979)."""

from __future__ import annotations

import numpy as np

from calcli.batch import FloatArray

SPAN = 2.0 / 3.0
"""The share of the rows that a line is fitted to."""

CELLS = 256
"""More points than these are gathered into so many cells of equal mass, and the curve is interpolated."""

_ROUNDING = 1e-9
_FLAT = 1e-3
"""Where the rows of a line spread less than this share of all points, the line is level, as in R."""


def smoothed(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """The `lowess` of any number of points, of positive weight, at each of them; they rise."""
    if len(x) <= CELLS:
        return lowess(x, y, weight)
    mass, at, level = gathered(CELLS, weight, weight * x, weight * y)
    return np.interp(x, at / mass, lowess(at / mass, level / mass, mass))


def lowess(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """The value at each x, which rise, of a line through y there, fitted to the nearest `SPAN` of all weight."""
    return shares(x, x, weight, SPAN) @ y


def shares(at: FloatArray, x: FloatArray, weight: FloatArray, span: float) -> FloatArray:
    """The share of each y in the line's value at each place, shape (places, points); x rises."""
    away = np.abs(at[:, None] - x)
    nearest = np.argsort(away, axis=1, kind="stable")
    held = np.cumsum(weight[nearest], axis=1) >= span * weight.sum() * (1.0 - _ROUNDING)
    last = np.take_along_axis(nearest, held.argmax(axis=1)[:, None], axis=1)
    width = np.take_along_axis(away, last, axis=1)
    distance = np.divide(away, width, out=np.where(away > 0, 1.0, 0.0), where=width > 0)
    kernel = weight * np.maximum(1.0 - distance**3, 0.0) ** 3
    alone = kernel.sum(axis=1, keepdims=True) == 0.0  # all of the nearest are equally far
    kernel = np.where(alone, weight * (away <= width), kernel)
    kernel /= kernel.sum(axis=1, keepdims=True)
    about = x - (kernel @ x)[:, None]
    spread = (kernel * about**2).sum(axis=1)
    tilted = spread > (_FLAT * (x[-1] - x[0])) ** 2
    slope = np.divide(at - kernel @ x, spread, out=np.zeros_like(spread), where=tilted)
    found: FloatArray = kernel * (1.0 + slope[:, None] * about)
    return found


def gathered(cells: int, weight: FloatArray, *columns: FloatArray) -> list[FloatArray]:
    """The sums of the weight and of each column over cells of equal mass, of points in order; one each if few.

    A point on the edge of two cells, but for rounding, is in the one that is nearer to the middle: cells are the same
    whatever the scale of the weights, and from either end.
    """
    if len(weight) <= cells:
        return [weight, *columns]
    below = np.cumsum(weight)
    place = (below - weight / 2.0) / below[-1] * cells
    place = np.where(np.abs(place - np.round(place)) <= _ROUNDING, np.round(place), place)
    cell = np.where(place > cells / 2, np.ceil(place) - 1.0, np.floor(place)).astype(np.int64)
    sums = [np.asarray(np.bincount(cell, each, cells), dtype=np.float64) for each in (weight, *columns)]
    held = sums[0] > 0
    return [each[held] for each in sums]
