"""How time and memory grow with rows, features and classes.

``python benchmarks/speed/growth.py [--quick]`` writes Markdown. Every command is a whole process, run once after one
that does not count. What doubles with the rows doubles in the table; what does not is the cost of starting.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import polars as pl
from foundation import CALCLI, Timing, timed, write_table


def measured(*words: str | Path) -> Timing:
    timed([CALCLI, *words])
    return timed([CALCLI, *words])


def cell(timing: Timing) -> str:
    return f"{timing.wall:.2f} s, {timing.peak_mib:.0f} MiB"


def table(first: str, header: Iterable[str]) -> None:
    names = list(header)
    print(f"\n| {first} | {' | '.join(names)} |\n| --: |{' --: |' * len(names)}")


def by_rows(folder: Path, millions: list[float]) -> None:
    table("rows", ["`fit -m platt`", "`fit -m isotonic`", "`apply`", "`evaluate`"])
    for size in millions:
        data = folder / "rows.parquet"
        write_table(data, round(size * 1e6))
        fits = [
            measured("fit", "-q", data, "-m", name, "-o", folder / name, "--holdout", "none")
            for name in ("platt", "isotonic")
        ]
        apply = measured("apply", "-q", folder / "platt", data, "-o", folder / "out.parquet")
        evaluate = measured("evaluate", "-q", data, "--with", folder / "platt", "--metrics", "nll,brier,auc,ece,mvce")
        print(f"| {size:g} M | {' | '.join(map(cell, [*fits, apply, evaluate]))} |", flush=True)
        data.unlink()


def by_features(folder: Path, rows: int, counts: list[int]) -> None:
    methods = ("mbct", "ccl")
    table(f"features, {rows:,} rows", [f"`fit -m {name}`" for name in methods])
    rng = np.random.default_rng(0)
    logit = rng.normal(-1, 1.5, rows)
    x = rng.normal(size=(rows, max(counts)))
    label = rng.random(rows) < 1 / (1 + np.exp(-(0.7 * logit + 0.5 * x[:, 0] * x[:, 1])))
    for count in counts:
        columns = {f"x{place}": x[:, place] for place in range(count)}
        data = folder / "features.parquet"
        pl.DataFrame({"label": label.astype(int), "logit": logit, **columns}).write_parquet(data)
        fits = [measured("fit", "-q", data, "-m", name, "-o", folder / name, "--holdout", "none") for name in methods]
        print(f"| {count} | {' | '.join(map(cell, fits))} |", flush=True)


def by_classes(folder: Path, rows: int, counts: list[int]) -> None:
    methods = ("temperature", "vector", "sms", "dirichlet", "isotonic")
    table(f"classes, {rows:,} rows", [f"`fit -m {name}`" for name in methods])
    rng = np.random.default_rng(0)
    for count in counts:
        z = rng.normal(0, 2, (rows, count))
        label = (0.5 * z + rng.gumbel(size=z.shape)).argmax(axis=1)
        score = {"logit": z[:, 1] - z[:, 0]} if count == 2 else {f"logit_{name}": z[:, name] for name in range(count)}
        data = folder / "classes.parquet"
        pl.DataFrame({"label": label, **score}).write_parquet(data)
        fits = [measured("fit", "-q", data, "-m", name, "-o", folder / name, "--holdout", "none") for name in methods]
        print(f"| {count} | {' | '.join(map(cell, fits))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small tables")
    quick = parser.parse_args().quick
    print(f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, polars {pl.__version__}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        by_rows(folder, [0.1, 0.3] if quick else [1, 3, 10, 30])
        by_features(folder, 5_000 if quick else 100_000, [4, 8] if quick else [4, 16, 64])
        by_classes(folder, 5_000 if quick else 50_000, [2, 4] if quick else [2, 10, 100])


if __name__ == "__main__":
    main()
