"""`calcli diagram`, and the small pictures below the answers of others."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from pathlib import Path

import pytest

from calcli.cli.main import main
from tests.support.reports import ANSWERS_SCHEMA
from tests.support.shell import ESCAPE, Run, on_terminal

DIAGRAM = ("diagram", "test.csv", "--with", "train.platt")
FIT = ("fit", "train.parquet", "-m", "platt", "-o", "kept")


def test_the_picture_goes_to_stdout(here: Path, run: Run) -> None:
    code, out, err = run(*DIAGRAM)
    assert (code, err) == (0, "")
    assert out.count("1.0 ┤") == 2
    assert "█ observed rate" in out
    assert "░" in out
    assert ESCAPE not in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("width", ["70", "80", "120"])
def test_on_a_terminal_it_has_colours_and_its_width(width: str, here: Path) -> None:
    code, seen = on_terminal(*DIAGRAM, cwd=here, COLUMNS=width)
    assert code == 0
    assert f"{ESCAPE}38;5;166m" in seen
    beside = [line for line in seen.splitlines() if line.count("0.5 ┤") == 2]
    assert len(beside) == (0 if width == "70" else 1)  # two panels of 36 columns


def test_sixteen_colours(here: Path) -> None:
    seen = on_terminal(*DIAGRAM, cwd=here, TERM="xterm", COLORTERM="")[1]
    assert "38;5" not in seen
    assert f"{ESCAPE}31m" in seen


def test_ascii_where_there_is_nothing_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="strict") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert main(DIAGRAM) == 0
        stdout.flush()
        text = stdout.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
        monkeypatch.undo()
    assert "1.0 +" in text
    assert "\\u" not in text


def test_a_file_is_drawn_and_read_aloud(here: Path, run: Run) -> None:
    code, out, err = run(*DIAGRAM, "-o", "x.svg")
    assert (code, out) == (0, "")
    assert err.splitlines()[-1] == "drawn in x.svg"
    assert err.startswith("raw, label = 1: ")
    assert (here / "x.svg").exists()
    assert run(*DIAGRAM, "-o", "x.svg", "-q") == (0, "", "")


def test_a_picture_on_stdout_is_nothing_but_the_picture(here: Path, run: Run) -> None:
    code, out, _ = run(*DIAGRAM, "-o", "-", "--output-format", "svg")
    assert code == 0
    assert out.startswith("<?xml")
    assert out.rstrip().endswith("</svg>")
    code, _, err = run(*DIAGRAM, "-o", "-", "--output-format", "svg", "--format", "json")
    assert code == 2
    assert "would both go to stdout" in err


def test_the_numbers_as_json_and_csv(here: Path, run: Run) -> None:
    """Also beside a picture in a file."""
    for kind in ("reliability", "rejection"):
        code, out, _ = run(*DIAGRAM, "--kind", kind, "-o", f"{kind}.html", "--format", "json")
        assert code == 0
        assert (here / f"{kind}.html").exists()
        found = json.loads(out)
        ANSWERS_SCHEMA.validate(found)
        points = found["curves"]["rejection" if kind == "rejection" else "reliability"]
        code, out, _ = run(*DIAGRAM, "--kind", kind, "--format", "csv")
        rows = list(csv.DictReader(out.splitlines()))
        assert [float(row["y"]) for row in rows] == [point["y"] for point in points]
        assert {row["class"] for row in rows} == {"" if kind == "rejection" else "1"}


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-o", "x.bmp"), 2, "unknown suffix for an image; known are .png, .svg, .pdf, .html"),
        (("--class", "2"), 2, "no class '2'; available: 0, 1, top, all"),
        (("--kind", "bars"), 2, "reliability"),
        (("-o", "no/x.png"), 7, "there is no directory"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(words: tuple[str, ...], code: int, said: str, here: Path, run: Run) -> None:
    found, out, err = run("diagram", "test.csv", *words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1


def test_evaluate_says_what_rejecting_gains(here: Path, run: Run) -> None:
    code, out, err = run("evaluate", "test.csv", "--with", "train.platt", "--rejection")
    assert (code, err) == (0, "")
    report = json.loads(run("evaluate", "test.csv", "--with", "train.platt", "--rejection", "--format", "json")[1])
    rows = [line.split() for line in out.splitlines() if re.match(r" +\d+ %  0\.", line)]
    shown = {int(row[0]): float(row[3]) for row in rows}
    rates = {round(100 * p["x"]): p["y"] for p in report["curves"]["rejection"] if p["score"] == "train.platt"}
    assert list(shown) == list(range(0, 100, 10))
    assert list(shown.values()) == pytest.approx([rates[share] for share in shown], abs=2e-4)  # curves are from cells
    assert "rejected" not in run("evaluate", "test.csv", "--with", "train.platt")[1]
    assert "rejected" not in run("evaluate", "test.csv", "--with", "train.platt", "--html", "report.html")[1]


# Small pictures


def test_fit_and_evaluate_end_with_a_picture_on_a_terminal(here: Path) -> None:
    for words in (FIT, ("evaluate", "test.csv", "--with", "train.platt")):
        code, seen = on_terminal(*words, cwd=here)
        assert code == 0
        picture = seen[seen.rindex("1.0 ┤") :]
        assert "observed rate" in picture
        assert "38;5;166" in picture


@pytest.mark.parametrize("more", [("-q",), ("--format", "json"), ("--format", "csv")], ids=" ".join)
def test_there_is_none_where_nobody_wants_it(more: tuple[str, ...], here: Path) -> None:
    for words in (FIT, ("evaluate", "test.csv")):
        assert "┤" not in on_terminal(*words, *more, cwd=here)[1]


def test_there_is_none_in_a_pipe_or_on_a_dumb_terminal(here: Path, run: Run) -> None:
    for words in (FIT, ("evaluate", "test.csv")):
        assert "┤" not in "".join(run(*words)[1:])
        assert "┤" not in on_terminal(*words, cwd=here, TERM="dumb")[1]


def test_more_scores_than_fit_side_by_side_are_counted(here: Path) -> None:
    words = [word for name in "abcd" for word in ("--with", f"{name}=train.platt")]
    seen = on_terminal("evaluate", "test.csv", *words, cwd=here)[1]
    assert "2 more, for which the screen is too narrow: calcli diagram" in seen
    assert seen.count("1.0 ┤") == 3
