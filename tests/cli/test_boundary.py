"""What goes wrong becomes one line and an exit code."""

from __future__ import annotations

import errno
from pathlib import Path

import polars as pl
import pytest

from calcli import errors
from calcli.cli import main as boundary
from calcli.cli.app import COMMANDS
from tests.support.shell import Run

FULL = OSError(errno.ENOSPC, "No space left on device", "big.parquet")

WHAT_HAPPENED = [
    (errors.UsageError("no such thing", hint="try another"), 2, "calcli: no such thing; try another\n"),
    (errors.DataError("a bad row"), 3, "calcli: a bad row\n"),
    (errors.ArtifactError("damaged"), 4, "calcli: damaged\n"),
    (errors.MissingExtraError("this needs the package 'pyspark'"), 5, None),
    (errors.FitError("one class"), 6, "calcli: one class\n"),
    (errors.FileSystemError("in the way"), 7, "calcli: in the way\n"),
    (FULL, 7, "calcli: big.parquet: No space left on device\n"),
    (MemoryError(), 7, None),
    (errors.CalcliError("oh"), 70, "calcli: oh\n"),
    (KeyboardInterrupt(), 130, "calcli: interrupted\n"),
    (errors.ClosedPipeError("gone"), 141, ""),
    (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
    (SystemExit(0), 0, ""),
    (SystemExit(None), 0, ""),
    (SystemExit("why"), 70, ""),
]


@pytest.mark.parametrize(("error", "code", "said"), WHAT_HAPPENED, ids=lambda value: type(value).__name__)
def test_exit_codes(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str | None
) -> None:
    def fail(words: list[str]) -> int:
        raise error

    monkeypatch.setattr(boundary, "_run", fail)
    found, out, err = run("fit")
    assert (found, out) == (code, "")
    assert err.count("\n") == (0 if said == "" else 1)
    assert said is None or err == said


def test_a_bug_says_that_it_is_ours(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicError(BaseException):
        """Like that of polars, which is no Exception."""

    def fail(words: list[str]) -> int:
        raise PanicError("index out of\nbounds")

    monkeypatch.setattr(boundary, "_run", fail)
    code, _, err = run("fit")
    assert code == 70
    assert err.startswith("calcli: this is a bug in calcli")
    assert "PanicError: index out of\\nbounds" in err
    assert "--debug" in err
    assert err.count("\n") == 1
    assert "Traceback" in run("fit", "--debug")[2]


def test_debug_shows_where_for_every_error(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("fit", "no.parquet", "-m", "platt")
    assert "Traceback" not in run(*words)[2]
    code, _, err = run(*words, "--debug")
    assert code == 3
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("calcli: no file 'no.parquet'")
    monkeypatch.setenv("CALCLI_DEBUG", "1")
    assert "Traceback" in run(*words)[2]
    monkeypatch.setenv("CALCLI_DEBUG", "0")
    assert "Traceback" not in run(*words)[2]


def test_a_name_cannot_move_the_cursor(here: Path, run: Run) -> None:
    err = run("fit", "\x1b[2Jevil\n.parquet", "-m", "platt")[2]
    assert err.count("\n") == 1
    assert "\x1b" not in err
    err = run("fit", "\x1b[2Jevil\n.parquet", "-m", "platt", "--debug")[2]
    assert "Traceback" in err
    assert "\x1b" not in err


USAGE = [
    (("ft",), "no command 'ft'; did you mean fit? see: calcli --help"),
    (("frobnicate",), f"no command 'frobnicate'; available: {', '.join(COMMANDS)};"),
    (("--versoin",), "no option --versoin; did you mean --version?"),
    (("--debug", "fit"), "no option --debug; options of a command stand after its name;"),
    (("fit", "x", "--metod", "platt"), "no option --metod; did you mean --method? see: calcli fit --help"),
    (
        ("methods", "-o", "x.json"),
        "no option -o; methods writes to standard output: --format json > FILE; see: calcli methods --help",
    ),
    (("evaluate", "test.csv", "-z"), "no option -z; evaluate has none like it; see: calcli evaluate --help"),
    (("fit",), "fit needs a table: a file, a glob, a directory, or - for standard input;"),
    (("fit", "train.parquet", "-m", "plat"), "no method 'plat'; did you mean 'platt'? available: "),
    (("fit", "train.parquet", "-m"), "-m needs a value;"),
    (("apply",), "apply needs ARTIFACT; see: calcli apply --help"),
    (("apply", "train.platt", "test.csv"), "apply needs --output;"),
    (("inspect", "one", "two"), "inspect takes no further argument: two;"),
    (
        ("methods", "--format", "jsn"),
        "--format: there is no 'jsn', only table, json, csv, markdown; did you mean json?",
    ),
    *(
        (
            ("fit", "x", "-m", "platt", f"--bins={bins}"),
            f"--bins takes a whole number, 1 to 100,000, or auto, not '{bins}'",
        )
        for bins in ("many", "0", "-1", "100001", "1.5", "nan", "inf", "1" + "0" * 5000)
    ),
    (("fit", "x", "-m", "platt", "--threads", "0"), "--threads takes a whole number, 1 to 1,000,000, not '0';"),
    (("fit", "x", "--budget", "long"), "--budget takes a number, 0 to 1,000,000,000, not 'long';"),
    (("fit", "x", "-m", "platt", "--set", "bins"), "--set bins is not KEY=VALUE;"),
    (("evaluate", "test.csv", "--metrics", "nl"), "did you mean 'nll'?"),
    (
        ("evaluate", "test.csv", "--by", "a", "--by=b"),
        "--by is given more than once; name all at once: --by A,B,...",
    ),
    (("evaluate", "test.csv", "--with", "raw=train.platt"), "'raw' is the name of the uncalibrated score;"),
    (("evaluate", "test.csv", "--input-format", "cvs"), "did you mean 'csv'?"),
]


@pytest.mark.parametrize(
    ("words", "said"), USAGE, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_mistakes_on_the_command_line(here: Path, run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith("calcli: ")
    assert said in err


def test_every_kind_of_error_from_outside(here: Path, run: Run) -> None:
    """The same codes where the errors really arise."""
    pl.DataFrame({"label": [0, 1], "logit": [0.0, 1.0]}).write_parquet("few.parquet")
    Path("taken").mkdir()
    Path("taken/thesis.txt").write_text("mine")
    assert run("fit", "gone.parquet", "-m", "platt")[0] == 3
    assert run("fit", "few.parquet", "-m", "platt", "--label", "lable")[0] == 3
    assert run("inspect", "gone")[0] == 4
    assert run("fit", "train.parquet", "-m", "platt", "-o", "taken")[0] == 7
    assert run("apply", "train.platt", "test.csv", "-o", "no/such/place.csv")[0] == 7
    assert Path("taken/thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",)])
def test_help_is_no_error(run: Run, words: tuple[str, ...]) -> None:
    code, out, err = run(*words)
    assert (code, err, out.count("calcli fit")) == (0, "", 1)


def test_version(run: Run) -> None:
    assert run("--version") == (0, "calcli 0.1.0\n", "")
