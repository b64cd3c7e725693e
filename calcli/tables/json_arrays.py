"""JSON arrays of objects as lines, an object each: the form in which JSON can be read in pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from calcli.errors import DataError
from calcli.tables.io_errors import one_line

CHUNK = 1 << 20

_BLANK = " \t\r\n"


def is_array(path: Path) -> bool:
    """Whether the first letter of a file opens an array."""
    with path.open("rb") as stream:
        return stream.read(CHUNK).removeprefix(b"\xef\xbb\xbf").lstrip(_BLANK.encode()).startswith(b"[")


def lines_of(stream: IO[str], name: str) -> Iterator[str]:
    """Each object of an array as a line; numbers stay as they are written, and NaN, which JSON lacks, becomes null."""
    array = _Array(stream, name)
    array.expect("[")
    while array.next_letter() != "]":
        yield array.element() + "\n"
        if array.next_letter() != "]":
            array.expect(",")
            if array.next_letter() == "]":
                raise array.broken("a comma before its end")
    array.expect("]")
    if array.next_letter():
        raise array.broken("text after its end")


class _Array:
    """A reader that holds one chunk of the text, or one element where that is longer."""

    def __init__(self, stream: IO[str], name: str) -> None:
        self._stream = stream
        self._name = name
        self._text = ""
        self._place = 0
        self._count = 0
        self._constants: list[str] = []
        self._decoder = json.JSONDecoder(parse_constant=self._constants.append)

    def broken(self, what: str) -> DataError:
        """The error for what is no array of objects."""
        return DataError(f"{self._name} is not a JSON array of objects: {what}", hint="was it cut off?")

    def next_letter(self) -> str:
        """The next letter that is not blank; nothing at the end."""
        while True:
            rest = self._text[self._place :].lstrip(_BLANK)
            if rest or not self._more():
                self._place = len(self._text) - len(rest)
                return rest[:1]

    def expect(self, letter: str) -> None:
        """Go past this letter."""
        found = self.next_letter()
        if found != letter:
            raise self.broken(f"{found!r} in place of {letter!r}" if found else f"it ends without {letter!r}")
        self._place += 1

    def element(self) -> str:
        """The next element, which is an object, in one line."""
        self.next_letter()
        while True:
            try:
                self._constants.clear()
                value, end = self._decoder.raw_decode(self._text, self._place)
                break
            except json.JSONDecodeError as error:
                if not self._more():
                    raise self.broken(f"element {self._count + 1}: {one_line(error)}") from error
            except RecursionError as error:
                raise self.broken(f"element {self._count + 1} is nested too deeply") from error
        self._count += 1
        if not isinstance(value, dict):
            raise self.broken(f"element {self._count} is not an object")
        written, self._place = self._text[self._place : end], end
        return json.dumps(value) if self._constants else written.replace("\r", " ").replace("\n", " ")

    def _more(self) -> bool:
        """Read on, and forget what was taken."""
        rest = self._text[self._place :]
        more = self._stream.read(max(CHUNK, len(rest)))
        self._text, self._place = rest + more, 0
        return bool(more)
