"""The same rows give the same bytes, however many threads there are, in whatever pieces they come."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.methods import catalog
from tests.cli.making import environment

FITTED = """
import json, sys
from pathlib import Path
from calcli.cli.main import main
data, out, threads, *names = sys.argv[1:]
for name in names:
    words = ["fit", "-q", data, "-m", name, "-o", f"{out}/{name}", "--threads", threads, "--holdout", "none"]
    assert main(words) == 0
"""

BY_LINEAR_ALGEBRA = {"sms"}
"""The library below sums in another order when it has more threads."""

METHODS = [row.name for row in catalog.rows() if not row.needs_features]


def fitted(data: Path, out: Path, threads: int, hash_seed: int) -> dict[str, str]:
    """The hash of each method's state."""
    words = [sys.executable, "-c", FITTED, str(data), str(out), str(threads), *METHODS]
    env = environment(PYTHONHASHSEED=str(hash_seed), OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    subprocess.run(words, check=True, env=env, capture_output=True, timeout=600)
    found = {}
    for name in METHODS:
        manifest = json.loads((out / name / "manifest.json").read_text())
        found[name] = " ".join(sorted(payload["sha256"] for payload in manifest["payloads"]))
    return found


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Enough for several blocks, with weights whose sums are not exact."""
    rng = np.random.default_rng(0)
    logit = rng.normal(0, 2, 300_000)
    label = rng.random(len(logit)) < 1 / (1 + np.exp(-0.7 * logit + 0.4))
    return pl.DataFrame({"label": label.astype(int), "logit": logit, "weight": rng.random(len(logit))})


def test_threads_pieces_and_hash_seeds(rows: pl.DataFrame, tmp_path: Path) -> None:
    rows.write_parquet(tmp_path / "one.parquet", row_group_size=len(rows))
    rows.write_parquet(tmp_path / "many.parquet", row_group_size=7_919)
    first = fitted(tmp_path / "one.parquet", tmp_path / "a", threads=1, hash_seed=0)
    other = fitted(tmp_path / "many.parquet", tmp_path / "b", threads=2, hash_seed=1)
    assert {name for name in METHODS if first[name] != other[name]} <= BY_LINEAR_ALGEBRA
    for name in BY_LINEAR_ALGEBRA:
        one, two = (calcli.load(tmp_path / place / name).predict(rows) for place in "ab")
        np.testing.assert_allclose(one, two, rtol=0, atol=1e-6)
