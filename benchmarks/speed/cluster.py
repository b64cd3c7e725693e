"""How the verbs grow with rows and with workers, on Spark.

``python benchmarks/speed/cluster.py [--millions 2 8 32] [--workers 1 2] [--quick]`` writes Markdown. Each worker is a
process with one core and an executor with its own Python. A cell has the seconds that pass and, of all processes, those
of processor time; each verb runs once after one run on few rows that does not count. Needs Linux, pyspark and Java.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from growing import METRICS, processor_seconds, versions, write_days

import calcli
from calcli.spark import sample
from calcli.spark import session as spark

TREES = {"trees": 8, "depth": 3, "link": "odds", "lambda": 30}
MEMORY = 2048
"""Of each worker, in MiB."""


def verbs(table: Path, place: Path) -> dict[str, Callable[[], object]]:
    kept, scored = place / "kept", place / "scored"
    shared = {"engine": "spark", "metrics": METRICS}
    shutil.rmtree(scored, ignore_errors=True)
    for name in (kept, place / "mbct"):
        shutil.rmtree(name, ignore_errors=True)
    return {
        "`fit -m platt`": lambda: calcli.fit(table, method="platt", output=kept, holdout="0.1", **shared),
        "`apply`": lambda: calcli.apply(kept, table, scored, engine="spark"),
        "`evaluate`": lambda: calcli.evaluate(table, artifacts=(str(kept),), **shared),
        "`fit -m mbct`": lambda: calcli.fit(
            table, method="mbct", params=TREES, output=place / "mbct", holdout="0.1", **shared
        ),
    }


def timed(work: Callable[[], object]) -> str:
    processor, wall = processor_seconds(), time.perf_counter()
    work()
    return f"{time.perf_counter() - wall:.0f} s, {processor_seconds() - processor:.0f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=float, nargs="+", default=[2, 8, 32])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--quick", action="store_true", help="60,000 rows, 1 worker")
    given = parser.parse_args()
    millions, workers = ([0.06], [1]) if given.quick else (given.millions, given.workers)
    if given.quick:
        sample.MOST_ROWS = 20_000
    trees = f"{TREES['trees']} trees of depth {TREES['depth']}"
    print(f"{versions()}\n\nSeconds, and seconds of a processor; `mbct` grows {trees}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_days(place / "few", 8000)
        tables = {size: place / f"{size:g}" for size in millions}
        for size, table in tables.items():
            write_days(table, round(size * 1e6))
        for count in workers:
            with spark.session(f"local-cluster[{count},1,{MEMORY}]"):
                few = verbs(place / "few", place)
                for work in few.values():
                    work()
                print(f"\n| million rows, workers: {count} | {' | '.join(few)} |\n| --: |{' --: |' * len(few)}")
                for size, table in tables.items():
                    cells = [timed(work) for work in verbs(table, place).values()]
                    print(f"| {size:g} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
