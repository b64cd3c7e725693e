from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.cli.main import main


def clicks(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    """Over-confident scores of informative labels."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(-1, 1.2, rows)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    return pl.DataFrame({"row_id": np.arange(rows), "label": label, "logit": 2 * truth + 0.5})


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables and an artifact; read only."""
    folder = tmp_path_factory.mktemp("tables")
    clicks().write_parquet(folder / "train.parquet")
    clicks(seed=1).write_csv(folder / "test.csv")
    assert main(["fit", "-q", str(folder / "train.parquet"), "-m", "platt", "-o", str(folder / "train.platt")]) == 0
    return folder


@pytest.fixture
def here(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory in which the tables can be named by their names."""
    for path in tables.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """80 columns, no colours, and nothing from the environment."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("CALCLI_DEBUG", raising=False)


Ran = tuple[int, str, str]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run calcli in this process: the exit code, stdout, stderr."""

    def call(*words: str) -> Ran:
        code = main(list(words))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call
