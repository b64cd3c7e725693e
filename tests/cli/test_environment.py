"""CALCLI_<OPTION> stands in for an option that is not given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.shell import Run


def test_the_environment_gives_what_the_line_does_not(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCLI_METHOD", "histogram")
    monkeypatch.setenv("CALCLI_SET", "bins=4 binning=width")
    monkeypatch.setenv("CALCLI_OUTPUT", "kept")
    monkeypatch.setenv("CALCLI_QUIET", "1")
    assert run("fit", "train.parquet") == (0, "kept\n", "")
    assert json.loads(Path("kept/manifest.json").read_text())["params"] == {"bins": 4, "binning": "width"}


def test_the_line_wins(here: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCLI_METHOD", "nonsense")
    monkeypatch.setenv("CALCLI_SET", "bins=4")
    monkeypatch.setenv("CALCLI_OUTPUT", "elsewhere")
    assert run("fit", "-q", "train.parquet", "-m", "histogram", "--set", "bins=2", "-o", "kept")[0] == 0
    assert json.loads(Path("kept/manifest.json").read_text())["params"]["bins"] == 2
    assert not Path("elsewhere").exists()


def test_a_mistake_in_the_environment_is_named_by_its_variable(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCLI_FORMAT", "jsonn")
    code, _, err = run("methods")
    assert code == 2
    assert err.startswith("calcli: CALCLI_FORMAT: there is no 'jsonn'")


def test_an_empty_variable_is_none(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALCLI_FORMAT", "")
    assert run("methods")[0] == 0
