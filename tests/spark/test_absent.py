"""Where there is no pyspark, one line says how to get it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import calcli
from calcli.cli.main import main
from tests.support.samples import clicks


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "days.parquet", "-m", "platt", "-o", "there"),
        ("apply", "kept", "days.parquet", "-o", "there"),
        ("evaluate", "days.parquet", "--with", "kept"),
        ("fit", "days.parquet", "-o", "there"),
        ("compare", "days.parquet", "--select", "there"),
        ("refit", "kept", "days.parquet"),
    ],
)
def test_the_line_names_the_extra(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [each for each in sys.modules if each.partition(".")[0] == "pyspark"] + ["pyspark"]:
        monkeypatch.setitem(sys.modules, name, None)
    clicks(200).write_parquet("days.parquet")
    calcli.fit("days.parquet", method="platt", output="kept")
    assert main([*words, "--engine", "spark"]) == 5
    out, err = capsys.readouterr()
    assert out == ""
    assert "--engine spark needs the package 'pyspark'" in err.replace("\n", " ")
    assert "pip install 'calcli-calibration[spark]'" in err.replace("\n", " ")
    assert not Path("there").exists()
