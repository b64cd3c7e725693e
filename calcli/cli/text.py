"""Text in columns.

Rich could do this, and takes 30 ms to import: more than ``calcli methods`` takes for everything else. It draws the
progress bar, where polars has been imported anyway.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from calcli.reporting.typesetting import GLUE

_PAINT = re.compile(r"\x1b\[[0-9;]*m")


def shown_width(text: str) -> int:
    """The columns that a text takes on a terminal: letters of East Asia take two, colours and accents none."""
    plain = _PAINT.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(_cells(letter) for letter in plain)


def _cells(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph in lines. Words are never cut: they are paths, flags and names that are copied from here."""
    lines = textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(GLUE, " ") for line in lines]


def aligned(rows: Sequence[Sequence[str]], align: str, *, indent: str = "  ", gap: str = "  ") -> list[str]:
    """Rows as lines, each column as wide as its widest cell; `align` says ``l`` or ``r`` for each."""
    widths = [max(map(shown_width, column)) for column in zip(*rows, strict=True)]
    return [
        (indent + gap.join(_padded(*cell) for cell in zip(row, widths, align, strict=True))).rstrip() for row in rows
    ]


def _padded(text: str, width: int, side: str) -> str:
    space = " " * (width - shown_width(text))
    return space + text if side == "r" else text + space


def described(
    pairs: Iterable[tuple[str, str]], width: int, *, indent: str = "  ", least: int = 0, most: int = 26
) -> list[str]:
    """Terms on the left, what they mean beside them; a term wider than `most` stands on a line of its own."""
    entries = list(pairs)
    widths = [shown_width(term) for term, _ in entries]
    left = max([least, *(each for each in widths if each <= most)])
    lines: list[str] = []
    for (term, meaning), taken in zip(entries, widths, strict=True):
        body = wrapped(meaning, width - len(indent) - left - 2)
        if taken > left:
            lines.append(indent + term)
            term, taken = "", 0  # noqa: PLW2901 the meaning goes on the next line
        lines.append(f"{indent}{term}{' ' * (left - taken)}  {body[0]}".rstrip())
        lines += [f"{indent}{' ' * left}  {line}" for line in body[1:]]
    return lines
