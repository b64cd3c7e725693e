"""What is said on stderr."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calcli.cli import output
from calcli.cli.console import Console
from calcli.engines.listener import Listener, stage
from calcli.reports.schema import ReportWarning
from tests.support.reports import better, warned


def test_a_note_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    talk = Console()
    talk.note("logit and prob agree")
    talk.note("logit and prob agree")
    assert capsys.readouterr().err == "logit and prob agree\n"


def test_quiet_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    talk = Console(quiet=True)
    talk.note("a note")
    talk.show(["a table"])
    talk.warn("a warning")
    assert capsys.readouterr().err == "warning: a warning\n"


def test_no_terminal_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    talk: Listener = Console()
    with stage(talk, "fitting", 3):
        talk.advance(1, "one")
    assert capsys.readouterr().err == ""


def test_warnings_of_a_report_are_said_beside_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    for form in ("table", "json", "csv"):
        output.evaluated(warned(), form, Console())  # type: ignore[arg-type]
        assert capsys.readouterr().err == "warning: these look like probabilities\n"


def test_a_fit_that_is_not_better_is_told_even_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    worse = replace(better(), warnings=(ReportWarning("not-better", "on held-out rows platt has a log-loss +0.01"),))
    output.evaluated(worse, "json", Console(quiet=True))
    assert "warning: on held-out rows platt" in capsys.readouterr().err
    output.evaluated(worse, "table", Console())
    assert capsys.readouterr().err == ""


def test_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    talk = Console()
    talk.screen = talk.screen._replace(terminal=True)
    with stage(talk, "outer"):
        with stage(talk, "inner", 2):
            talk.advance(1, "platt")
            talk.note("in the middle")
        talk.advance(1)
    err = capsys.readouterr().err
    assert "inner" in err
    assert "in the middle" in err
