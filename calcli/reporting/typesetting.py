"""The setting of numbers, values, sentences and tables, on a screen as on a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

GLUE = "\0"
"""A space at which no line ends."""

NOTHING = "n/a"


def glued(text: str) -> str:
    """The text as one word."""
    return text.replace(" ", GLUE)


def spelled(value: object) -> str:
    """A value as it is written in tables and after ``--set``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def short(value: object) -> str:
    """A value; a number in six digits."""
    return f"{value:.6g}" if isinstance(value, float) else spelled(value)


def settings(values: Mapping[str, object], sign: str = "=") -> str:
    """``a=1, b=0.25``."""
    return ", ".join(f"{name}{sign}{short(value)}" for name, value in values.items())


def decimals(values: Iterable[float | None]) -> int:
    """The number of decimals in which the smallest of the known numbers shows two digits: four to six."""
    least = min((abs(value) for value in values if value is not None and abs(value) >= 1e-6), default=1.0)
    digits = 4
    while digits < 6 and least < 10 ** (1 - digits):
        digits += 1
    return digits


def number(value: float | None, digits: int) -> str:
    """A value, in fewer decimals where it is large, without a sign if all its digits are zero."""
    if value is None:
        return NOTHING
    text = f"{value:.{_fewer(value, digits)}f}"
    return text if any(letter in "123456789" for letter in text) else text.lstrip("-")


def p_value(p: float | None, none: str = NOTHING) -> str:
    """A p-value, or the word for none."""
    if p is None:
        return none
    return number(p, 4) if p >= 0.00005 else "<0.0001"


def signed(value: float, digits: int) -> str:
    """A value with its sign, unless all its digits are zero."""
    text = f"{value:+.{_fewer(value, digits)}f}"
    return text if any(letter in "123456789" for letter in text) else text[1:]


def interval(lo: float | None, hi: float | None, digits: int) -> str:
    """``-0.0012 to +0.0003``; empty where an end is missing."""
    return "" if lo is None or hi is None else f"{signed(lo, digits)} to {signed(hi, digits)}"


def _fewer(value: float, digits: int) -> int:
    return digits if abs(value) < 100 else 1


RowKind: TypeAlias = Literal["under", "empty", "off", "chosen"]


class Table(NamedTuple):
    """Lines of cells below a header, which the screen, the page and Markdown each write in their own way."""

    title: str
    header: list[str]
    rows: list[list[str]]
    words: int = 1
    """The number of columns with words; the columns after them have numbers."""

    kinds: Mapping[int, RowKind] = MappingProxyType({})
    """The special rows: floors and p-values ``under`` the metric above them, ``empty`` rows without any number, groups
    that are ``off`` beyond chance, the ``chosen`` method.
    """

    @classmethod
    def of_columns(cls, columns: Iterable[tuple[str, Sequence[str]]]) -> Table:
        """A table without a title, of columns with their headers."""
        header, cells = zip(*columns, strict=True)
        return cls("", [*header], [[*row] for row in zip(*cells, strict=True)])

    def first(self, columns: int) -> Table:
        """The table with its first columns alone."""
        return self._replace(header=self.header[:columns], rows=[row[:columns] for row in self.rows])

    def without(self, column: int) -> Table:
        """The table without one of its columns."""
        header, *rows = [[*row[:column], *row[column + 1 :]] for row in (self.header, *self.rows)]
        return self._replace(header=header, rows=rows)
