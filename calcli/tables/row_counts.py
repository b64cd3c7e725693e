"""Count the rows of a table, and the bad ones by reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from calcli.batch import IntArray
from calcli.errors import DataError
from calcli.tables.source import Source

Mask = NDArray[np.bool_]


def summary(wrong: Mapping[str, Mask]) -> tuple[Mask | None, dict[str, int], tuple[int, str] | None]:
    """`Checked.bad`, `why` and `first` of a chunk whose bad rows were marked."""
    if not wrong:
        return None, {}, None
    bad: Mask = np.logical_or.reduce(list(wrong.values()))
    row = int(bad.argmax())
    first = next(reason for reason, mask in wrong.items() if mask[row])
    return bad, {reason: int(mask.sum()) for reason, mask in wrong.items()}, (row, first)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A chunk of rows whose bad ones are known; `len` is the number of its rows."""

    bad: Mask | None = None
    """Which rows are bad; None if none is."""

    why: Mapping[str, int] = field(default_factory=dict)
    """How many rows are bad for each reason."""

    first: tuple[int, str] | None = None
    """The first bad row (from 0, in this chunk) and its reason."""

    def __len__(self) -> int:
        raise NotImplementedError


class Count:
    """Counts good and bad rows, chunk by chunk; counts of parts of a table can be added.

    `copies` are the rows that good rows stand for beyond themselves, where weights are counts.

    Parameters
    ----------
    name
        The name of the table in messages.
    keep_going
        Whether there is a result in spite of bad rows.
    """

    def __init__(self, name: str, *, keep_going: bool) -> None:
        self.name = name
        self.keep_going = keep_going
        self.rows = 0
        self.rows_bad = 0
        self.copies = 0
        self.why: Counter[str] = Counter()
        self.first: tuple[int, str] | None = None

    def __add__(self, other: Count) -> Count:
        """The count of both parts; the first bad row is lost, because the order of the parts is not known."""
        both = Count(self.name, keep_going=self.keep_going)
        both.rows, both.rows_bad = self.rows + other.rows, self.rows_bad + other.rows_bad
        both.copies, both.why = self.copies + other.copies, self.why + other.why
        return both

    def see(self, chunk: Checked) -> None:
        """Count the next rows."""
        if chunk.bad is not None and chunk.first is not None:
            self.rows_bad += int(chunk.bad.sum())
            self.why.update(chunk.why)
            self.first = self.first or (self.rows + chunk.first[0], chunk.first[1])
        self.rows += len(chunk)

    def repeat(self, counts: IntArray) -> None:
        """Note how many rows each good row of the last chunk stands for."""
        self.copies += int(counts.sum()) - len(counts)

    @property
    def rows_counted(self) -> int:
        """The number of rows, each as often as its count says."""
        return self.rows + self.copies

    @property
    def hopeless(self) -> bool:
        """Whether the table will be refused: the rest of it is only counted, for the message."""
        return self.rows_bad > 0 and not self.keep_going

    def judge(self) -> None:
        """Refuse a table with bad rows, or without good ones."""
        if not self.rows:
            raise DataError(f"{self.name} has no rows")
        if self.hopeless or self.rows_bad == self.rows:
            raise self.error()

    def error(self) -> DataError:
        """The refusal, with the number of bad rows by reason."""
        bad, first = self.rows_bad, self.first
        reasons = ", ".join(
            f"{reason}: {count:,}" for reason, count in sorted(self.why.items(), key=lambda item: -item[1])
        )
        message = f"{self.name} has {bad:,} bad row{'' if bad == 1 else 's'} of {self.rows:,}"
        if len(self.why) == 1:
            message += f": {next(iter(self.why))}{f' (first in row {first[0] + 1})' if first else ''}"
        else:
            message += f" ({reasons}){f'; the first is row {first[0] + 1}: {first[1]}' if first else ''}"
        hint = (
            None
            if bad == self.rows
            else "correct them, or add --bad-rows null, which leaves them out (apply: writes null for them)"
        )
        return DataError(message, hint=hint)


class Tally(Count):
    """A `Count` of a table that is read in order: it also keeps which rows are bad."""

    def __init__(self, source: Source, *, keep_going: bool) -> None:
        super().__init__(source.name, keep_going=keep_going)
        self.source = source
        self._bad: list[IntArray] = []
        self._counts: list[IntArray] = []

    def see(self, chunk: Checked) -> None:
        if chunk.bad is not None:
            self._bad.append(self.rows + np.flatnonzero(chunk.bad))
        super().see(chunk)

    def repeat(self, counts: IntArray) -> None:
        self._counts.append(counts)
        super().repeat(counts)

    @property
    def row_numbers(self) -> IntArray | None:
        """The row numbers of the good rows, from 0, each as often as it counts; None if all are good and count once."""
        if not self.rows_bad and not self._counts:
            return None
        good = np.ones(self.rows, dtype=np.bool_)
        if self.rows_bad:
            good[np.concatenate(self._bad)] = False
        numbers = np.flatnonzero(good)
        return np.repeat(numbers, np.concatenate(self._counts)) if self._counts else numbers
