"""What a fit on a sample costs in log-loss: simulated rows whose true probabilities are known.

``python benchmarks/speed/sample_cost.py [--methods NAME ..] [--rows N ..] [--quick]`` writes Markdown: how far the
expected log-loss of each fit is above that of the true probabilities, and seconds of a processor. Spark fits what it
cannot fit on all rows on 1,000,000 of them, unless more are asked for. 20 million need 10 GB and 50 minutes.
"""

from __future__ import annotations

import argparse
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["boost", "pool"])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000, 20_000_000])
    parser.add_argument("--quick", action="store_true", help="boost on 20,000 rows")
    given = parser.parse_args()
    methods, sizes = (["boost"], [20_000]) if given.quick else (given.methods, given.rows)
    judged, truth = simulated(JUDGED, 1)
    right = sigmoid(truth)

    def excess(prob: np.ndarray) -> float:
        """The expected log-loss above that of the true probabilities."""
        return float((right * np.log(right / prob) + (1 - right) * np.log((1 - right) / (1 - prob))).mean())

    print("| fitted on | " + " | ".join(f"{method}: excess | seconds" for method in methods) + " |")
    print("| --- |" + " --: | --: |" * len(methods))
    print(f"| nothing | {excess(sigmoid(judged['logit'].to_numpy())):.6f} |")
    for size in sizes:
        rows, _ = simulated(size, 2)
        cells = []
        for method in methods:
            started = time.process_time()
            found = excess(calcli.fit(rows, method=method, holdout="none").model.predict(judged))
            cells += [f"{found:.6f}", f"{time.process_time() - started:.0f}"]
        print(f"| {size:,} rows | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
