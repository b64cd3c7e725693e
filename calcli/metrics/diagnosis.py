"""The diagnosis of a score that is not calibrated: its level, its confidence, or the shape of its curve is wrong.

Where the joint test finds that something is wrong, three tests tell what. The level: calibration in the large. The
confidence: whether the slope of Cox's recalibration is 1, its intercept free. The shape: what is left of the gaps once
intercept and slope are fitted. What is found, after Holm's correction for three tests, stands in the order of how much
it explains; where none of the three is found by itself, it is the shape.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from calcli.batch import FloatArray
from calcli.errors import FitError
from calcli.metrics.joint_test import LEVEL, GapSums, at_least, indicators, joint_test
from calcli.metrics.multiple import holm
from calcli.metrics.paired import signed_sums
from calcli.metrics.regression import recalibration, separated
from calcli.metrics.tied import TiedScores
from calcli.numeric.links import sigmoid
from calcli.numeric.seeded import stream

Fault: TypeAlias = Literal["high", "low", "over", "under", "shape"]
"""Too high or too low on average; over- or under-confident; neither of these two."""

DRAWS = 999
"""Draws of labels for the test of the shape."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Whether a score is calibrated, and what is wrong where it is not."""

    p: float
    level: float
    """`p`, `level`: of the test of all gaps together, and at which p-value they are more than chance."""

    predicted: float
    happened: float
    """`predicted`, `happened`: the mean prediction and the share that came true."""

    shift_p: float
    detectable: float | None
    """`shift_p`, `detectable`: of calibration in the large, and the mean error that the joint test would have found in
    four cases of five.
    """

    slope: float | None
    slope_p: float | None
    """`slope`, `slope_p`: of Cox's recalibration: below 1 the score is over-confident. None where the rows do not
    determine it.
    """

    shape_p: float | None
    """Of the gaps that are left by intercept and slope; None where the joint test finds nothing."""

    faults: tuple[Fault, ...]
    """What is wrong, what explains most first; empty where chance alone can make all gaps."""

    @property
    def chance(self) -> bool:
        """Whether chance alone can make all gaps."""
        return self.p > self.level


def diagnose(sums: GapSums) -> Diagnosis | None:
    """The diagnosis from sums over rows; None without rows."""
    sums = sums.compact()
    if len(sums.cell) == 0:
        return None
    test = joint_test(sums)
    happened, predicted = (float(each.sum()) / sums.total for each in (sums.positive, sums.sums[3]))
    cox = _Cox.of(sums)
    found = _faults(sums, cox, test.shift_p, low=happened > predicted) if test.p <= LEVEL else _Found((), None)
    return Diagnosis(
        p=test.p,
        level=LEVEL,
        predicted=predicted,
        happened=happened,
        shift_p=test.shift_p,
        detectable=test.detectable if test.detectable > 0 else None,
        slope=None if cox is None else float(cox.both[1]),
        slope_p=None if cox is None else _two_sided(cox.slope_z),
        shape_p=found.shape_p,
        faults=found.faults,
    )


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2.0))


class _Cox(NamedTuple):
    """Cox's recalibration of the cells: (a, b), and the score tests of a = 0 and of b = 1, the other one free."""

    both: FloatArray
    shift_z: float
    slope_z: float

    @classmethod
    def of(cls, sums: GapSums) -> _Cox | None:
        """None where no finite intercept and slope are the best."""
        ties = TiedScores(sums.prob, sums.sums[0], sums.sums[1], sums.positive, sums.sums[2])
        if separated(ties):
            return None
        z = sums.log_odds
        one = np.ones(len(z))
        try:
            shift, slope, both = (recalibration(ties, free) for free in ("intercept", "slope", "both"))
        except FitError:  # pragma: no cover - convex, and the classes overlap
            return None
        # In the model that holds one of the two, the score of that one, free of the other.
        shift_z = _score(sums, sigmoid(slope @ [one, z]), one, z)
        return cls(both, shift_z, _score(sums, sigmoid(shift @ [one, z]), z, one))


def _score(sums: GapSums, prob: FloatArray, direction: FloatArray, fitted: FloatArray) -> float:
    """The score in a direction at a fit of another, in its standard deviations."""
    bend = sums.sums[1] * prob * (1.0 - prob)
    fits = float(bend @ fitted**2)
    free = direction - fitted * (float(bend @ (direction * fitted)) / fits if fits > 0 else 0.0)
    variance = float((sums.sums[2] * prob * (1.0 - prob)) @ free**2)
    if (gaps := sums.by_unit(prob)) is not None and len(gaps) > 1:
        variance = max(variance, float(np.square(gaps @ free).sum()) * len(gaps) / (len(gaps) - 1))
    return float((sums.positive - sums.sums[1] * prob) @ free) / math.sqrt(variance) if variance > 0 else 0.0


class _Found(NamedTuple):
    faults: tuple[Fault, ...]
    shape_p: float | None


def _faults(sums: GapSums, cox: _Cox | None, shift_p: float, *, low: bool) -> _Found:
    """The findings of the three tests; `gains` is twice the log-likelihood that mending each fault would add."""
    level: Fault = "low" if low else "high"
    if cox is None:
        return _Found((level,) if shift_p <= LEVEL else ("shape",), None)
    shape = _shape(sums, cox.both)
    names: tuple[Fault, ...] = (level, "over" if cox.both[1] < 1.0 else "under", "shape")
    gains = (cox.shift_z**2 - 1.0, cox.slope_z**2 - 1.0, shape.gain)
    adjusted = holm([shift_p, _two_sided(cox.slope_z), shape.p])
    found = [(-gain, name) for name, gain, p in zip(names, gains, adjusted, strict=True) if (p or 0.0) <= LEVEL]
    return _Found(tuple(name for _, name in sorted(found)) or ("shape",), shape.p)


class _Shape(NamedTuple):
    p: float
    gain: float


def _shape(sums: GapSums, both: FloatArray) -> _Shape:
    """The gaps over bins of equal weight that intercept and slope leave, against labels drawn from the fit.

    What a refit would take off each draw is projected out of it: for small gaps that is the same.
    """
    basis = np.stack([np.ones(len(sums.cell)), sums.log_odds])
    prob = sigmoid(both @ basis)
    bend = sums.sums[1] * prob * (1.0 - prob)
    taken = np.linalg.pinv((basis * bend) @ basis.T) @ basis
    bins = indicators(sums.masses)
    noise = (sums.sums[2] * prob * (1.0 - prob)) @ bins
    room = noise > 1e-9 * (sums.sums[2] @ bins)  # in the others the fit is certain of every label
    bins, noise = bins[:, room], noise[room]

    draws = [sums.draw(prob, DRAWS, stream(0, "shape"))]
    if (gaps := sums.by_unit(prob)) is not None:
        draws.append(signed_sums(gaps, DRAWS, 0))
    found, p = (sums.positive - sums.sums[1] * prob)[None], 0.0
    for drawn in draws:
        left = drawn - (drawn @ taken.T) @ (basis * bend)
        size = ((np.concatenate([found, left]) @ bins) ** 2 / noise).sum(axis=1)
        p = max(p, float(at_least(size)[0]))
    return _Shape(p, float(size[0]) - max(0, bins.shape[1] - 2))
