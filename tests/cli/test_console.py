"""What is said on stderr."""

from __future__ import annotations

from dataclasses import replace

import pytest

from calcli.cli import output, results
from calcli.cli.process import Console
from calcli.listener import Listener, stage
from calcli.reports.schema import ReportWarning
from tests.support.reports import better, warned


def test_a_note_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    console.note("logit and prob agree")
    console.note("logit and prob agree")
    assert capsys.readouterr().err == "logit and prob agree\n"


def test_quiet_keeps_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(quiet=True)
    console.note("a note")
    console.show(["a table"])
    console.warn("a warning")
    assert capsys.readouterr().err == "warning: a warning\n"


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
