from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calcli
from calcli.errors import ArtifactError, DataError
from tests.support.samples import clicks


@pytest.fixture
def model(here: Path):
    calcli.fit("train.parquet", method="platt")
    return calcli.load("train.platt")


def test_frames_of_every_kind_give_the_same(model) -> None:
    frame = clicks(seed=1)
    expected = model.predict(frame)
    for other in (frame.lazy(), frame.to_pandas(), frame.to_arrow(), frame.to_arrow().to_batches()[0], "test.parquet"):
        np.testing.assert_array_equal(model.predict(other), expected)


def test_a_row_without_a_score_is_an_error(model) -> None:
    frame = clicks(3)
    frame[1, "logit"] = None
    with pytest.raises(DataError, match="row 2"):
        model.predict(frame)


def test_a_damaged_artifact_is_refused(model, here: Path) -> None:
    payload = next(Path("train.platt").glob("state-*"))
    payload.write_bytes(payload.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(ArtifactError):
        calcli.load("train.platt")


def test_a_method_of_the_future_is_named(model, here: Path) -> None:
    manifest = Path("train.platt/manifest.json")
    manifest.write_text(manifest.read_text().replace('"method": "platt"', '"method": "telepathy"'))
    with pytest.raises(ArtifactError, match="telepathy"):
        calcli.load("train.platt")


def test_inspection_tells_what_was_fitted(model) -> None:
    found = calcli.inspect("train.platt").to_json()
    assert found["manifest"]["method"] == "platt"
    assert set(found["fitted"]["params"]) == {"a", "b"}


def test_the_package_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = (
        "import sys, calcli; print([m for m in ('numpy', 'polars', 'pyarrow', 'typer', 'scipy') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
