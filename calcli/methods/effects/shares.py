"""The share of each column in what a sum of look-ups adds to the log-odds: exact Shapley values.

A column not known yet takes its values from background rows. A look-up of one column is the share of that column. Of a
look-up of two, each has half of what it adds when it is known first, and half of what it adds when it comes second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from calcli.batch import FloatArray, IntArray

Lookup: TypeAlias = Callable[[IntArray, IntArray], FloatArray]
"""The value of f at places of the columns a and b in a table of all rows."""


def of_one(value: FloatArray, rows: IntArray, background: IntArray) -> tuple[float, FloatArray]:
    """The expected value, and what the column adds to it in each row."""
    base = float(value[background].mean())
    return base, value[rows] - base


def of_two(value: Lookup, rows: IntArray, background: IntArray) -> tuple[float, FloatArray, FloatArray]:
    """The expected value, and what each of the columns adds to it in each row."""
    base, whole = float(value(background, background).mean()), value(rows, rows)
    first_known = value(rows[:, None], background[None, :]).mean(axis=1)
    second_known = value(background[None, :], rows[:, None]).mean(axis=1)
    first = (whole - second_known + first_known - base) / 2.0
    return base, first, whole - base - first
