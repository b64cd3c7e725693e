"""How the verbs grow with rows and with workers, on Spark.

``python benchmarks/speed/cluster.py [--millions 2 8 32] [--workers 1 2] [--quick]`` writes Markdown. Each worker is a
process with one core and an executor with its own Python. A cell has the seconds that pass and, of all processes, those
of processor time, which `apply` also has as a multiple of what Spark needs to copy the table. Each verb runs once after
one run on few rows that does not count. Needs Linux, pyspark, CatBoost and Java.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from growing import METRICS, processor_seconds, versions, write_days

import calcli
from calcli.spark import sample
from calcli.spark import session as spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TREES = {"trees": 8, "depth": 3, "link": "odds", "lambda": 30}
SAMPLE = 100_000
"""Rows that `boost` is fitted on."""

MEMORY = 2048
"""Of each worker, in MiB."""

COPY = "Spark's copy"


def verbs(session: SparkSession, table: Path, place: Path) -> dict[str, Callable[[], object]]:
    for old in place.glob("made*"):
        shutil.rmtree(old)
    platt, mbct, boost, copied, scored, branched = (place / f"made{number}" for number in range(6))
    shared = {"engine": "spark", "metrics": METRICS}
    fitted = shared | {"holdout": "0.1"}
    return {
        COPY: lambda: spark.read(session, [str(table)]).write.parquet(str(copied)),
        "`fit -m platt`": lambda: calcli.fit(table, method="platt", output=platt, **fitted),
        "`apply`": lambda: calcli.apply(platt, table, scored, engine="spark"),
        "`evaluate`": lambda: calcli.evaluate(table, artifacts=(str(platt),), **shared),
        "`fit -m mbct`": lambda: calcli.fit(table, method="mbct", params=TREES, output=mbct, **fitted),
        "`apply`, mbct": lambda: calcli.apply(mbct, table, branched, engine="spark"),
        f"`fit -m boost --sample {SAMPLE}`": lambda: calcli.fit(
            table, method="boost", sample=SAMPLE, output=boost, **fitted
        ),
    }


def timed(works: Mapping[str, Callable[[], object]]) -> Iterator[str]:
    copying = 0.0
    for name, work in works.items():
        processor, wall = processor_seconds(), time.perf_counter()
        work()
        used = processor_seconds() - processor
        copying = used if name == COPY else copying
        ratio = f", {used / copying:.1f} x" if "apply" in name else ""
        yield f"{time.perf_counter() - wall:.0f} s, {used:.0f} s{ratio}"


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
            with spark.session(f"local-cluster[{count},1,{MEMORY}]") as session:
                few = verbs(session, place / "few", place)
                for work in few.values():
                    work()
                print(f"\n| million rows, workers: {count} | {' | '.join(few)} |\n| --: |{' --: |' * len(few)}")
                for size, table in tables.items():
                    print(f"| {size:g} | {' | '.join(timed(verbs(session, table, place)))} |", flush=True)


if __name__ == "__main__":
    main()
