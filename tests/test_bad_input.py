"""What an on-call engineer would feed it: a clear line, the right exit code, and nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.cli.main import main
from tests.support.samples import clicks

Make = Callable[[], list[str]]
CASES: dict[str, tuple[Make, int, str]] = {}


def case(code: int, words: str) -> Callable[[Make], Make]:
    """Arguments that must end with this code and these words."""

    def keep(make: Make) -> Make:
        CASES[make.__name__] = (make, code, words)
        return make

    return keep


def table(frame: pl.DataFrame, name: str = "bad.parquet") -> str:
    path = Path(name)
    frame.write_csv(path) if path.suffix == ".csv" else frame.write_parquet(path)
    return name


def fit(path: str, *more: str) -> list[str]:
    return ["fit", path, "--method", "platt", "-o", "out", *more]


@case(3, "did you mean 'logits'")
def a_missing_score_column() -> list[str]:
    return fit(table(clicks().rename({"logit": "logits"})))


@case(3, "did you mean 'labelled'")
def a_missing_label_column() -> list[str]:
    return fit(table(clicks().rename({"label": "labelled"})))


@case(3, "'weigth'")
def a_missing_weight_column() -> list[str]:
    return fit(table(clicks()), "--weight", "weigth")


@case(3, "no file 'nowhere.parquet'")
def a_missing_file() -> list[str]:
    return fit("nowhere.parquet")


@case(3, "empty")
def an_empty_file() -> list[str]:
    Path("bad.parquet").write_bytes(b"")
    return fit("bad.parquet")


@case(3, "empty")
def an_empty_csv() -> list[str]:
    Path("bad.csv").write_bytes(b"")
    return fit("bad.csv")


@case(3, "no rows")
def a_table_without_rows() -> list[str]:
    return fit(table(clicks().head(0)))


@case(3, "cut off")
def a_truncated_parquet() -> list[str]:
    name = table(clicks())
    data = Path(name).read_bytes()
    Path(name).write_bytes(data[: len(data) // 2])
    return fit(name)


@case(3, "one class")
def a_label_with_one_class() -> list[str]:
    return fit(table(clicks().with_columns(label=pl.lit(1))))


@case(3, "1 bad row of .*: the label is missing")
def a_label_with_nulls() -> list[str]:
    return fit(table(clicks().with_columns(label=pl.when(pl.col("row_id") == 3).then(None).otherwise(pl.col("label")))))


@case(3, "regression target or soft labels")
def a_label_of_floats() -> list[str]:
    return fit(table(clicks().with_columns(label=pl.col("w"))))


@case(3, "1 bad row of .*: the score is missing .*row 5")
def a_score_that_is_nan() -> list[str]:
    frame = clicks().with_columns(logit=pl.when(pl.col("row_id") == 4).then(float("nan")).otherwise(pl.col("logit")))
    return fit(table(frame))


@case(3, "1 bad row of .*: the score is infinite")
def a_score_that_is_infinite() -> list[str]:
    frame = clicks().with_columns(logit=pl.when(pl.col("row_id") == 4).then(float("inf")).otherwise(pl.col("logit")))
    return fit(table(frame))


@case(3, "outside \\[0, 1\\]")
def probabilities_outside() -> list[str]:
    prob = np.where(np.arange(2000) == 7, 1.5, 0.3)
    return fit(table(clicks().drop("logit").with_columns(prob=pl.Series(prob))))


@case(3, "--logit prob")
def logits_called_probabilities() -> list[str]:
    return fit(table(clicks().rename({"logit": "prob"})))


@case(3, "--prob logit")
def probabilities_called_logits() -> list[str]:
    return fit(table(clicks().with_columns(logit=1 / (1 + (-pl.col("logit")).exp()))))


@case(3, "more than one column 'logit'")
def duplicate_column_names() -> list[str]:
    Path("bad.csv").write_text("label,logit,logit\n0,1.5,2\n1,2.5,3\n")
    return fit("bad.csv")


@case(3, "3 fields in row 2, but 2 column names")
def a_ragged_csv() -> list[str]:
    Path("bad.csv").write_text("label,logit\n0,1.5\n1,2.5,9\n")
    return fit("bad.csv")


@case(3, "1 fields in row 2")
def a_csv_with_a_short_row() -> list[str]:
    Path("bad.csv").write_text("label,logit\n0,1.5\n1\n")
    return fit("bad.csv")


@case(3, "UTF-8")
def a_csv_that_is_not_utf_8() -> list[str]:
    Path("bad.csv").write_bytes("label,logit,città\n0,1.5,Forlì\n1,2.5,Cantù\n".encode("latin-1"))
    return fit("bad.csv")


@case(7, "it contains")
def an_output_that_is_a_directory_of_somebody_else() -> list[str]:
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("x")
    return ["fit", table(clicks()), "--method", "platt", "-o", "mine"]


@case(7, "not a directory")
def an_output_that_is_a_file() -> list[str]:
    return ["fit", table(clicks()), "--method", "platt", "-o", table(clicks(), "taken.parquet")]


@case(2, "calcli cannot read or write hdfs:// URLs")
def a_url_of_an_unknown_kind() -> list[str]:
    return fit("hdfs://host/train.parquet")


@case(3, "4 classes, but 3 columns")
def more_classes_than_columns() -> list[str]:
    frame = pl.DataFrame({"label": ["a", "b", "c"] * 20, "logit_0": 0.1, "logit_1": 0.2, "logit_2": 0.3})
    return fit(table(frame), "--classes", "a,b,c,d")


@case(2, "did you mean 'platt'")
def a_method_with_a_typo() -> list[str]:
    return ["fit", table(clicks()), "--method", "plat"]


@case(4, "no artifact nowhere.platt")
def an_artifact_that_is_not_there() -> list[str]:
    return ["apply", "nowhere.platt", table(clicks()), "-o", "out.parquet"]


@pytest.mark.parametrize("name", CASES)
def test_it_ends_with_one_line_and_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    make, code, words = CASES[name]
    arguments = make()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert main(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("calcli: ")
    assert re.search(words, said.err), said.err
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = table(clicks())
    tmp_path.chmod(0o500)
    try:
        assert main(fit(name)) == 7
    finally:
        tmp_path.chmod(0o700)
