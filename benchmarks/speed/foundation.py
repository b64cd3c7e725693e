"""The speed goals of the ground: start-up, and `apply` beside polars copying the same file.

``python benchmarks/speed/foundation.py [--rows N] [--runs N] [--quick]`` writes Markdown. Each command and its
comparator run in turn, as whole processes; the table shows medians, the ratio of the medians, and the greatest peak
memory as the operating system accounts for it. Needs a Unix.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

CARDINALITIES = (7, 4700, 26, 5, 2600, 68, 170)
COPY = "import sys, polars; polars.scan_parquet(sys.argv[1]).sink_parquet(sys.argv[2])"
CALCLI = Path(sysconfig.get_path("scripts")) / "calcli"

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installation has its bytecode: to make it anew takes .4 s


@dataclass(frozen=True)
class Timing:
    """One finished process."""

    wall: float
    peak_mib: float


def timed(command: Sequence[str | Path]) -> Timing:
    """Run a command to its end; its output is thrown away."""
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.execv(command[0], [str(part) for part in command])
    _, status, usage = os.wait4(pid, 0)
    wall = time.perf_counter() - started
    if status != 0:
        raise SystemExit(f"failed: {' '.join(map(str, command))}")
    return Timing(wall, usage.ru_maxrss / 1024)


def compare(title: str, ours: Sequence[str | Path], theirs: Sequence[str | Path], runs: int) -> str:
    """A row of the table: both commands in turn, after one run of each that does not count."""
    timed(ours)
    timed(theirs)
    pairs = [(timed(ours), timed(theirs)) for _ in range(runs)]
    our_wall = statistics.median(pair[0].wall for pair in pairs)
    their_wall = statistics.median(pair[1].wall for pair in pairs)
    our_peak = max(pair[0].peak_mib for pair in pairs)
    their_peak = max(pair[1].peak_mib for pair in pairs)
    return (
        f"| {title} | {our_wall:.3f} s | {their_wall:.3f} s | {our_wall / their_wall:.2f} x "
        f"| {our_peak:.0f} MiB | {their_peak:.0f} MiB |"
    )


def write_table(path: Path, rows: int) -> None:
    """Integer-coded categories, a logit and a label, a million rows at a time."""
    rng = np.random.default_rng(0)
    parts = []
    for start in range(0, rows, 1_000_000):
        n = min(1_000_000, rows - start)
        z = rng.normal(-2, 1.5, n).astype(np.float32).astype(np.float64)
        columns = {f"c{place}": rng.integers(0, many, n, dtype=np.int16) for place, many in enumerate(CARDINALITIES)}
        label = (rng.random(n) < 1 / (1 + np.exp(-(0.7 * z - 0.3)))).astype(np.int8)
        parts.append(pl.DataFrame({**columns, "logit": z, "label": label}))
    pl.concat(parts).write_parquet(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="300,000 rows, 2 runs")
    given = parser.parse_args()
    rows, runs = (300_000, 2) if given.quick else (given.rows, given.runs)
    python = sys.executable
    print(
        f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}, polars {pl.__version__}\n"
    )
    print("| | calcli | beside it | ratio | peak | its peak |\n| --- | --- | --- | --- | --- | --- |")
    imports = [python, "-c", "import typer, rich"]
    for arguments in (["--help"], ["methods"], ["--version"]):
        title = f"`calcli {' '.join(arguments)}` beside importing typer and rich"
        print(compare(title, [CALCLI, *arguments], imports, max(runs, 5)), flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (rows, rows // 4):
            table, artifact, out = folder / f"{size}.parquet", folder / "platt", folder / "out.parquet"
            write_table(table, size)
            if not artifact.exists():
                fit = [CALCLI, "fit", "--method", "platt", table, "-o", artifact]
                print(
                    compare(
                        f"`fit --method platt`, {size:,} rows, beside the copy",
                        fit,
                        [python, "-c", COPY, table, out],
                        1,
                    ),
                    flush=True,
                )
            ours = [CALCLI, "apply", artifact, table, "-o", out]
            theirs = [python, "-c", COPY, table, out]
            print(
                compare(f"`apply` of platt, {size:,} rows, beside polars copying the file", ours, theirs, runs),
                flush=True,
            )
            table.unlink()


if __name__ == "__main__":
    main()
