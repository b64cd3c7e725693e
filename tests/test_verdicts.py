"""Exit code 1: the question was understood, and the answer is no."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.cli.main import main
from tests.support.artifacts import contents
from tests.support.samples import clicks


@pytest.fixture
def here(here: Path) -> Path:
    rng = np.random.default_rng(0)
    noise = pl.DataFrame({"label": np.arange(400) % 2, "logit": rng.normal(0, 1e-3, 400)})
    noise.write_parquet("noise.parquet")
    return here


def test_a_guard_lets_through_what_helps(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "train.parquet", "--method", "platt", "--guard", "nll"]) == 0
    assert capsys.readouterr().out == "train.platt\n"


def test_a_guard_stops_what_harms(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "noise.parquet", "--method", "isotonic", "--guard", "nll"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "nothing was saved" in " ".join(said.err.split())
    assert not (here / "noise.isotonic").exists()


def test_without_a_guard_it_is_kept_and_said(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "noise.parquet", "--method", "isotonic"]) == 0
    said = capsys.readouterr()
    assert said.out == "noise.isotonic\n"
    assert "NOT shown to be better than no calibration" in " ".join(said.err.split())


def test_a_refit_that_harms_keeps_the_one_in_place_and_a_quiet_night_says_nothing_to_cron(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where nothing is shown, as on most nights: exit code 1, a note without --quiet, no mail with it."""
    assert main(["fit", "-q", "train.parquet", "--method", "platt", "-o", "m"]) == 0
    before = contents("m")
    capsys.readouterr()
    assert main(["refit", "m", "noise.parquet"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("m stays as it is, because the scores do not tell the classes apart")
    assert "nothing was changed" in " ".join(said.err.split())
    clicks(300, seed=5).write_parquet("next.parquet")
    assert main(["refit", "m", "next.parquet"]) == 1
    assert "not shown to be better than the one in place" in " ".join(capsys.readouterr().err.split())
    assert main(["refit", "-q", "m", "next.parquet"]) == 1
    assert capsys.readouterr() == ("", "")
    assert main(["refit", "-q", "m", "noise.parquet"]) == 1
    assert "the labels may be wrong" in " ".join(capsys.readouterr().err.split())
    assert contents("m") == before


def test_a_refit_that_helps_replaces_and_can_be_taken_back(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "-q", "train.parquet", "--method", "platt", "-o", "m"]) == 0
    before = Path("m/manifest.json").read_bytes()
    clicks(3500, seed=5).with_columns(pl.col("logit") + 6.0).write_parquet("next.parquet")
    capsys.readouterr()
    assert main(["refit", "m", "next.parquet"]) == 0
    said = capsys.readouterr()
    assert said.out == "m\n"
    opening, text = said.err.partition("\n\n")[0], " ".join(said.err.split())
    assert opening.startswith("m is replaced. ")
    assert re.search(r"log-likelihood of these rows changes by \+[1-9][0-9.]+ nats; \+[1-9][0-9.]+ are required", text)
    assert "change new minus old probability: 0." in text
    assert "m --rollback restores it" in text
    assert Path("m/manifest.json").read_bytes() != before
    backs = []
    for _ in range(2):
        assert main(["refit", "m", "--rollback"]) == 0
        backs.append(re.findall(r"on ([0-9,]+) rows", " ".join(capsys.readouterr().err.split())))
    assert backs[0][1] == "3,500"
    assert backs[1] == backs[0][::-1]
    assert backs[0][0] != backs[0][1]
    assert main(["refit", "m"]) == 2
    assert main(["refit", "m", "next.parquet", "--rollback"]) == 2
