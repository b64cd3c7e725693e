"""The curves of several scores, from chunks of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from calcli.diagrams.curve_sums import curve_sums, problem
from calcli.diagrams.curves import Bands, Binning, Curve, Kind
from calcli.errors import UsageError, unknown_name
from calcli.metrics.base import Scored
from calcli.numeric.bins import BINS

TOP, ALL = "top", "all"
"""In place of a class: the predicted one; every one."""


class CurveBuilder:
    """Sums up rows for the curves of several scores.

    Parameters
    ----------
    scores
        Their names.
    names
        The classes, in the order of their index.
    kinds
        The kinds of the curves.
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
        self._sums = [
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
        scored = [self._in_units(rows) for rows in scored]
        problems: dict[tuple[int, int | None], Scored] = {}
        for score, of, sums in self._sums:
            if (score, of) not in problems:
                problems[score, of] = problem(scored[score], of)
            sums.add(problems[score, of])

    def __iadd__(self, other: CurveBuilder) -> Self:
        """Add the sums of other rows of the same scores; the units of weight must agree."""
        if other._unit not in (None, self._unit or other._unit):
            raise ValueError(f"weights in units of {self._unit} and of {other._unit} do not add up")
        self._unit = self._unit or other._unit
        for (_, _, sums), (_, _, others) in zip(self._sums, other._sums, strict=True):
            sums.join(others)
        return self

    def curves(self) -> tuple[Curve, ...]:
        """The curves of all rows so far: by kind, by class, by score."""
        curves = (sums.curve() for _, _, sums in self._sums)
        return tuple(curves if self._unit in (None, 1.0) else (_times(curve, self._unit) for curve in curves))

    def _in_units(self, rows: Scored) -> Scored:
        """The rows with weights that can be squared: huge or tiny ones in units of the first rows' largest."""
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
    """The indices of the requested classes, each once; None for the predicted class."""
    if not classes:
        return [1] if len(names) == 2 else [None]
    indices: list[int | None] = []
    for text in classes:
        if text in names:
            indices.append(names.index(text))
        elif text == ALL:
            indices += range(len(names))
        elif text == TOP:
            indices.append(None)
        else:
            raise UsageError(f"--class: {unknown_name('class', text, [*names, TOP, ALL])}")
    return list(dict.fromkeys(indices))
