"""Fits of a million rows by methods that use the score only, here and in other packages.

``python benchmarks/arena/many_rows.py [--quick]`` writes Markdown: medians of three fits of simulated rows of two
classes, in turn. Packages that are not installed are left out.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np
from peers import ours, score_only

from calcli.batch import Batch
from calcli.numeric.links import sigmoid

METHODS = ("platt", "temperature", "beta", "isotonic", "quadratic", "spline", "venn-abers")
RUNS = 3
PATIENCE = 20
"""Seconds; what takes longer is run once."""


def table(rows: int) -> list[str]:
    rng = np.random.default_rng(0)
    truth = rng.normal(-0.4, 1.2, rows)
    batch = Batch(2.2 * truth + 0.7, (rng.random(rows) < sigmoid(truth)).astype(np.int64))
    peers = score_only()
    lines = [f"| fit of {rows:,} rows | calcli, s | peer | peer, s | ratio |", "| --- " * 5 + "|"]
    for name in METHODS:
        fits = {"calcli": ours(name)} | {peer: found[name] for peer, found in peers.items() if name in found}
        seconds: dict[str, list[float]] = {who: [] for who in fits}
        for _ in range(RUNS):
            for who, fit in fits.items():
                if seconds[who] and seconds[who][0] > PATIENCE:
                    continue
                started = time.perf_counter()
                fit(batch)
                seconds[who].append(time.perf_counter() - started)
        medians = {who: statistics.median(found) for who, found in seconds.items()}
        own = medians.pop("calcli")
        lines.extend(
            f"| {name} | {own:.3f} | {who} | {median:.3f} | {own / median:.2f} |"
            for who, median in sorted(medians.items(), key=lambda pair: pair[1])
        )
        if not medians:
            lines.append(f"| {name} | {own:.3f} | | | |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="thirty thousand rows")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # the peers' own
    print("\n".join(table(30_000 if given.quick else 1_000_000)))


if __name__ == "__main__":
    main()
