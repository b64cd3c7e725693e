"""How numbers, values and sentences are set, on a screen as on a page."""

from __future__ import annotations

from collections.abc import Sequence

GLUE = "\0"
"""A space at which no line ends."""

NOTHING = "n/a"


def glued(text: str) -> str:
    """The text as one word."""
    return text.replace(" ", GLUE)


def spelled(value: object) -> str:
    """A value as it is written in tables and after ``--set``."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def decimals(values: Sequence[float]) -> int:
    """So many decimals that the smallest number shows two digits; four at least, six at most."""
    least = min((abs(value) for value in values if abs(value) >= 1e-6), default=1.0)
    digits = 4
    while digits < 6 and least < 10 ** (1 - digits):
        digits += 1
    return digits


def number(value: float | None, digits: int) -> str:
    """A value; of large ones the decimals say nothing."""
    return NOTHING if value is None else f"{value:.{_fewer(value, digits)}f}"


def signed(value: float, digits: int) -> str:
    """With its sign, unless nothing of it is left to see."""
    text = f"{value:+.{_fewer(value, digits)}f}"
    return text if any(letter in "123456789" for letter in text) else text[1:]


def interval(lo: float | None, hi: float | None, digits: int) -> str:
    """``-0.0012 to +0.0003``; nothing where an end is missing."""
    return "" if lo is None or hi is None else f"{signed(lo, digits)} to {signed(hi, digits)}"


def _fewer(value: float, digits: int) -> int:
    return digits if abs(value) < 100 else 1
