"""The speed goals of MBCT: fits beside LightGBM on the same columns, `apply` beside polars copying the file.

``python benchmarks/speed/mbct.py [--rows N] [--runs N] [--quick]`` writes Markdown. Each command and its comparator
run in turn, as whole processes; the table shows medians, the ratio of the medians, and the greatest peak memory. Needs
LightGBM and a Unix.

The table has seven categories of 7 to 4,700 levels, a logit and a label that depends on them all. LightGBM reads the
same file and trains 8 trees of 31 leaves on the categories and the prediction, its codes and not its texts. A floor
stands beside: one process that reads the file, and adds up p and p^2 by the cells of all features once for each level
of each tree, on all cores, which no way of growing these trees can leave out. That of `apply` is polars adding a column
that it computes from the logit by itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from foundation import CALCLI, CARDINALITIES, COPY, compare, timed

LIGHTGBM = """
import sys
import lightgbm, numpy, polars
frame = polars.read_parquet(sys.argv[1])
codes = [frame[f"c{place}"].to_physical().to_numpy() for place in range(7)]
prob = 1 / (1 + numpy.exp(-frame["logit"].to_numpy()))
columns = numpy.column_stack([*codes, prob]).astype(numpy.float32)
data = lightgbm.Dataset(columns, frame["label"].to_numpy(), categorical_feature=list(range(7)))
lightgbm.train({"objective": "binary", "num_leaves": 31, "verbose": -1}, data, 8)
"""

FLOOR = Path(__file__).with_name("mbct_floor.py")

COLUMN_MORE = """
import sys, polars
prob = 1 / (1 + (-polars.col("logit").cast(polars.Float64)).exp())
polars.scan_parquet(sys.argv[1]).with_columns(prob=prob).sink_parquet(sys.argv[2])
"""


def write_table(path: Path, rows: int) -> None:
    """Categories of which few are frequent, each with an effect that the score does not know."""
    rng = np.random.default_rng(0)
    z = rng.normal(-2.2, 1.1, rows)
    truth = 0.9 * z - 0.1
    columns = {}
    for place, many in enumerate(CARDINALITIES):
        share = 1 / (np.arange(many) + 1 + many / 50)
        code = np.searchsorted(np.cumsum(share / share.sum()), rng.random(rows)).clip(0, many - 1)
        truth += rng.normal(0, 0.25, many)[code]
        columns[f"c{place}"] = pl.Series(code).cast(pl.String).cast(pl.Categorical)
    label = (rng.random(rows) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    pl.DataFrame({**columns, "logit": z.astype(np.float32), "label": label}).write_parquet(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="300,000 rows, 1 run")
    given = parser.parse_args()
    rows, runs = (300_000, 1) if given.quick else (given.rows, given.runs)
    python = sys.executable
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, polars {pl.__version__}, "
        f"{rows:,} rows\n"
    )
    print("| | calcli | beside it | ratio | peak | its peak |\n| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table, out = folder / "train.parquet", folder / "out.parquet"
        write_table(table, rows)
        os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
        paper = [CALCLI, "fit", "--method", "mbct", "--preset", "paper", "--holdout", "none", table]
        cold = timed([*paper, "-o", folder / "paper"])
        theirs = [python, "-c", LIGHTGBM, table]
        print(f"| `--preset paper`, nothing compiled before | {cold.wall:.3f} s | | | {cold.peak_mib:.0f} MiB | |")
        print(compare("`--preset paper` beside LightGBM", [*paper, "-o", folder / "paper"], theirs, runs), flush=True)
        print(
            compare("the floor beside LightGBM", [python, FLOOR, table], theirs, runs),
            flush=True,
        )
        default = [CALCLI, "fit", "--method", "mbct", table, "-o", folder / "default"]
        print(compare("the default, with its selection and report, beside LightGBM", default, theirs, runs), flush=True)
        copy = [python, "-c", COPY, table, out]
        apply = [CALCLI, "apply", folder / "paper", table, "-o", out]
        print(compare("`apply` of the paper's trees beside polars copying the file", apply, copy, runs), flush=True)
        floor = [python, "-c", COLUMN_MORE, table, out]
        print(compare("its floor, polars adding a column of its own, beside the same", floor, copy, runs), flush=True)


if __name__ == "__main__":
    main()
