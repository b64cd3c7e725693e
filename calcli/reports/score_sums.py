"""Sums over rows that are not kept: for the metrics and curves of several scores, of all rows and of groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import IntArray
from calcli.diagrams.curve_builder import CurveBuilder
from calcli.diagrams.curves import Kind
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import Bootstrap
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.gathered import Gathered, UnitMeans
from calcli.metrics.joint_test import GapSums
from calcli.metrics.multiple import of_cells
from calcli.reports.groups import group_codes, group_names
from calcli.reports.measuring import Measurements, group_entries, pairs_against
from calcli.reports.schema import ScoreSource, Seconds
from calcli.state import Json


@dataclass(slots=True)
class SummedScores:
    """Sums over rows that are not kept, for the metrics and the curves of several scores.

    `classes` are the names of the classes. Sums over other rows of the same scores are added with ``+=``. The means
    of `units` give intervals where rows belong together (`together`), and what a bootstrap draws.
    """

    scores: Sequence[str]
    classes: tuple[str, ...]
    chosen: Sequence[MetricSpec]
    gathered: Gathered
    tracing: CurveBuilder
    units: UnitMeans | None = None
    together: bool = False

    @classmethod
    def nothing(
        cls,
        scores: Sequence[str],
        classes: tuple[str, ...],
        chosen: Sequence[MetricSpec],
        options: Options,
        kinds: Sequence[Kind] = ("reliability",),
        *,
        against: Sequence[str] = (),
        by_unit: bool = False,
        together: bool = False,
    ) -> Self:
        """Sums over no rows. Differences are taken from the scores `against`, by default from the first."""
        nothing = [Scored.empty(len(classes)) for _ in scores]
        gathered = Gathered(chosen, options, nothing, pairs_against(scores, against))
        return cls(
            scores,
            classes,
            chosen,
            gathered,
            # A diagnosis takes rows for independent of each other.
            CurveBuilder(scores, classes, kinds, bins=options.bins, judged=not options.in_sample and not together),
            UnitMeans.empty(chosen, len(scores)) if by_unit or together else None,
            together,
        )

    def add(self, scored: Sequence[Scored], units: IntArray | None = None) -> None:
        """Add rows, under each score, with the set of each row's unit where units are summed."""
        self.gathered.add(scored)
        self.tracing.add(scored)
        if self.units is not None and units is not None:
            self.units.add(scored, self.chosen, units)

    def __iadd__(self, other: SummedScores) -> Self:
        self.gathered += other.gathered
        self.tracing += other.tracing
        if self.units is not None and other.units is not None:
            self.units += other.units
        return self

    def measured(
        self, sources: Sequence[tuple[str, ScoreSource, Seconds]], replicates: Bootstrap | None = None
    ) -> Measurements:
        """The report's numbers, as far as they follow from sums; `sources` names each score and its source."""
        return Measurements.of(
            sources,
            self.gathered.measured(),
            self.classes,
            self.tracing.curves(),
            self.gathered.pairs,
            self.units.difference if self.together and self.units is not None else self.gathered.difference,
            replicates,
            by_unit=self.together,
        )


class GroupedSums:
    """Sums over the rows of each value of a column; sums over other rows of the same scores are added with ``+=``.

    `distinct` are the values in the order of the report, `sums` those over no rows of the same scores and metrics.
    """

    def __init__(self, by: str, distinct: pl.Series, sums: SummedScores, options: Options) -> None:
        self.by, self._distinct, self._scores, self._classes = by, distinct, sums.scores, sums.classes
        self._chosen, self._options = sums.chosen, options
        self._groups: dict[int, _Group] = {}

    def add(self, scored: Sequence[Scored], values: pl.Series) -> None:
        """Add rows, under each score, with their values of the column."""
        codes = group_codes(values, self._distinct)
        order = np.argsort(codes, kind="stable")
        present, first = np.unique(codes[order], return_index=True)
        for code, rows in zip(present.tolist(), np.split(order, first[1:]), strict=True):
            self._of(code).add([one.take(rows) for one in scored], rows)

    def __iadd__(self, other: GroupedSums) -> Self:
        for code, group in other._groups.items():
            self._of(code).join(group)
        return self

    def entries(self) -> list[dict[str, Json]]:
        """The report's `groups`."""
        groups = [self._of(code) for code in range(len(self._distinct))]
        measured = [(group.rows, group.gathered.measured()) for group in groups]
        tests = [[of_cells(group.gaps[place]) for group in groups] for place in range(len(self._scores))]
        return group_entries(self.by, group_names(self._distinct), self._scores, measured, tests, self._classes)

    def _of(self, code: int) -> _Group:
        if code not in self._groups:
            nothing = [Scored.empty(len(self._classes)) for _ in self._scores]
            self._groups[code] = _Group(Gathered(self._chosen, self._options, nothing, ()), len(self._scores))
        return self._groups[code]


class _Group:
    """The sums of a group: its rows, the metrics, and for their test the gaps of each score."""

    def __init__(self, gathered: Gathered, scores: int) -> None:
        self.rows, self.gathered, self.gaps = 0, gathered, [GapSums.empty()] * scores

    def add(self, scored: Sequence[Scored], rows: IntArray) -> None:
        self.rows += len(rows)
        self.gathered.add(scored)
        self.gaps = [gaps + GapSums.of(one.top) for gaps, one in zip(self.gaps, scored, strict=True)]

    def join(self, other: _Group) -> None:
        self.rows += other.rows
        self.gathered += other.gathered
        self.gaps = [gaps + more for gaps, more in zip(self.gaps, other.gaps, strict=True)]
