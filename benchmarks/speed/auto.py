"""The processor time of `fit` as it is called first: by `auto`, on tables of four kinds.

``python benchmarks/speed/auto.py [--runs N] [--quick]`` writes Markdown. Every fit is a whole process; the table shows
the least processor time, of all its threads and of the processes that it starts. Small tables are fitted before, so
that no fit compiles.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
from foundation import CALCLI, timed

SAMPLE = Path(__file__).resolve().parents[2] / "sample_data" / "train.parquet"

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "POLARS_MAX_THREADS")

TABLES = ((200_000, 20, 2, 60.0), (2_700, 16, 10, 20.0), (1_000, 57, 2, 5.0))
"""Rows, features, classes, and the seconds that a fit may take; half of the features count."""


def table(rows: int, features: int, classes: int) -> pl.DataFrame:
    """Over-confident scores that know a quarter of the features, and labels that depend on half of them.

    A fifth of the features are categories.
    """
    rng = np.random.default_rng((rows, features, classes))
    x = rng.normal(size=(rows, features))
    effect = rng.normal(size=(features, classes)) * (np.arange(features) < features // 2)[:, None]
    bent = np.where(np.arange(features) % 2, x, np.abs(x) - 0.8)
    truth = bent @ effect * 1.5 / np.sqrt(features // 4)
    known = bent[:, : features // 4] @ effect[: features // 4] * 1.5 / np.sqrt(features // 4)
    label = (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)
    score = 2.0 * known + rng.normal(size=known.shape)
    columns: dict[str, object] = {f"x{place}": x[:, place] for place in range(features)}
    for place in range(0, features, 5):
        columns[f"x{place}"] = np.floor(2.0 * x[:, place]).astype(int).astype(str)
    if classes == 2:
        return pl.DataFrame({**columns, "label": label, "logit": score[:, 1] - score[:, 0]})
    return pl.DataFrame({**columns, "label": label, **{f"logit_{name}": score[:, name] for name in range(classes)}})


def spent(data: Path, out: Path, environment: Mapping[str, str]) -> float:
    """Seconds of user and system of one fit."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with_environment = ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items())]
    timed([*with_environment, CALCLI, "fit", "-q", data, "-o", out])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(data: Path, out: Path, runs: int) -> tuple[float, float]:
    """On one thread, and on as many as there are cores."""
    one, many = (
        min(spent(data, out, environment) for _ in range(runs)) for environment in (dict.fromkeys(THREADS, "1"), {})
    )
    return one, many


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    given = parser.parse_args()
    runs, part = given.runs, 10 if given.quick else 1
    print(f"| table | one thread | {os.cpu_count()} threads | goal |\n| --- | --: | --: | --: |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for classes in (2, 3):
            table(600, 5, classes).write_parquet(folder / "table.parquet")
            spent(folder / "table.parquet", folder / "artifact", {})
        cells = measured(SAMPLE, folder / "artifact", runs)
        print(f"| sample data, 30,000 rows, 10 features | {cells[0]:.1f} s | {cells[1]:.1f} s | 12 s |", flush=True)
        for rows, features, classes, goal in TABLES:
            data = folder / "table.parquet"
            table(rows // part, features, classes).write_parquet(data)
            cells = measured(data, folder / "artifact", runs)
            title = f"{rows // part:,} rows, {features} features, {classes} classes"
            print(f"| {title} | {cells[0]:.1f} s | {cells[1]:.1f} s | {goal:.0f} s |", flush=True)


if __name__ == "__main__":
    main()
