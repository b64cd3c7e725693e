"""Curves with known points, and labelled probabilities to draw others from."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from calcli.diagrams.curve_builder import curve_sums
from calcli.diagrams.curve_sums import problem
from calcli.diagrams.curves import Curve, Kind, Point
from calcli.metrics.base import Scored
from calcli.metrics.diagnosis import Diagnosis, Fault, diagnose
from calcli.metrics.joint_test import GapSums


def diagnosis(
    fault: Fault | None, *, p: float | None = None, predicted: float = 0.5, happened: float = 0.4
) -> Diagnosis:
    """One with a fault, or with none."""
    return Diagnosis(
        p=(0.4 if fault is None else 0.0005) if p is None else p,
        level=0.05,
        predicted=predicted,
        happened=happened,
        shift_p=0.5,
        detectable=0.0123,
        slope=0.81,
        slope_p=0.5,
        shape_p=None if fault is None else 0.5,
        faults=() if fault is None else (fault,),
    )


def bars(
    *points: tuple[float, float, float],
    score: str = "raw",
    of: str | None = "1",
    off: bool = True,
    band: float | None = 0.1,
    fault: Fault | None = "over",
) -> Curve:
    """Bars over as many bins of equal width as there are points (x, y, n); none where n is 0."""
    found = [
        (
            Point(x, y, n, *((None, None) if band is None else (x - band, x + band)), off),
            (place / len(points), (place + 1) / len(points)),
        )
        for place, (x, y, n) in enumerate(points)
        if n
    ]
    total = sum(point.n for point, _ in found)
    error = sum(point.n * abs(point.y - point.x) for point, _ in found) / total
    drawn, ends = (tuple(parts) for parts in zip(*found, strict=True))
    return Curve(score, of, "reliability", drawn, error, total, diagnosis(fault), ends)


OVER = ((0.1, 0.3, 40), (0.3, 0.4, 20), (0.5, 0.5, 10), (0.7, 0.6, 20), (0.9, 0.7, 40))
"""Too low below one half and too high above it."""

DRAWN = (
    ("bar", 0.0, 0.2, 0.0, 0.1),
    ("under", 0.0, 0.2, 0.1, 0.3),
    ("bar", 0.2, 0.4, 0.0, 0.3),
    ("under", 0.2, 0.4, 0.3, 0.4),
    ("bar", 0.4, 0.6, 0.0, 0.5),
    ("bar", 0.6, 0.8, 0.0, 0.6),
    ("over", 0.6, 0.8, 0.6, 0.7),
    ("bar", 0.8, 1.0, 0.0, 0.7),
    ("over", 0.8, 1.0, 0.7, 0.9),
)
"""The rectangles of `OVER`: kind, left, right, bottom and top."""


def line(kind: Kind, *points: tuple[float, float, float], score: str = "raw", of: str | None = "1") -> Curve:
    """A curve without bins."""
    found = tuple(Point(x, y, n, max(0.0, x - 0.05), min(1.0, x + 0.05), True) for x, y, n in points)
    ends = [points[0][0], *((one[0] + two[0]) / 2 for one, two in pairwise(points)), points[-1][0]]
    counts = tuple((begin, end, n) for (begin, end), (_, _, n) in zip(pairwise(ends), points, strict=True))
    return Curve(score, of, kind, found, 0.1, 100.0, diagnosis("high"), counts=counts)


def rejection(*rates: float, score: str = "raw") -> Curve:
    """Error rates at equal steps of the share rejected."""
    points = tuple(
        Point(place / len(rates), rate, 100.0 * (1 - place / len(rates)), rate / 2, rate)
        for place, rate in enumerate(rates)
    )
    return Curve(score, None, "rejection", points, rates[0], 100.0, diagnosis(None))


def traced(rows: Scored, kind: Kind = "reliability", *, diagnosed: bool = True, **how) -> Curve:
    """The curve of some rows; the diagnosis, for which labels are drawn, takes longer than all else."""
    made, one = curve_sums("raw", "1", kind, **how), problem(rows, None if kind == "rejection" else 1)
    made.add(one)
    return made.curve(diagnose(GapSums.of(one)) if diagnosed else None)


def sample(rows: int = 2000, seed: int = 0, *, slope: float = 1.0, weighted: bool = False) -> Scored:
    """Labels of chance `p`, under scores whose log-odds are `slope` times too large."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-0.5, 1.2, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-z))).astype(np.int64)
    weight = rng.integers(1, 4, rows).astype(float) if weighted else None
    return Scored(label, 1 / (1 + np.exp(-slope * z)), weight)


def classes(rows: int = 900, seed: int = 0) -> Scored:
    """Calibrated probabilities of three classes."""
    rng = np.random.default_rng(seed)
    prob = rng.dirichlet((0.6, 0.5, 0.4), rows)
    label = (rng.random(rows)[:, None] > prob.cumsum(axis=1)).sum(axis=1)
    return Scored(label, prob)
