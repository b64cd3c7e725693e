"""The same rows give the same bytes, however many threads there are, in whatever pieces they come."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import calcli
from calcli.methods import catalog
from calcli.models.workers import THREADS
from tests.support.shell import HANGS, environment

pytestmark = pytest.mark.slow

FITTED = """
import json, sys
from calcli.cli.main import main
data, out, methods = sys.argv[1:]
for name, words in json.loads(methods).items():
    assert main([*words, "-q", data, "-o", f"{out}/{name}"]) == 0
"""

BY_LINEAR_ALGEBRA = {"sms"}
"""Not fitted from sums, but by a library that sums in another order when it has more threads."""

METHODS = [row.name for row in catalog.specs() if not row.needs_features]

TRAINED = {
    "mbct": ["-m", "mbct", "--set", "trees=3"],
    "effects": ["-m", "effects"],
    "forest": ["-m", "forest", "--set", "trees=5"],
    "heterogeneous": ["-m", "heterogeneous", "--set", "trees=3", "--set", "depth=3"],
    "boost": ["-m", "boost", "--set", "rounds=20"],
    "ccl": ["-m", "ccl", "--set", "clusters=5"],
    "recal": ["-m", "recal", "--set", "epochs=20", "--set", "rate=0.01", "--set", "lambda=0.1", "--set", "margin=0"],
}
"""Fitted with CatBoost or torch, all but the first three."""


def fit_words(methods: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    return {name: ["fit", *words, "--holdout", "none"] for name, words in methods.items()}


def fitted(data: Path, out: Path, threads: int, hash_seed: int, methods: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The hashes of each method's state."""
    words = [sys.executable, "-c", FITTED, str(data), str(out), json.dumps(methods)]
    # Not --threads, which takes no more of them than there are processors.
    env = environment(PYTHONHASHSEED=str(hash_seed), **dict.fromkeys(THREADS, str(threads)))
    done = subprocess.run(words, check=False, env=env, capture_output=True, timeout=HANGS, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in methods:
        manifest = json.loads((out / name / "manifest.json").read_text())
        found[name] = " ".join(sorted(payload["sha256"] for payload in manifest["payloads"]))
    return found


def rows(count: int, classes: int) -> pl.DataFrame:
    """Enough for several blocks, with weights whose sums are not exact."""
    rng = np.random.default_rng(0)
    place, age = rng.choice(["a", "b", "c", "d"], count), rng.normal(40, 10, count).round(1)
    logits = rng.normal(0, 2, (count, classes))
    unseen = np.outer((place == "a") + (age > 45), np.arange(classes) == 1)
    label = (0.7 * logits + unseen + rng.gumbel(size=logits.shape)).argmax(axis=1)
    scores = {"logit": logits[:, 1] - logits[:, 0]} if classes == 2 else dict_of(logits)
    return pl.DataFrame({"label": label, **scores, "weight": rng.random(count), "place": place, "age": age})


def dict_of(logits: np.ndarray) -> dict[str, np.ndarray]:
    return {f"logit_{name}": column for name, column in enumerate(logits.T)}


def agree(methods: Sequence[str], one: Path, other: Path, table: pl.DataFrame) -> None:
    """To 1e-6."""
    for name in methods:
        first, second = (calcli.load(place / name).predict(table) for place in (one, other))
        np.testing.assert_allclose(first, second, rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("classes", [2, 4])
def test_threads_pieces_and_hash_seeds(classes: int, tmp_path: Path) -> None:
    table = rows(100_000 if classes == 2 else 10_000, classes).drop("place", "age")
    table.write_parquet(tmp_path / "one.parquet", row_group_size=len(table))
    table.write_parquet(tmp_path / "many.parquet", row_group_size=1_009)
    words = fit_words({name: ["-m", name] for name in METHODS})
    first = fitted(tmp_path / "one.parquet", tmp_path / "a", 1, 0, words)
    other = fitted(tmp_path / "many.parquet", tmp_path / "b", 2, 1, words)
    differ = {name for name in METHODS if first[name] != other[name]}
    assert not {name for name in differ if catalog.find(name).from_sums(classes)}
    assert classes > 2 or differ <= BY_LINEAR_ALGEBRA
    agree(sorted(differ), tmp_path / "a", tmp_path / "b", table)


def test_what_is_trained(tmp_path: Path) -> None:
    """The same bytes, whatever the hash seed and the threads."""
    table = rows(4_000, 2)
    table.write_parquet(tmp_path / "t.parquet")
    words = fit_words(TRAINED)
    words["ensemble"] = ["uncertainty", "fit", "--ignore", "logit", "--members", "2", "--trees", "30"]
    first = fitted(tmp_path / "t.parquet", tmp_path / "a", 1, 0, words)
    for threads in (2, 4):
        other = fitted(tmp_path / "t.parquet", tmp_path / str(threads), threads, threads, words)
        assert other == first  # CatBoost does not promise it, and keeps it on tables of this size
