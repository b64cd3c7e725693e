"""What tests of several rooms find ready."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.samples import clicks


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with a table in it."""
    monkeypatch.chdir(tmp_path)
    clicks().write_parquet("train.parquet")
    clicks(seed=1).write_parquet("test.parquet")
    return tmp_path
