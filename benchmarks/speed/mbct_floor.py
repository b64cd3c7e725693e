"""What growing 8 trees of depth 5 cannot do without: reading the file, and a sum over all rows by cell for each level.

``python benchmarks/speed/mbct_floor.py FILE``; run by `mbct.py`.
"""

from __future__ import annotations

import sys

import numpy as np
import polars as pl

from calcli.batch import FloatArray
from calcli.methods.mbct.kernels import Codes, Table
from calcli.methods.trees.compiled import compiled
from calcli.numeric.side_by_side import on_threads

LEVELS, BLOCK = 8 * 5, 1 << 18


@compiled
def add_cells(codes: Codes, offsets: Table, prob: FloatArray, start: int, stop: int, sums: FloatArray) -> None:
    """The sums of p and p^2 of these rows, by cell."""
    for row in range(start, stop):
        for feature in range(codes.shape[1]):
            cell = offsets[feature] + codes[row, feature]
            sums[cell, 0] += prob[row]
            sums[cell, 1] += prob[row] * prob[row]


def main() -> None:
    frame = pl.read_parquet(sys.argv[1])
    prob = 1 / (1 + np.exp(-frame["logit"].to_numpy().astype(np.float64)))
    codes = np.empty((len(frame), 8), dtype=np.uint16)
    for place in range(7):
        codes[:, place] = frame[f"c{place}"].to_physical().to_numpy()
    codes[:, 7] = prob * 99
    offsets = np.append(0, np.cumsum(codes.max(axis=0).astype(np.int64) + 1)).astype(np.uint32)

    def work(start: int) -> FloatArray:
        sums = np.zeros((int(offsets[-1]), 2))
        add_cells(codes, offsets, prob, start, min(start + BLOCK, len(prob)), sums)
        return sums

    for _ in range(LEVELS):
        sum(on_threads(work, range(0, len(prob), BLOCK)))


if __name__ == "__main__":
    main()
