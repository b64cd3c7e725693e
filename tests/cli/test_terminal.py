"""On a terminal: colours, a progress bar, no waiting for somebody to type a table."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from calcli.cli.main import main
from tests.support.shell import ESCAPE, on_terminal

pty = pytest.importorskip("pty")

FIT = ("fit", "train.parquet", "-m", "platt", "-o", "kept")


def test_fit_has_a_bar_and_colours(here: Path) -> None:
    code, seen = on_terminal(*FIT, cwd=here)
    assert code == 0
    assert "checking platt on held-out rows" in seen
    assert f"{ESCAPE}32mlowers the log-loss" in seen
    assert f"{ESCAPE}?25h" in seen.rpartition(f"{ESCAPE}?25l")[2], "the cursor is shown again"
    assert seen.endswith("kept\n")


@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CALCLI_NO_COLOR": "1"}], ids=str)
def test_colours_can_be_turned_off(here: Path, more: dict[str, str]) -> None:
    table = ("test.csv", "--with", "train.platt")
    for words in (FIT, ("evaluate", *table), ("diagram", *table), ("methods",), ("--help",), ("fit",)):
        code, seen = on_terminal(*words, cwd=here, **more)
        assert code in {0, 2}
        assert f"{ESCAPE}1m" not in seen or "CALCLI_NO_COLOR" in more
        assert not any(f"{ESCAPE}{code}" in seen for code in ("2m", "31m", "32m", "1;31m", "38;5", "48;5"))


def test_no_color_as_an_option(here: Path) -> None:
    code, seen = on_terminal("evaluate", "test.csv", "--no-color", cwd=here)
    assert code == 0
    assert ESCAPE not in seen.partition("The raw score")[2]


def test_a_dumb_terminal_and_a_quiet_run_have_no_bar(here: Path) -> None:
    assert ESCAPE not in on_terminal(*FIT, cwd=here, TERM="dumb")[1]
    assert on_terminal(*FIT, "-q", cwd=here) == (0, "kept\n")


def test_names_give_a_terminal_no_codes(here: Path) -> None:
    """A hidden text of a label, a group and a directory, on a terminal and in a pipe."""
    code = "\x1b[8m"
    rows = [
        f"{0.1 + 0.2 * (number % 4)},{('no', f'yes{code}')[number % 3 == 0]},{number % 2}{code}" for number in range(60)
    ]
    (here / "hidden.csv").write_text("\n".join([f"prob,label,g{code}", *rows]) + "\n")
    words = ("--label", "label", "--positive", f"yes{code}")
    for command in (
        ("fit", "hidden.csv", "-m", "platt", "-o", f"dir{code}", *words),
        ("inspect", f"dir{code}"),
        ("evaluate", "hidden.csv", "--with", f"dir{code}", "--by", f"g{code}", "--fail-if", f"nll@g{code} < 0", *words),
        ("diagram", "hidden.csv", "--with", f"dir{code}", *words),
        ("fit", "hidden.csv", "--label", f"g{code}x"),
    ):
        seen = on_terminal(*command, cwd=here)[1]
        assert code not in seen
        assert r"\x1b[8m" in seen


def test_a_terminal_is_no_table(here: Path) -> None:
    code, seen = on_terminal("fit", "-", "-m", "platt", cwd=here)
    assert code == 2
    assert "standard input (-) is a terminal" in seen
    assert on_terminal("fit", cwd=here)[0] == 2


def test_each_stream_is_asked_for_itself(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """stderr into a file has no colours although stdout is a terminal."""
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm-256color")
    with (
        (here / "said").open("w") as said,
        os.fdopen(theirs, "w") as terminal,
        patch.multiple(sys, stdout=terminal, stderr=said),
    ):
        code = main(FIT)
    os.close(ours)
    assert code == 0
    text = (here / "said").read_text()
    assert "log-loss" in text
    assert ESCAPE not in text
