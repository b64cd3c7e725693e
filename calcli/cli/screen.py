"""The capabilities of a stream: colours, Unicode, the number of columns."""

from __future__ import annotations

import os
import re
from typing import NamedTuple, TextIO

ASCII = str.maketrans({"↓": "v", "↑": "^", "×": "x", "–": "-", "…": "...", "²": "^2"})
"""Replacements of typographic signs for encodings without them."""

_CONTROL = re.compile(r"\x1b(?!\[[0-9;]*m)|[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f-\x9f]")

WIDEST = 100
"""Prose is not set wider than this: longer lines are hard to read."""


class Screen(NamedTuple):
    """The capabilities of a stream. A named tuple, because a dataclass takes six times as long to make.

    Attributes
    ----------
    terminal
        Whether it is a terminal that can move its cursor.
    width
        Columns; 80 by default.
    colors_256
        Whether there are 256 colours, where there are any.
    """

    color: bool = False
    unicode: bool = True
    terminal: bool = False
    width: int = 80
    colors_256: bool = True

    @classmethod
    def of(cls, stream: TextIO | None, *, no_color: bool = False) -> Screen:
        """The capabilities of this stream, by its kind and by the environment."""
        terminal = is_terminal(stream) and os.environ.get("TERM") != "dumb"
        encoding = (getattr(stream, "encoding", None) or "ascii").lower()
        return cls(
            color=terminal and not no_color and not os.environ.get("NO_COLOR"),
            unicode=encoding.replace("_", "-").startswith("utf"),
            terminal=terminal,
            width=_width(stream),
            colors_256="256" in os.environ.get("TERM", "") or bool(os.environ.get("COLORTERM")),
        )

    @property
    def prose(self) -> int:
        """The width of prose."""
        return max(40, min(self.width, WIDEST))

    def bold(self, text: str) -> str:
        return self._styled("1", text)

    def dim(self, text: str) -> str:
        return self._styled("2", text)

    def good(self, text: str) -> str:
        return self._styled("32", text)

    def bad(self, text: str) -> str:
        return self._styled("1;31", text)

    def doubtful(self, text: str) -> str:
        return self._styled("33", text)

    def _styled(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text

    def fit(self, text: str) -> str:
        """The text in the encoding's letters; control codes other than colours are escaped, as names may have them."""
        safe = _CONTROL.sub(lambda match: ascii(match[0])[1:-1], text)
        return safe if self.unicode else safe.translate(ASCII)


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
