"""Columns, wrapping, the capabilities of a stream."""

from __future__ import annotations

import io

import pytest

from calcli.cli.screen import Screen, aligned, described, shown_width, wrapped
from calcli.reporting.typesetting import glued


def test_letters_of_two_columns() -> None:
    assert shown_width("猫") == 2
    assert shown_width("e\u0301") == 1
    assert shown_width("\x1b[1;31mred\x1b[0m") == 3
    lines = aligned([["猫", "1"], ["cat", "20"]], "lr")
    assert lines == ["  猫    1", "  cat  20"]


def test_words_are_never_cut() -> None:
    path = "a/very/long/path/that-has-hyphens/and-is-wider-than-the-screen.parquet"
    assert path in wrapped(f"see {path} now", 30)


def test_glue_holds() -> None:
    assert wrapped(f"one two {glued('three four five')}", 20) == ["one two", "three four five"]


def test_a_wide_term_stands_on_its_own_line() -> None:
    lines = described([("a", "one"), ("a-term-that-is-too-wide", "two")], 40, most=10)
    assert lines == ["  a  one", "  a-term-that-is-too-wide", "     two"]


class Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


@pytest.mark.parametrize(
    ("environment", "no_color", "color"),
    [
        ({}, False, True),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({}, True, False),
    ],
)
def test_when_there_are_colours(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], no_color: bool, color: bool
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Screen.of(Terminal(), no_color=no_color).color is color
    assert Screen.of(io.StringIO(), no_color=no_color).color is False


def test_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "132")
    assert (Screen.of(None).width, Screen.of(None).prose) == (132, 100)
    monkeypatch.setenv("COLUMNS", "wide")
    assert Screen.of(Terminal()).width == 80


def test_a_stream_that_is_closed_is_no_terminal() -> None:
    stream = Terminal()
    stream.close()
    assert Screen.of(None).terminal is False
    closed = io.StringIO()
    closed.close()
    assert Screen.of(closed).terminal is False
