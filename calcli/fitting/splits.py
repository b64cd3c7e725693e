"""Which rows are held out: by chance, by unit, or by time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import IntArray, Units
from calcli.errors import FitError, UsageError
from calcli.metrics.base import Folds
from calcli.numeric.seeded import Split, folds, group_folds, held_out, held_out_groups, last_in_time, stream, time_spans

Mask = NDArray[np.bool_]

CROSS_VALIDATED_ROWS = 1_000_000
"""Up to so many rows the default is 5-fold cross-validation, above that one 90/10 split."""


@dataclass(frozen=True, slots=True)
class Holdout:
    """How rows are held out: ``cv:5``, ``0.1``, ``none``, or ``others``: those outside a sample that is fitted on."""

    kind: Literal["cv", "share", "none", "others"]
    folds: int = 0
    share: float = 0.0

    def __str__(self) -> str:
        return {"cv": f"cv:{self.folds}", "share": f"{self.share:g}", "none": "none", "others": "others"}[self.kind]

    @property
    def refit_on_all(self) -> bool:
        """Whether the artifact is fitted on all rows; otherwise it is the calibrator that was evaluated."""
        return self.kind != "share"

    @classmethod
    def parse(cls, text: str | None, rows: int) -> Holdout:
        """From ``--holdout``; None is the default for so many rows."""
        if text is None:
            return cls("cv", folds=5) if rows <= CROSS_VALIDATED_ROWS else cls("share", share=0.1)
        if text == "none":
            return cls("none")
        if match := re.fullmatch(r"cv:(\d{1,12})", text):
            count = int(match[1])
            if count < 2:
                raise UsageError(f"--holdout {text}: cross-validation needs at least 2 folds")
            if count > max(rows, 5):
                raise UsageError(f"--holdout {text}: there are only {rows:,} rows")
            return cls("cv", folds=count)
        try:
            share = float(text)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise UsageError(f"--holdout {text}: give cv:5 (folds), 0.1 (a share of the rows) or none")
        return cls("share", share=share)


@dataclass(frozen=True, slots=True)
class Splits:
    """Test and training rows, one mask each per split.

    Attributes
    ----------
    tests
        The rows that are predicted; no row is in two of them.
    trains
        The rows that are fitted on; None for all that are not in the test.
    """

    tests: tuple[Mask, ...]
    trains: tuple[Mask, ...] | None = None

    def __len__(self) -> int:
        return len(self.tests)

    def train(self, index: int) -> Mask:
        return ~self.tests[index] if self.trains is None else self.trains[index]

    def __iter__(self) -> Iterator[Split]:
        return (Split(self.train(index), test) for index, test in enumerate(self.tests))

    @property
    def predicted(self) -> Mask:
        """The rows of all tests."""
        rows: Mask = np.logical_or.reduce(self.tests)
        return rows

    @property
    def folds(self) -> Folds | None:
        """Which test each predicted row is in, if there are several."""
        if len(self) < 2:
            return None
        place = np.zeros(len(self.tests[0]), dtype=np.int64)
        for index, test in enumerate(self.tests):
            place[test] = index
        return Folds(place[self.predicted], len(self))

    @property
    def partition(self) -> bool:
        """Whether these are the folds of a cross-validation: each is predicted from all others."""
        return self.trains is None and len(self.tests) > 1


@dataclass(frozen=True, slots=True)
class KeyedFolds:
    """Folds of rows on a cluster: a row's fold follows from its key, which is drawn from 0 .. `keys` - 1."""

    holdout: Holdout
    keys: int

    def of(self, key: NDArray[np.integer]) -> IntArray:
        """The fold of each row; those above `tests` are only fitted on."""
        wide = key.astype(np.int64)
        if self.holdout.kind == "cv":
            return wide * self.holdout.folds // self.keys
        return (wide >= self.holdout.share * self.keys).astype(np.int64)

    @property
    def tests(self) -> range:
        """The folds that are predicted, each from all other rows."""
        return range({"cv": self.holdout.folds, "share": 1, "none": 0}[self.holdout.kind])


def split_rows(rows: int, holdout: Holdout, seed: int, units: Units | None = None) -> Splits:
    """Random splits of rows or of whole units; or, where these are moments, the later ones from the earlier."""
    if rows < 2:
        raise FitError("one row cannot be both held out and fitted on", hint="try: --holdout none")
    if units is not None and np.ptp(units.rank) == 0:
        what = "of one time: none is earlier than another" if units.in_order else "of one group: none can be held out"
        raise FitError(f"all rows are {what}", hint="try: --holdout none")
    if units is not None and units.in_order and holdout.kind == "cv":
        return _forward(units.rank, holdout.folds)
    if holdout.kind == "cv":
        count = min(holdout.folds, rows)
        if units is None:
            fold = folds(rows, count, stream(seed, "folds"))
        else:
            fold = group_folds(units.rank, min(count, len(np.unique(units.rank))), stream(seed, "groups"))
        return Splits(tuple(fold == index for index in range(int(fold.max()) + 1)))
    if units is None:
        mask = held_out(rows, holdout.share, stream(seed, "split"))
    elif units.in_order:
        mask = last_in_time(units.rank, holdout.share)
    else:
        mask = held_out_groups(units.rank, holdout.share, stream(seed, "groups"))
    if not mask.any() or mask.all():
        raise FitError(
            f"a share of {holdout.share:g} of {rows:,} rows leaves nothing on one side",
            hint="try: --holdout cv:5",
        )
    return Splits((mask,))


def _forward(moment: IntArray, count: int) -> Splits:
    """Forward validation: of `count` + 1 time spans, each but the first is predicted from all earlier ones.

    `moment` is the rank of each row's time; rows with equal times stay together.
    """
    span = time_spans(moment, count)
    later = range(1, int(span.max()) + 1)
    return Splits(tuple(span == index for index in later), tuple(span < index for index in later))
