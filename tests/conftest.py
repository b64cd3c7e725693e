"""What tests of several rooms find ready."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("busy", max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")  # whatever else the machine does; each run draws other examples
pytest.register_assert_rewrite("tests.support")

from tests.support.differences import pytest_terminal_summary  # noqa: E402, F401 a hook of pytest
from tests.support.samples import clicks  # noqa: E402 only now are its assertions rewritten


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with a table in it."""
    monkeypatch.chdir(tmp_path)
    clicks().write_parquet("train.parquet")
    clicks(seed=1).write_parquet("test.parquet")
    return tmp_path
