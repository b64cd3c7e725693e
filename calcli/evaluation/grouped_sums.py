"""The metrics within each group of rows, from sums over rows that are not kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import polars as pl

from calcli.batch import IntArray
from calcli.metrics.base import Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.gathered import Gathered
from calcli.metrics.joint_test import GapSums
from calcli.metrics.multiple import of_cells
from calcli.reports.groups import group_codes, group_names
from calcli.reports.measuring import group_entries
from calcli.state import Json


class GroupedSums:
    """Sums over the rows of each value of a column. Those over other rows of the same scores are added with ``+=``.

    Parameters
    ----------
    by
        The column.
    distinct
        Its values, in the order of the report.
    """

    def __init__(
        self,
        by: str,
        distinct: pl.Series,
        scores: Sequence[str],
        classes: tuple[str, ...],
        chosen: Sequence[MetricSpec],
        options: Options,
    ) -> None:
        self.by, self._distinct, self._scores, self._classes = by, distinct, scores, classes
        self._chosen, self._options = chosen, options
        self._groups: dict[int, _Group] = {}

    def add(self, scored: Sequence[Scored], values: pl.Series) -> None:
        """More rows, under each score, and their values of the column."""
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
