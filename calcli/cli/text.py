"""Text in columns.

Rich could do this, but takes 30 ms to import, more than everything else in ``calcli methods``. It is used for the
progress bar only, when polars has been imported anyway.
"""

from __future__ import annotations

import re
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence

from calcli.reporting.typesetting import GLUE

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def shown_width(text: str) -> int:
    """The columns of a text on a terminal: East Asian letters take two, colours and accents none."""
    plain = _COLOR.sub("", text)
    if plain.isascii():
        return len(plain)
    return sum(_letter_width(letter) for letter in plain)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph in lines. Words are never cut, so that paths, flags and names can be copied."""
    lines = textwrap.wrap(text, max(width, 20), break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(GLUE, " ") for line in lines]


def aligned(rows: Sequence[Sequence[str]], align: str, *, indent: str = "  ", gap: str = "  ") -> list[str]:
    """Rows as lines, each column as wide as its widest cell; `align` has ``l`` or ``r`` for each column."""
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
    """Terms on the left, their meanings on the right; a term wider than `most` stands on a line of its own."""
    entries = list(pairs)
    left = max([least, *(size for size in (shown_width(term) for term, _ in entries) if size <= most)])
    lines: list[str] = []
    for term, meaning in entries:
        body = wrapped(meaning, width - len(indent) - left - 2)
        if shown_width(term) > left:
            lines.append(indent + term)
            term = ""  # noqa: PLW2901 the meaning goes on the next line
        lines.append(f"{indent}{_padded(term, left, 'l')}  {body[0]}".rstrip())
        lines += [f"{indent}{' ' * left}  {line}" for line in body[1:]]
    return lines
