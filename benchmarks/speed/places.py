"""How many rows `apply` reads from a place and writes to it, beside a local Parquet file, and how much memory it takes.

``python benchmarks/speed/places.py [--rows N]`` writes Markdown. Each command is a process of its own; what is counted
is its processor time, less that of the same command on a hundred rows, so that servers and start-up do not count, and
the most memory that it held. S3 is moto's server, which keeps its objects in memory; PostgreSQL is started for this.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import polars as pl  # noqa: E402

import calcli  # noqa: E402 the package of this checkout
from tests.support.places import databases, s3_server  # noqa: E402

BLOCK = 1_000_000
MEASURED = """
import re, sys, time
from calcli.cli.main import main
code = main(sys.argv[1:])
print(time.process_time(), re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
sys.exit(code)
"""


def write_rows(path: Path, rows: int) -> None:
    """Clicks with an id and two columns that pass by, a block after the other."""

    def block(start: int) -> pl.LazyFrame:
        rng = np.random.default_rng(start)
        size = min(BLOCK, rows - start)
        prob = rng.beta(1, 4, size)
        label = (rng.random(size) < prob**1.3).astype(np.int8)
        return pl.LazyFrame({"id": np.arange(start, start + size), "prob": prob, "label": label, "item": label * 7 + 1})

    parts = [path.with_name(f"part-{start:012}.parquet") for start in range(0, rows, BLOCK)]
    for part, start in zip(parts, range(0, rows, BLOCK), strict=True):
        block(start).sink_parquet(part)
    pl.scan_parquet(parts).sink_parquet(path)
    for part in parts:
        part.unlink()


def used(*words: str) -> tuple[float, float]:
    """The processor time of a command in seconds, and its most memory in MB."""
    command = [sys.executable, "-c", MEASURED, *words, "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    seconds, kilobytes = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout.split()
    return float(seconds), float(kilobytes) / 1024


def cells(small: tuple[str, ...], large: tuple[str, ...], rows: int) -> str:
    start, _ = used(*small)
    seconds, memory = used(*large)
    return f"{rows / (seconds - start) / 1e6:.2f} | {memory:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--only", help="a place: local, s3, postgresql, sqlite or duckdb; all by default")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        here = Path(name)
        write_rows(here / "many.parquet", given.rows)
        write_rows(here / "few.parquet", 100)
        calcli.fit(here / "few.parquet", method="platt", output=here / "kept", holdout="none", metrics="nll")
        os.environ |= {
            "AWS_ENDPOINT_URL": stack.enter_context(s3_server()),
            "AWS_ACCESS_KEY_ID": "nobody",
            "AWS_SECRET_ACCESS_KEY": "nothing",
            "AWS_REGION": "us-east-1",
        }
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        import boto3

        boto3.client("s3").create_bucket(Bucket="bucket")
        places: dict[str, tuple[str, ...]] = {"local": (str(here),), "s3": ("s3://bucket",)}
        for scheme in ("postgresql", "sqlite", "duckdb"):
            places[scheme] = (databases(stack, here, scheme), "--table")
        print(f"{given.rows:,} rows\n")
        print("| place | write: million rows a second | MB | read: million rows a second | MB |\n|" + " --- |" * 5)
        for place, (url, *table) in places.items():
            if given.only not in (None, place):
                continue

            def at(size: str, url: str = url, table: list[str] = table) -> tuple[str, ...]:
                return (url, *table, f"{size}_scored") if table else (f"{url}/{size}-scored.parquet",)

            apply = ("apply", str(here / "kept"))
            writing = [(*apply, str(here / f"{size}.parquet"), "-o", *at(size)) for size in ("few", "many")]
            reading = [
                (*apply, *at(size), "-o", str(here / "read.parquet"), "--column", "again", "--prob", "prob")
                for size in ("few", "many")
            ]
            print(f"| {place} | {cells(*writing, given.rows)} | {cells(*reading, given.rows)} |", flush=True)


if __name__ == "__main__":
    main()
