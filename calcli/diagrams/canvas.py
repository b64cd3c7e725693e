"""Letters on a grid, each with the role that it plays.

Which colour a role has, and whether there are any colours, is for the command line to know.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby, zip_longest
from typing import NamedTuple

from calcli.diagrams.layout import lines

BRAILLE = 0x2800
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a Braille letter's dots: two columns of four, from the top."""

_ASCII = str.maketrans(
    dict.fromkeys("▅▆▇█", "#")
    | dict.fromkeys("▁▂▃▄", "_")
    | dict.fromkeys("┤┼┴┬└", "+")
    | {"░": ":", "▒": "%", "·": ".", "│": "|", "─": "-", "…": "~"}
)


class Piece(NamedTuple):
    """Letters of one kind."""

    text: str
    ink: str = ""
    paper: str = ""
    """`ink`, `paper`: the roles of the letters and of what is behind them; empty for none."""


Line = list[Piece]


class Canvas:
    """A grid of letters; `dot` sees two by four dots in each."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._cells = [[Piece(" ") for _ in range(width)] for _ in range(height)]

    def put(self, column: int, row: int, letter: str, ink: str = "", paper: str = "") -> None:
        """A letter; row 0 is at the bottom."""
        self._cells[self.height - 1 - row][column] = Piece(letter, ink, paper)

    def dot(self, x: int, y: int, ink: str) -> None:
        """A dot, counted from the left and from the bottom, where there is no other letter."""
        row, column = self.height - 1 - y // 4, x // 2
        old = self._cells[row][column]
        bits = 0 if old.text == " " else ord(old.text) - BRAILLE
        if 0 <= bits < 256:
            self._cells[row][column] = Piece(chr(BRAILLE | bits | DOTS[x % 2][3 - y % 4]), ink)

    def lines(self) -> list[Line]:
        """The rows from the top."""
        return [
            [Piece("".join(piece.text for piece in run), *kind) for kind, run in groupby(row, key=lambda one: one[1:])]
            for row in self._cells
        ]


def width_of(line: Line) -> int:
    return sum(cells(piece.text) for piece in line)


def cells(text: str) -> int:
    """How many columns a text takes: letters of East Asia take two, accents none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def shortened(text: str, width: int) -> str:
    """The beginning of a text that would not fit."""
    if cells(text) <= width:
        return text
    while text and cells(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def wrapped(text: str, width: int, first: str = "", ink: str = "") -> list[Line]:
    """A paragraph; the words `first` at its beginning have an ink of their own."""
    found = lines(f"{first}{text}", max(width, 10), cells)
    marked = len(first) if found[0].startswith(first) else 0
    return [[Piece(found[0][:marked], ink), Piece(found[0][marked:])], *([Piece(line)] for line in found[1:])]


def beside(blocks: Sequence[Sequence[Line]], gap: int) -> list[Line]:
    """Blocks of lines side by side, their first lines level."""
    widths = [max(map(width_of, block), default=0) for block in blocks]
    rows: list[Line] = []
    for parts in zip_longest(*blocks, fillvalue=[]):
        line: Line = []
        for part, width in zip(parts, widths, strict=True):
            line += [*part, Piece(" " * (width - width_of(part) + gap))]
        rows.append(line)
    return rows


def in_letters(lines: Iterable[Line], *, unicode: bool) -> list[Line]:
    """The lines in the letters that the terminal has, without trailing blanks."""
    return [_stripped([Piece(_plain(one.text, unicode), one.ink, one.paper) for one in line]) for line in lines]


def _plain(text: str, unicode: bool) -> str:
    if unicode or text.isascii():
        return text
    dotted = "".join("." if BRAILLE <= ord(letter) < BRAILLE + 256 else letter for letter in text)
    return dotted.translate(_ASCII)


def _stripped(line: Line) -> Line:
    while line and not line[-1].paper and not line[-1].text.strip(" "):
        line.pop()
    if line and not line[-1].paper:
        line[-1] = line[-1]._replace(text=line[-1].text.rstrip(" "))
    return line
