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
    below = np.cumsum(weight)
    cell = np.minimum(((below - weight / 2.0) / below[-1] * CELLS).astype(np.int64), CELLS - 1)
    sums = np.stack([np.bincount(cell, each, CELLS) for each in (weight, weight * x, weight * y)])
    mass, at, level = sums[:, sums[0] > 0]
    curve: FloatArray = np.interp(x, at / mass, lowess(at / mass, level / mass, mass))
    return curve


def lowess(x: FloatArray, y: FloatArray, weight: FloatArray) -> FloatArray:
    """The value at each x, which rise, of a line through y there, fitted to the nearest `SPAN` of all weight."""
    away = np.abs(x[:, None] - x)
    nearest = np.argsort(away, axis=1, kind="stable")
    held = np.cumsum(weight[nearest], axis=1) >= SPAN * weight.sum() * (1.0 - _ROUNDING)
    last = np.take_along_axis(nearest, held.argmax(axis=1)[:, None], axis=1)
    width = np.take_along_axis(away, last, axis=1)
    share = np.divide(away, width, out=np.where(away > 0, 1.0, 0.0), where=width > 0)
    kernel = weight * np.maximum(1.0 - share**3, 0.0) ** 3
    kernel /= kernel.sum(axis=1, keepdims=True)
    middle, level = kernel @ x, kernel @ y
    about = x - middle[:, None]
    spread = (kernel * about**2).sum(axis=1)
    tilted = spread > (_FLAT * (x[-1] - x[0])) ** 2
    slope = np.divide((kernel * about) @ y, spread, out=np.zeros_like(spread), where=tilted)
    rate: FloatArray = level + slope * (x - middle)
    return rate
