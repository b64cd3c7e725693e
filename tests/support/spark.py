"""A Spark cluster on this machine, tables for it, and comparison of reports."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.samples import clicks
from tests.support.shell import HANGS, environment

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def parts() -> list[tuple[str, pl.DataFrame]]:
    """Two tables for each day, with row numbers that go on."""
    return [
        (day, clicks(1000, seed=2 * place + part).with_columns(row_id=pl.col("row_id") + 1000 * (2 * place + part)))
        for place, day in enumerate(DAYS)
        for part in range(2)
    ]


def write_days(folder: Path) -> Path:
    """A directory of days, two files each."""
    for place, (day, frame) in enumerate(parts()):
        path = folder / f"day={day}"
        path.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path / f"{place}.parquet")
    return folder


def ordered(path: Path) -> pl.DataFrame:
    """What was written, in an order of its own; the days as texts."""
    found = pl.read_parquet(path / "**/*.parquet" if path.is_dir() else path, hive_partitioning=True)
    found = found.with_columns(pl.col("day").cast(pl.String))
    return found.select(sorted(found.columns)).sort("row_id")


def assert_near(found: Any, expected: Any, **near: float) -> None:
    """Of values within values: the same words, and numbers that are near."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_near(found[key], value, **near)
    elif isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, **near)
    else:
        assert found == (pytest.approx(expected, **near) if isinstance(expected, float) else expected)


def assert_same_numbers(found: dict[str, Any], report: dict[str, Any]) -> None:
    """What a report from sums has that all rows at once give; of a histogram, as near as it says."""
    for theirs, ours in zip(found["scores"], report["scores"], strict=True):
        assert theirs["name"] == ours["name"]
        for name, value in ours["metrics"].items():
            definition, near = found["definitions"][name], 1e-9
            if (definition["approximation"] or "").startswith("histogram"):
                near += float(definition["approximation"].rpartition(" ")[2])
                definition = definition | {"approximation": report["definitions"][name]["approximation"]}
            assert definition == report["definitions"][name]
            assert_near(theirs["metrics"][name]["value"], value["value"], abs=near)
            assert_near(theirs["metrics"][name]["floor"], value["floor"], abs=1e-9)
            assert_near(theirs["metrics"][name]["per_class"], value["per_class"], abs=near)
    for theirs, ours in zip(found["differences"], report["differences"], strict=True):
        if theirs["metric"] in {"nll", "brier"}:
            assert_near(theirs, ours, abs=1e-9)
    assert_near(found["curves"], report["curves"], abs=1e-9)
    for fact in ("rows", "rows_bad", "weight_sum", "label_rate"):
        assert_near(found["data"][fact], report["data"][fact], rel=1e-12)


HOST = "127.0.0.1"


@dataclass
class Cluster:
    url: str
    workers: list[subprocess.Popen[bytes]]

    def add_worker(self, place: Path, name: str) -> None:
        """One more, whose executor takes tasks from now on."""
        self.workers.append(launch_worker(place, name, self.url))
        until = time.monotonic() + HANGS
        while not any("Successfully registered with driver" in log.read_text() for log in executors(place / name)):
            assert time.monotonic() < until, (place / f"{name}.log").read_text()
            time.sleep(0.2)

    def kill_worker(self) -> None:
        """As a power cut would: with all its executors and their Python."""
        worker = self.workers.pop()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()


@dataclass
class Done:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


@dataclass
class Driver:
    """A process with a Spark session; see `spark_driver`."""

    process: subprocess.Popen[str]
    place: Path

    def run(self, *words: str) -> Done:
        """How a command ends."""
        self.begin(words=list(words))
        return Done(**self.answer())

    def begin(self, **what: Any) -> None:
        """Ask for something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what | {"answer": str(self.place / "answer")}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for what has come of it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "answered\n", (self.place / "driver.log").read_text()
        found: dict[str, Any] = json.loads((self.place / "answer").read_text())
        return found


def executors(worker: Path) -> list[Path]:
    """The logs of a worker's executors."""
    return list(worker.glob("*/*/stderr"))


def launch_worker(place: Path, name: str, url: str) -> subprocess.Popen[bytes]:
    asked = ("--cores", "1", "--memory", "1g", "--host", HOST, "--work-dir", str(place / name), "--webui-port", "0")
    return launch(place, name, "org.apache.spark.deploy.worker.Worker", *asked, url)


def launch(place: Path, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    env = environment(
        SPARK_HOME=str(home), SPARK_LOCAL_IP=HOST, PYSPARK_PYTHON=sys.executable, SPARK_DAEMON_MEMORY="256m"
    )
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), program, *arguments],
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(log: Path, text: str) -> None:
    until = time.monotonic() + HANGS
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])
