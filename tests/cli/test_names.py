"""Names of files and columns that are other bytes than UTF-8, and links that lead in circles."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.shell import Run

STRANGE = os.fsdecode(b"t\xff")


def test_tables_of_any_name_are_read(here: Path, run: Run) -> None:
    """In every format, as parts of a directory and by a pattern; every verb takes such names."""
    for suffix in ("parquet", "arrow", "ndjson", "json", "csv"):
        assert run("apply", "train.platt", "test.csv", "-o", f"{STRANGE}.{suffix}", "--column", "fine")[0] == 0
    Path(STRANGE).mkdir()
    Path(STRANGE, "part.parquet").write_bytes(Path(f"{STRANGE}.parquet").read_bytes())
    table = f"{STRANGE}.parquet"
    for words in (
        ("fit", "-q", table, "-m", "platt", "-o", STRANGE + "kept"),
        ("evaluate", table, "--with", STRANGE + "kept", "--html", STRANGE + ".html"),
        ("refit", STRANGE + "kept", table),
        ("compare", table, "--methods", "platt"),
        ("diagram", table, "-o", STRANGE + ".svg"),
        ("apply", STRANGE + "kept", table, "-o", STRANGE + "out.csv"),
    ):
        code, _, err = run(*words)
        assert code == 0 or (code == 1 and words[0] == "refit"), (words, err)
    for end in (".parquet", ".arrow", ".ndjson", ".json", ".csv", "", "/*.parquet", "/part.parquet"):
        words = ("evaluate", STRANGE + end, "--with", STRANGE + "kept", "--metrics", "nll", "--format", "json")
        report = json.loads(run(*words)[1])
        assert report["scores"][1]["source"]["path"] == "t\\xffkept"
        assert all(file["path"].startswith("t\\xff") for file in report["data"]["files"])


def test_columns_of_directories_are_text(here: Path, run: Run) -> None:
    Path("days", f"day={STRANGE}").mkdir(parents=True)
    Path("days", f"day={STRANGE}", "part.csv").write_bytes(Path("test.csv").read_bytes())
    code, _, err = run("evaluate", "days")
    assert (code, "bytes that are not UTF-8" in err) == (3, True)


@pytest.mark.parametrize(
    "words",
    [
        *((("fit", "train.parquet", "-m", "platt"), flag) for flag in ("--label", "--features", "--positive", "--set")),
        (("evaluate", "test.csv"), "--by"),
        (("apply", "train.platt", "test.csv", "-o", "out.csv"), "--column"),
    ],
)
def test_options_are_text(here: Path, run: Run, words: tuple[tuple[str, ...], str]) -> None:
    given, flag = words
    code, _, err = run(*given, flag, STRANGE)
    assert (code, err) == (2, f"calcli: {flag}: 't\\udcff' is not UTF-8 text; write it in UTF-8\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("apply", "train.platt", "test.csv", "-o", "loop.csv"), 7),
        (("apply", "train.platt", "test.csv", "-o", "loop.csv/out.csv"), 7),
        (("diagram", "test.csv", "-o", "loop.png"), 7),
        (("diagram", "test.csv", "-o", "loop.html"), 7),
        (("evaluate", "test.csv", "--html", "loop.html"), 7),
        (("fit", "train.parquet", "-m", "platt", "-o", "loop.csv"), 7),
        (("evaluate", "test.csv", "--with", "loop.csv"), 4),
        (("evaluate", "test.csv", "--drift", "loop.csv"), 4),
        (("uncertainty", "evaluate", "test.csv", "--with", "loop.csv"), 4),
        (("evaluate", "loop.csv"), 3),
        (("evaluate", "nowhere.csv"), 3),
    ],
)
def test_links_in_circles(here: Path, run: Run, words: tuple[str, ...], code: int) -> None:
    for name in ("loop.csv", "loop.png", "loop.html"):
        Path(name).symlink_to(name)
    Path("nowhere.csv").symlink_to("absent.csv")
    found, out, err = run(*words)
    assert (found, out, err.count("\n")) == (code, "", 1)
    assert any(word in err for word in ("symbolic link", "is not a directory"))
    assert Path("loop.csv").is_symlink()
