"""What a fit on a sample costs in log-loss: simulated rows whose true probabilities are known.

python benchmarks/speed/sample_cost.py boost 20000 100000 1000000
"""

from __future__ import annotations

import sys
import time

import numpy as np
import polars as pl

import calcli
from calcli.numeric.links import sigmoid

CATEGORIES = 200
JUDGED = 400_000


def simulated(rows: int, seed: int) -> tuple[pl.DataFrame, np.ndarray]:
    """Scores whose error differs between categories and along four numbers, and the true log-odds."""
    rng = np.random.default_rng(seed)
    number, category = rng.normal(size=(rows, 6)), rng.integers(0, CATEGORIES, rows)
    score = -1.5 + 1.1 * number[:, 0] + 0.6 * number[:, 1] + rng.normal(0, 0.5, rows)
    truth = 0.75 * score + 0.2 + np.random.default_rng(99).normal(0, 0.35, CATEGORIES)[category]
    truth += 0.35 * np.sin(2 * number[:, 2]) * (number[:, 3] > 0) + 0.25 * number[:, 4] * number[:, 5]
    columns = {f"x{place}": number[:, place].astype(np.float32) for place in range(2, 6)}
    label = (rng.random(rows) < sigmoid(truth)).astype(np.int8)
    place = pl.Series(category).cast(pl.String)
    return pl.DataFrame({"label": label, "logit": score, "place": place, **columns}), truth


def main(method: str, *sizes: str) -> None:
    judged, truth = simulated(JUDGED, 1)
    right = sigmoid(truth)

    def excess(prob: np.ndarray) -> float:
        """The expected log-loss above that of the true probabilities."""
        return float((right * np.log(right / prob) + (1 - right) * np.log((1 - right) / (1 - prob))).mean())

    print(f"no calibration {excess(sigmoid(judged['logit'].to_numpy())):.6f}")
    for size in sizes:
        rows, _ = simulated(int(size), 2)
        started = time.process_time()
        found = excess(calcli.fit(rows, method=method, holdout="none").model.predict(judged))
        print(f"{method} on {int(size):,} rows {found:.6f}, {time.process_time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
