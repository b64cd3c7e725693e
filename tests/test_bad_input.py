"""What an on-call engineer would feed it: a clear line, the right exit code, and nothing left behind."""

from __future__ import annotations

import io
import math
import os
import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.cli.main import main
from tests.support.samples import clicks

ROWS = clicks()
FIT = "fit bad.parquet --method platt -o out"
OF_CSV = "fit bad.csv --method platt -o out"


def changed(column: str, row: int, value: float | None) -> pl.DataFrame:
    return ROWS.with_columns(pl.when(pl.col("row_id") == row).then(value).otherwise(pl.col(column)).alias(column))


def cut_off() -> bytes:
    file = io.BytesIO()
    ROWS.write_parquet(file)
    return file.getvalue()[: file.tell() // 2]


PROB = ROWS.drop("logit").with_columns(prob=pl.Series(np.where(np.arange(len(ROWS)) == 7, 1.5, 0.3)))
THREE = pl.DataFrame({"label": ["a", "b", "c"] * 20, "logit_0": 0.1, "logit_1": 0.2, "logit_2": 0.3})
CASES: dict[str, tuple[int, str, pl.DataFrame | bytes, str]] = {
    "a missing score column": (3, "did you mean 'logits'", ROWS.rename({"logit": "logits"}), FIT),
    "a missing label column": (3, "did you mean 'labelled'", ROWS.rename({"label": "labelled"}), FIT),
    "a missing weight column": (3, "'weigth'", ROWS, f"{FIT} --weight weigth"),
    "a missing file": (3, "no file 'nowhere.parquet'", ROWS, FIT.replace("bad", "nowhere")),
    "an empty file": (3, "empty", b"", FIT),
    "an empty CSV": (3, "empty", b"", OF_CSV),
    "a table without rows": (3, "no rows", ROWS.head(0), FIT),
    "a truncated Parquet file": (3, "cut off", cut_off(), FIT),
    "a label with one class": (3, "one class", ROWS.with_columns(label=pl.lit(1)), FIT),
    "a label with nulls": (3, "1 bad row of .*: the label is missing", changed("label", 3, None), FIT),
    "a label of floats": (3, "regression target", ROWS.with_columns(label=pl.col("w")), FIT),
    "a score that is NaN": (3, "1 bad row of .*: the score is missing .*row 5", changed("logit", 4, math.nan), FIT),
    "an infinite score": (3, "1 bad row of .*: the score is infinite", changed("logit", 4, math.inf), FIT),
    "probabilities outside": (3, "outside \\[0, 1\\]", PROB, FIT),
    "logits called probabilities": (3, "--logit prob", ROWS.rename({"logit": "prob"}), FIT),
    "probabilities called logits": (
        3,
        "--prob logit",
        ROWS.with_columns(logit=1 / (1 + (-pl.col("logit")).exp())),
        FIT,
    ),
    "duplicate column names": (3, "more than one column 'logit'", b"label,logit,logit\n0,1.5,2\n1,2.5,3\n", OF_CSV),
    "a ragged CSV": (3, "3 fields in row 2, but 2 column names", b"label,logit\n0,1.5\n1,2.5,9\n", OF_CSV),
    "a CSV with a short row": (3, "1 fields in row 2", b"label,logit\n0,1.5\n1\n", OF_CSV),
    "a CSV in Latin-1": (3, "UTF-8", "label,logit,città\n0,1.5,Forlì\n1,2.5,Cantù\n".encode("latin-1"), OF_CSV),
    "an output in a directory of somebody else": (7, "it contains", ROWS, FIT.replace("-o out", "-o mine")),
    "an output that is a file": (7, "not a directory", ROWS, FIT.replace("-o out", "-o mine/notes.txt")),
    "a URL of an unknown kind": (
        2,
        "calcli cannot read or write hdfs:// URLs",
        ROWS,
        FIT.replace("bad", "hdfs://host/t"),
    ),
    "more classes than columns": (3, "4 classes, but 3 columns", THREE, f"{FIT} --classes a,b,c,d"),
    "a list of names with a line break": (2, "line break; put .* in double quotes", ROWS, f"{FIT} --features 'a\nb'"),
    "a method with a typo": (2, "did you mean 'platt'", ROWS, FIT.replace("platt", "plat")),
    "an artifact that is not there": (4, "no artifact nowhere.platt", ROWS, "apply nowhere.platt bad.parquet -o o.csv"),
}


@pytest.mark.parametrize(("code", "words", "content", "arguments"), CASES.values(), ids=CASES)
def test_it_ends_with_one_line_and_leaves_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    words: str,
    content: pl.DataFrame | bytes,
    arguments: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("x")
    if isinstance(content, pl.DataFrame):
        content.write_parquet("bad.parquet")
    else:
        Path("bad.csv" if arguments == OF_CSV else "bad.parquet").write_bytes(content)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(shlex.split(arguments)) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("calcli: ")
    assert re.search(words, said.err), said.err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ROWS.write_parquet("bad.parquet")
    tmp_path.chmod(0o500)
    try:
        assert main(FIT.split()) == 7
    finally:
        tmp_path.chmod(0o700)
