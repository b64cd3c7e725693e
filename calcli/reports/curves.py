"""From the rows of several scores to their curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from calcli.diagrams.curve_sums import curve_sums, problem
from calcli.diagrams.curves import BINS, Bands, Binning, Curve, Kind
from calcli.errors import UsageError, unknown_name
from calcli.metrics.base import Scored

TOP, ALL = "top", "all"
"""In place of a class: the one that is predicted; each one."""


class CurveBuilder:
    """Traces the curves of several scores as their rows go by.

    Parameters
    ----------
    scores
        Their names.
    names
        The classes, in the order of their index.
    kinds
        What is traced.
    classes
        Of which classes: names, ``top`` or ``all``. None given: the positive class of two, ``top`` of more.
    """

    def __init__(
        self,
        scores: Sequence[str],
        names: Sequence[str],
        kinds: Sequence[Kind] = ("reliability",),
        classes: Sequence[str] = (),
        *,
        bins: int = BINS,
        binning: Binning = "width",
        bands: Bands = "consistency",
    ) -> None:
        self._unit: float | None = None
        places = _chosen(classes, names)
        self._tracers = [
            (
                score,
                of,
                curve_sums(name, None if of is None else names[of], kind, bins=bins, binning=binning, bands=bands),
            )
            for kind in kinds
            for of in ([None] if kind == "rejection" else places)
            for score, name in enumerate(scores)
        ]

    def add(self, scored: Sequence[Scored]) -> None:
        """More rows, under each score."""
        scored = [self._moderate(one) for one in scored]
        problems: dict[tuple[int, int | None], Scored] = {}
        for score, of, each in self._tracers:
            if (score, of) not in problems:
                problems[score, of] = problem(scored[score], of)
            each.add(problems[score, of])

    def __iadd__(self, other: CurveBuilder) -> Self:
        """What was traced elsewhere, of the same scores; weights must be counted in the same unit."""
        if other._unit not in (None, self._unit or other._unit):
            raise ValueError(f"weights in units of {self._unit} and of {other._unit} do not add up")
        self._unit = self._unit or other._unit
        for (_, _, own), (_, _, more) in zip(self._tracers, other._tracers, strict=True):
            own.join(more)
        return self

    def curves(self) -> tuple[Curve, ...]:
        """Those of all rows so far: by kind, by class, by score."""
        curves = (each.curve() for _, _, each in self._tracers)
        return tuple(curves if self._unit in (None, 1.0) else (_times(curve, self._unit) for curve in curves))

    def _moderate(self, rows: Scored) -> Scored:
        """The rows with weights whose squares are numbers: in units of the first ones, if those are huge or tiny."""
        if rows.weight is None or len(rows) == 0:
            return rows
        if self._unit is None:
            largest = float(rows.weight.max())
            self._unit = 1.0 if largest == 0.0 or 1e-100 < largest < 1e100 else largest
        return rows if self._unit == 1.0 else Scored(rows.label, rows.prob, rows.weight / self._unit)


def _times(curve: Curve, unit: float) -> Curve:
    points = tuple(replace(point, n=point.n * unit) for point in curve.points)
    return replace(curve, points=points, total=curve.total * unit)


def _chosen(classes: Sequence[str], names: Sequence[str]) -> list[int | None]:
    """The index of each class that is asked for, each once; None for the one that is predicted."""
    if not classes:
        return [1] if len(names) == 2 else [None]
    found: list[int | None] = []
    for text in classes:
        if text in names:
            found.append(names.index(text))
        elif text == ALL:
            found += range(len(names))
        elif text == TOP:
            found.append(None)
        else:
            raise UsageError(f"--class: {unknown_name('class', text, [*names, TOP, ALL])}")
    return list(dict.fromkeys(found))
