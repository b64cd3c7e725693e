"""Columns, wrapping, the capabilities of a stream; what is said on stderr."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from calcli.cli import output, results
from calcli.cli.process import Console
from calcli.cli.screen import Screen, aligned, described, shown_width, wrapped
from calcli.listener import Listener, stage
from calcli.reporting.typesetting import glued
from calcli.reports.schema import ReportWarning
from tests.support.reports import better, warned


def test_letters_of_two_columns() -> None:
    assert shown_width("猫") == 2
    assert shown_width("e\u0301") == 1
    assert shown_width(Screen(color=True).bad("red")) == 3
    lines = aligned([["猫", "1"], ["cat", "20"]], "lr")
    assert lines == ["  猫    1", "  cat  20"]


def test_only_our_own_colours_reach_a_terminal() -> None:
    """Codes of names are written out, those in colour too, and take the columns in which they are shown."""
    screen = Screen(color=True)
    name = "a\x1b[8mb\x9b31m\u202ec\nd"
    shown = r"a\x1b[8mb\x9b31m\u202ec\nd"
    assert screen.fit([name, screen.good(name)]) == f"{shown}\n\x1b[32m{shown}\x1b[0m"
    assert shown_width(screen.good(name)) == len(shown)


def test_words_are_never_cut_and_glue_holds() -> None:
    path = "a/very/long/path/that-has-hyphens/and-is-wider-than-the-screen.parquet"
    assert path in wrapped(f"see {path} now", 30)
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
    ("environment", "no_color", "color", "in_a_file"),
    [
        ({}, False, True, False),
        ({"NO_COLOR": "1"}, False, False, False),
        ({"NO_COLOR": ""}, False, True, False),
        ({"TERM": "dumb"}, False, False, False),
        ({}, True, False, False),
        ({"FORCE_COLOR": "1"}, False, True, True),
        ({"FORCE_COLOR": ""}, False, True, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False, False),
        ({"FORCE_COLOR": "1"}, True, False, False),
    ],
)
def test_when_there_are_colours(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], no_color: bool, color: bool, in_a_file: bool
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert Screen.of(Terminal(), no_color=no_color).color is color
    assert Screen.of(io.StringIO(), no_color=no_color).color is in_a_file


def test_width_and_streams_that_are_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "132")
    assert (Screen.of(None).width, Screen.of(None).prose) == (132, 100)
    monkeypatch.setenv("COLUMNS", "wide")
    assert Screen.of(Terminal()).width == 80
    closed = io.StringIO()
    closed.close()
    assert (Screen.of(None).terminal, Screen.of(closed).terminal) == (False, False)


def test_a_note_is_said_once_and_a_warning_even_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    for quiet, said in ((False, "a note\na table\nwarning: a warning\n"), (True, "warning: a warning\n")):
        console = Console(quiet=quiet)
        console.note("a note")
        console.note("a note")
        console.show(["a table"])
        console.warn("a warning")
        assert capsys.readouterr().err == said


def test_no_terminal_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    console: Listener = Console()
    with stage(console, "fitting", 3):
        console.advance(1, "one")
    assert capsys.readouterr().err == ""


def test_warnings_of_a_report_are_said_beside_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json", "csv"):
        output.show(results.evaluated(warned()), form, Console())  # type: ignore[arg-type]
        assert capsys.readouterr().err == "warning: these look like probabilities\n"


def test_a_fit_that_is_not_better_is_told_even_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    worse = replace(better(), warnings=(ReportWarning("not-better", "on held-out rows platt has a log-loss +0.01"),))
    output.show(results.evaluated(worse), "json", Console(quiet=True))
    assert "warning: on held-out rows platt" in capsys.readouterr().err
    output.show(results.evaluated(worse), "table", Console())
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.stderr = console.stderr._replace(terminal=True)
    with stage(console, "outer"):
        with stage(console, "inner", 2):
            console.advance(1, "platt")
            console.note("in the middle")
        console.advance(1)
    err = capsys.readouterr().err
    assert "inner" in err
    assert "in the middle" in err
