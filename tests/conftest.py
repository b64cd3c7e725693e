"""What tests of several rooms find ready."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import calcli

pytest.register_assert_rewrite("tests.support")

from tests.support.differences import pytest_terminal_summary  # noqa: E402, F401 a hook of pytest
from tests.support.drawing import (  # noqa: E402 only now are assertions rewritten
    draw_examples,
    pytest_runtest_setup,  # noqa: F401 a hook of pytest
)
from tests.support.samples import parquet_of_clicks  # noqa: E402
from tests.support.thrift import (  # noqa: E402 three are hooks of pytest
    pytest_collection,  # noqa: F401
    pytest_collection_finish,  # noqa: F401
    pytest_collection_modifyitems,  # noqa: F401
    wait_for_no_disk,
)

draw_examples()
wait_for_no_disk()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory with two tables in it."""
    monkeypatch.chdir(tmp_path)
    Path("train.parquet").write_bytes(parquet_of_clicks(0))
    Path("test.parquet").write_bytes(parquet_of_clicks(1))
    return tmp_path


@pytest.fixture(scope="session")
def fit_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., None]:
    """Fits the rows of a file as `calcli.fit` does; the artifact of a fit that was made before is copied."""
    made: dict[str, Path] = {}

    def fit(file: str, output: str, **how: str) -> None:
        key = f"{file} {output} {how} {hashlib.sha256(Path(file).read_bytes()).hexdigest()}"
        if key in made:
            shutil.copytree(made[key], output)
        else:
            calcli.fit(file, output=output, **how)
            made[key] = shutil.copytree(output, tmp_path_factory.mktemp("once") / "kept")

    return fit
