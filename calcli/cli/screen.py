"""The capabilities of a stream, and text set for it: paragraphs, columns, lists, tables.

Rich could do this, but takes 30 ms to import, more than everything else in ``calcli methods``. It is used for the
progress bar only, when polars has been imported anyway.
"""

from __future__ import annotations

import os
import re
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TextIO

from calcli.reporting.typesetting import GLUE

if TYPE_CHECKING:
    from calcli.reporting.facts import Pair
    from calcli.reporting.typesetting import Table

ASCII = str.maketrans({"↓": "v", "↑": "^", "×": "x", "–": "-", "…": "...", "²": "^2"})
"""Replacements of typographic signs for encodings without them."""

_OURS = "".join(chr(0xF0000 + number) for number in memoryview(os.urandom(8)).cast("H"))
"""The mark before the codes of our own colours until a line is written: no data can know it."""

_COLOR = re.compile(f"{_OURS}[0-9;]*m")
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Letters that move the cursor, change colours, end a line or turn its direction."""

_PERCENT = re.compile(r"(?<=\d) %")

_WIDEST = 100
"""Prose is not set wider than this: longer lines are hard to read."""

_NAMES = 9
"""The least width of names in lists, so that facts and notes stand in the same column."""


class Screen(NamedTuple):
    """The capabilities of a stream. A named tuple, because a dataclass takes six times as long to make."""

    color: bool = False
    unicode: bool = True
    terminal: bool = False
    """Whether it is a terminal that can move its cursor."""

    width: int = 80
    """Columns; 80 by default."""

    colors_256: bool = True
    """Whether there are 256 colours, where there are any."""

    @classmethod
    def of(cls, stream: TextIO | None, *, no_color: bool = False) -> Screen:
        """The capabilities of this stream, by its kind and by the environment."""
        terminal = is_terminal(stream) and os.environ.get("TERM") != "dumb"
        forced = bool(os.environ.get("FORCE_COLOR"))  # logs of CI are no terminals, and show colours
        encoding = (getattr(stream, "encoding", None) or "ascii").lower()
        return cls(
            color=(terminal or forced) and not no_color and not os.environ.get("NO_COLOR"),
            unicode=encoding.replace("_", "-").startswith("utf"),
            terminal=terminal,
            width=_width(stream),
            colors_256="256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM")),
        )

    @property
    def prose(self) -> int:
        return max(40, min(self.width, _WIDEST))

    def bold(self, text: str) -> str:
        return self.styled("1", text)

    def dim(self, text: str) -> str:
        return self.styled("2", text)

    def good(self, text: str) -> str:
        return self.styled("32", text)

    def bad(self, text: str) -> str:
        return self.styled("1;31", text)

    def doubtful(self, text: str) -> str:
        return self.styled("33", text)

    def styled(self, code: str, text: str) -> str:
        """The text in a colour, which it gets when `fit` has escaped what the text has of its own."""
        return f"{_OURS}{code}m{text}{_OURS}0m" if self.color and text else text

    def fit(self, lines: Iterable[str]) -> str:
        """Lines as they are written, in the encoding's letters: control codes of names are escaped, then coloured."""
        safe = "\n".join(map(escaped, lines))
        return (safe if self.unicode else safe.translate(ASCII)).replace(_OURS, "\x1b[")


def escaped(text: str) -> str:
    """The text with letters in place of codes that a terminal obeys."""
    return CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal; a closed one is not."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def _width(stream: TextIO | None) -> int:
    """`COLUMNS`, else the size of the terminal, else 80."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    if stream is None or not is_terminal(stream):
        return 80
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def shown_width(text: str) -> int:
    """The columns of a text on a terminal: East Asian letters take two, colours and accents none."""
    plain = escaped(_COLOR.sub("", text))
    if plain.isascii():
        return len(plain)
    letters = (letter for letter in plain if not unicodedata.combining(letter))
    return sum(1 + (unicodedata.east_asian_width(letter) in "WF") for letter in letters)


def wrapped(text: str, width: int) -> list[str]:
    """A paragraph in lines. Words are never cut, so that paths, flags and names can be copied, nor numbers from %."""
    text = _PERCENT.sub(f"{GLUE}%", text)
    lines = textwrap.wrap(text, max(width, 12), break_long_words=False, break_on_hyphens=False) or [""]
    return [line.replace(GLUE, " ") for line in lines]


def answered(answer: str, color: Callable[[str], str], text: str, width: int) -> list[str]:
    """A paragraph that begins with an answer in colour and a colon."""
    first, *others = wrapped(f"{answer}: {text}", width)
    return [first.replace(answer, color(answer), 1), *others]


def aligned(rows: Sequence[Sequence[str]], align: str) -> list[str]:
    """Rows as lines, each column as wide as its widest cell; `align` has ``l`` or ``r`` for each column."""
    widths = [max(map(shown_width, column)) for column in zip(*rows, strict=True)]
    return ["".join(f"  {_padded(*cell)}" for cell in zip(row, widths, align, strict=True)).rstrip() for row in rows]


def _padded(text: str, width: int, side: str) -> str:
    space = " " * (width - shown_width(text))
    return space + text if side == "r" else text + space


def described(pairs: Iterable[tuple[str, str]], width: int, *, least: int = 0, most: int = 26) -> list[str]:
    """Terms on the left, their meanings on the right; a term wider than `most` stands on a line of its own."""
    entries = list(pairs)
    left = max([least, *(size for size in (shown_width(term) for term, _ in entries) if size <= most)])
    lines: list[str] = []
    for term, meaning in entries:
        body = wrapped(meaning, width - left - 4)
        if shown_width(term) > left:
            lines.append(f"  {term}")
            term = ""  # noqa: PLW2901 the meaning goes on the next line
        lines.append(f"  {_padded(term, left, 'l')}  {body[0]}".rstrip())
        lines += [f"  {' ' * left}  {line}" for line in body[1:]]
    return lines


def fact_list(pairs: Iterable[Pair], screen: Screen) -> list[str]:
    """Facts, a line each, with dim names."""
    return described([(screen.dim(name), text) for name, text in pairs], screen.prose, least=_NAMES)


def notes(pairs: Iterable[Pair], screen: Screen) -> list[str]:
    """Definitions, a dim line each."""
    return [screen.dim(line) for line in described(pairs, screen.prose, least=_NAMES)]


def remarks(texts: Iterable[str], screen: Screen) -> list[str]:
    """Dim paragraphs, indented like the table above them."""
    return [screen.dim(f"  {line}") for text in texts for line in wrapped(text, screen.prose - 2)]


def table(shown: Table, screen: Screen) -> list[str]:
    """A table without its title: a dim header, and special rows in the styles of their kinds."""
    rows = list(shown.rows)
    for place, kind in shown.kinds.items():
        if kind == "under":
            rows[place] = [f"  {rows[place][0]}", *rows[place][1:]]
    header, *lines = aligned([shown.header, *rows], "l" * shown.words + "r" * (len(shown.header) - shown.words))
    styles = {"under": screen.dim, "empty": screen.dim, "off": screen.bad, "chosen": screen.good}
    for place, kind in shown.kinds.items():
        lines[place] = styles[kind](lines[place])
    return [screen.dim(header), *lines]


def widest_fitting(tables: Iterable[Table], screen: Screen) -> tuple[Table, list[str]]:
    """The first of the tables that is no wider than the screen, or the last one, and its lines."""
    for shown in tables:
        lines = table(shown, screen)
        if max(map(shown_width, lines)) <= screen.width:
            break
    return shown, lines


def narrowed(found: Iterable[Iterable[Table]], terms: Iterable[Pair], screen: Screen) -> tuple[list[str], list[Pair]]:
    """Of each table the first that fits the screen, under its title; the terms of its columns, and which are hidden."""
    lines: list[str] = []
    hidden: dict[str, None] = {}
    for widest, *narrower in found:
        shown, rows = widest_fitting((widest, *narrower), screen)
        hidden |= dict.fromkeys(name for name in widest.header if name not in shown.header)
        lines += ["", *([screen.bold(shown.title)] if shown.title else []), *rows]
    kept = [(name, meaning) for name, meaning in terms if name not in hidden]
    return lines, [*kept, *([more(hidden)] if hidden else [])]


def more(hidden: Iterable[str]) -> Pair:
    """The term that names the columns for which a screen is too narrow."""
    return "more", f"{', '.join(hidden)}, on a wider screen or with --format"
