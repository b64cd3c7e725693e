"""The goals of `evaluate`: its metrics beside scikit-learn's, the bootstrap, and the memory that rows cost; `estimate`
beside it on the same file, in which one row in 5,000 has a label for it.

``python benchmarks/speed/evaluate.py [--rows N] [--runs N] [--quick]`` writes Markdown. Metrics run in turn with
scikit-learn's on the same arrays; the table shows medians and the ratio of the medians. Memory is the greatest of a
whole process, as the operating system accounts for it. Needs a Unix.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from foundation import CALCLI, timed

from calcli.batch import FloatArray, IntArray
from calcli.metrics import catalog
from calcli.metrics.base import Options, Scored
from calcli.metrics.bootstrap import bootstrap

TOGETHER = 1_000_000
"""Rows that are made at a time."""

LABELLED = 5_000
"""One row of so many has a label for `estimate`."""


def rows_of(count: int, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Log-odds of clicks, and labels that they overestimate."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-2, 1.5, count)
    return z, (rng.random(count) < 1 / (1 + np.exp(-(0.7 * z - 0.3)))).astype(np.int64)


def write_table(path: Path, rows: int) -> None:
    schema = pa.schema({"logit": pa.float64(), "label": pa.int8(), "known": pa.int8()})
    with pq.ParquetWriter(path, schema) as writer:
        for seed, start in enumerate(range(0, rows, TOGETHER)):
            z, label = rows_of(min(TOGETHER, rows - start), seed)
            label = label.astype(np.int8)
            known = pa.array(label, mask=np.arange(len(label)) % LABELLED > 0)
            writer.write_table(pa.table({"logit": z, "label": label, "known": known}))


def peers(label: IntArray, prob: FloatArray) -> None:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

    log_loss(label, prob)
    roc_auc_score(label, prob)
    brier_score_loss(label, prob)
    calibration_curve(label, prob, n_bins=15)


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def metrics_beside_peers(rows: int, runs: int) -> str:
    z, label = rows_of(rows)
    prob = 1 / (1 + np.exp(-z))
    chosen = catalog.choose("default")

    def ours() -> float:
        return seconds(lambda: catalog.measure(chosen, Scored(label, prob), Options()))

    def theirs() -> float:
        return seconds(lambda: peers(label, prob))

    ours()
    theirs()
    pairs = [(ours(), theirs()) for _ in range(runs)]
    our, their = (statistics.median(pair[side] for pair in pairs) for side in (0, 1))
    return f"| the default metrics, {rows:,} rows | {our:.3f} s | {their:.3f} s | {our / their:.3f} x (goal 0.5 x) |"


def resampled(rows: int, replicates: int, runs: int) -> str:
    z, label = rows_of(rows)
    scored = Scored(label, 1 / (1 + np.exp(-z)))
    chosen = catalog.choose("default")
    took = statistics.median(seconds(lambda: bootstrap([scored], chosen, Options(), replicates)) for _ in range(runs))
    return f"| {replicates:,} resamples of the default metrics, {rows:,} rows | {took:.1f} s | | (goal 20 s) |"


def memory(rows: int, *words: str) -> str:
    with tempfile.TemporaryDirectory() as name:
        table = Path(name) / "table.parquet"
        write_table(table, rows)
        timing = timed([CALCLI, words[0], "-q", table, *words[1:]])
    each = timing.peak_mib * 2**20 / rows
    return f"| `{words[0]}`, {rows:,} rows | {timing.wall:.1f} s | {timing.peak_mib:.0f} MiB | {each:.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="300,000 rows, 1 run, 50 resamples of 10,000 rows")
    given = parser.parse_args()
    rows, runs = (300_000, 1) if given.quick else (given.rows, given.runs)
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}\n"
    )
    print("| | wall | peak | bytes a row |\n| --- | --- | --- | --- |")
    for share in (10, 25, 50, 60):  # first: a process starts with the peak of the one that it was forked from
        print(memory(rows * share // 10, "evaluate", "--label", "label"), flush=True)
    print(memory(rows, "estimate", "--label", "known"), flush=True)
    print("\n| | calcli | scikit-learn | ratio |\n| --- | --- | --- | --- |")
    print(metrics_beside_peers(rows, runs), flush=True)
    print(resampled(*((10_000, 50) if given.quick else (100_000, 1000)), runs), flush=True)


if __name__ == "__main__":
    main()
