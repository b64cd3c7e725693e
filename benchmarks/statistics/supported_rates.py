"""What it costs, or gains, to hold rates within what their rows support (`calcli.numeric.pooled`).

``python benchmarks/statistics/supported_rates.py [DIR]``

DIR holds pairs ``NAME.cal.parquet`` and ``NAME.test.parquet`` with columns ``logit`` and ``label``. Printed are, by
method and number of calibration rows, the mean and the worst change of the log-loss on the test rows, beside the same
calibrator whose levels are mixed with 1/2 as one more row of all would be. Then, on simulated tables, what the last
step of an isotonic fit says and what happens there.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl

from calcli.batch import Batch
from calcli.methods import calibrator, catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.post_processing import PostProcessing
from calcli.numeric.links import sigmoid
from calcli.numeric.losses import log_loss

METHODS = ("isotonic", "histogram", "bbq")
ROWS = (200, 1000, 5000)
DRAWS = 10


def both(fitted: FittedMethod, rows: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities mixed as one more row of all would be, and held within what rows support."""
    exact = fitted.with_post_processing(PostProcessing(exact=True)).predict(rows)
    share = 1.0 / (fitted.rows + 1)
    return (1.0 - share) * exact + share / 2.0, fitted.predict(rows)


def read(path: Path) -> Batch:
    table = pl.read_parquet(path, columns=["logit", "label"])
    return Batch(table["logit"].to_numpy().astype(np.float64), table["label"].to_numpy().astype(np.int64))


def pairs(folder: Path) -> Iterator[tuple[Batch, Batch]]:
    for path in sorted(folder.glob("*.cal.parquet")):
        if {"logit", "label"} <= set(pl.scan_parquet(path).collect_schema().names()):
            yield read(path), read(path.with_name(path.name.replace(".cal.", ".test.")))


def on_files(folder: Path) -> None:
    print("| method | rows | mean change of the log-loss | worst file |\n| --- | --- | --- | --- |")
    files = list(pairs(folder))
    for method in METHODS:
        spec = catalog.find(method)
        for count in ROWS:
            changes, rng = [], np.random.default_rng(0)
            for cal, test in files:
                if count > len(cal):
                    continue
                losses = []
                for _ in range(DRAWS):
                    fitted = calibrator.fit(spec, cal.take(rng.choice(len(cal), count, replace=False)), spec.resolve())
                    losses.append([log_loss(prob, test.labels).mean() for prob in both(fitted, test)])
                mixed, held = np.mean(losses, axis=0)
                changes.append(held / mixed - 1.0)
            print(f"| {method} | {count:,} | {100 * np.mean(changes):+.2f} % | {100 * np.max(changes):+.2f} % |")


def of_the_last_step(tables: int = 300) -> None:
    """1,000 rows, log-odds N(0, 1.5), and a score that is right."""
    spec, rng = catalog.find("isotonic"), np.random.default_rng(1)
    at = rng.normal(0, 1.5, 4000)
    seen: list[list[float]] = [[], []]
    for seed in range(tables):
        rng = np.random.default_rng(seed)
        z = rng.normal(0, 1.5, 1000)
        label = (rng.random(1000) < sigmoid(z)).astype(np.int64)
        for place, prob in enumerate(both(calibrator.fit(spec, Batch(z, label), {}), Batch(at))):
            last = prob >= prob.max() - 1e-12
            seen[place] += [float(prob.max()), float(sigmoid(at[last]).mean())]
    for name, values in zip(("mixed as one more row", "held"), seen, strict=True):
        print(f"{name}: the last step says {np.mean(values[::2]):.4f}, and {np.mean(values[1::2]):.4f} happens")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        on_files(Path(sys.argv[1]))
        print()
    of_the_last_step()
