"""How many rows are bad, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from calcli.batch import IntArray
from calcli.errors import DataError
from calcli.tables.checks import Encoded
from calcli.tables.row_masks import Mask


class Count:
    """Counts good and bad rows as chunks go by. What parts of a table count adds up.

    Parameters
    ----------
    name
        What messages call the table.
    keep_going
        Whether there is a result in spite of bad rows.
    """

    def __init__(self, name: str, *, keep_going: bool) -> None:
        self.name = name
        self.keep_going = keep_going
        self.rows = 0
        self.rows_bad = 0
        self.why: Counter[str] = Counter()
        self.first: tuple[int, str] | None = None

    def __add__(self, other: Count) -> Count:
        """Of both parts; where a row stands in the table is not known then."""
        both = Count(self.name, keep_going=self.keep_going)
        both.rows, both.rows_bad = self.rows + other.rows, self.rows_bad + other.rows_bad
        both.why = self.why + other.why
        return both

    def see(self, chunk: Encoded) -> None:
        self.add(len(chunk.batch), chunk.bad, chunk.why, chunk.first)

    def add(self, rows: int, bad: Mask | None, why: Mapping[str, int], first: tuple[int, str] | None) -> None:
        """So many rows more; what is bad of them as of `Encoded`."""
        if bad is not None and first is not None:
            self.rows_bad += int(bad.sum())
            self.why.update(why)
            self.first = self.first or (self.rows + first[0], first[1])
        self.rows += rows

    @property
    def hopeless(self) -> bool:
        """Whether there will be no result, so that only the count still matters."""
        return self.rows_bad > 0 and not self.keep_going

    def judge(self) -> None:
        """Refuse a table with bad rows, or without good ones."""
        if not self.rows:
            raise DataError(f"{self.name} has no rows")
        if self.hopeless or self.rows_bad == self.rows:
            raise self.error()

    def error(self) -> DataError:
        """What ``--bad-rows fail`` says."""
        bad, first = self.rows_bad, self.first
        reasons = ", ".join(
            f"{reason}: {count:,}" for reason, count in sorted(self.why.items(), key=lambda item: -item[1])
        )
        said = f"{self.name} has {bad:,} bad row{'' if bad == 1 else 's'} of {self.rows:,} ({reasons})"
        place = f"; the first is row {first[0] + 1}: {first[1]}" if first else ""
        hint = None if bad == self.rows else "mend them, or pass --bad-rows null to go on without them"
        return DataError(f"{said}{place}", hint=hint)


class Tally(Count):
    """The same of a table that is read from its beginning; it knows which rows are bad."""

    def __init__(self, name: str, *, keep_going: bool) -> None:
        super().__init__(name, keep_going=keep_going)
        self._bad: list[IntArray] = []

    def see(self, chunk: Encoded) -> None:
        if chunk.bad is not None:
            self._bad.append(self.rows + np.flatnonzero(chunk.bad))
        super().see(chunk)

    @property
    def row_numbers(self) -> IntArray | None:
        """Where the good rows stand in the table, from 0; None if they are all."""
        if not self.rows_bad:
            return None
        good = np.ones(self.rows, dtype=np.bool_)
        good[np.concatenate(self._bad)] = False
        return np.flatnonzero(good)
