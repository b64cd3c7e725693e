from __future__ import annotations

from pathlib import Path

import pytest

from calcli.cli.main import main
from tests.support.samples import clicks
from tests.support.shell import Run


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables and an artifact; read only."""
    folder = tmp_path_factory.mktemp("tables")
    plain = ("row_id", "label", "logit")
    clicks(400).select(plain).write_parquet(folder / "train.parquet")
    clicks(400, seed=1).select(plain).write_csv(folder / "test.csv")
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


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Run calcli in this process: the exit code, stdout, stderr."""

    def call(*words: str) -> tuple[int, str, str]:
        code = main(list(words))
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return call
