"""The smooth calibration error of Blasiok & Nakkiran 2023, with the Gaussian kernel reflected at 0 and 1."""

from __future__ import annotations

import math

import numpy as np

from calcli.batch import FloatArray
from calcli.metrics.base import Definition, Options
from calcli.metrics.blocks import Blocks
from calcli.metrics.forms import of_ties

CELLS = 1 << 14
"""Residuals are gathered on so many cells of [0, 1], each shared between the two nearest nodes."""

TOLERANCE = 1e-6
"""To which the width is found, at least."""


def smooth_of(blocks: Blocks, options: Options) -> float:
    """The one s at which the error smoothed at width s is s: the error falls as s grows, so that there is just one.

    It is bracketed, and the bracket's chord is followed; the end that stays put twice counts half (Illinois).
    """
    waves = cosines(blocks)
    low, high = 0.0, 1.0
    above, below = at_width(waves, low), 1.0 - at_width(waves, high)
    s, last = high, 0
    while high - low > TOLERANCE and above > 0.0:
        previous, s = s, low + (high - low) * above / (above + below)
        gap = at_width(waves, s) - s
        if gap > 0:
            low, above, below, last = s, gap, below / 2 if last > 0 else below, 1
        else:
            high, below, above, last = s, -gap, above / 2 if last < 0 else above, -1
        if abs(s - previous) < TOLERANCE * 1e-6 or gap == 0.0:
            break
    return s if above > 0.0 else 0.0


def cosines(blocks: Blocks) -> FloatArray:
    """The cosine transform of the residuals: sums of w (y - p) cos(k pi p) over the sum of w, k = 0 .. CELLS."""
    residual = (blocks.positive - blocks.weight * blocks.prob) / blocks.total
    place = blocks.prob * CELLS
    node = np.minimum(place.astype(np.int64), CELLS - 1)
    upper = place - node
    mass = np.bincount(node, residual * (1.0 - upper), minlength=CELLS + 1)
    mass[1:] += np.bincount(node, residual * upper, minlength=CELLS)
    even = np.concatenate([mass, np.zeros(CELLS - 1)])
    waves: FloatArray = np.fft.rfft(even).real
    return waves


def at_width(waves: FloatArray, width: float) -> float:
    """The integral over [0, 1] of the absolute residual, smoothed at `width`.

    Smoothing with a Gaussian and all its images at 0 and 1 multiplies the k-th cosine by exp(-(k pi s)^2 / 2). Waves
    that this makes vanish are not added up, and a smooth function is integrated on few points.
    """
    points = 1 << max(8, min(14, math.ceil(math.log2(64.0 / max(width, 1e-9)))))
    k = np.arange(points + 1)
    damped = waves[: points + 1] * np.exp(-np.square(k * (math.pi * width)) / 2.0)
    values = np.abs(np.fft.irfft(damped, 2 * points)[: points + 1]) * (2 * points)
    return float(values.sum() - (values[0] + values[-1]) / 2.0) / points


_APPROXIMATION = f"reflected Gaussian; residuals on {CELLS} cells; the width equals the value to {TOLERANCE:g}"

smooth_ece = of_ties("top", Definition("lower", norm=1.0, approximation=_APPROXIMATION))(smooth_of)
"""smECE: the integral of the absolute smoothed residual, at the width that equals it."""
