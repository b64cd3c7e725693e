"""A Spark cluster on this machine, tables for it, and comparison of reports."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.samples import clicks
from tests.support.shell import HANGS, ROOT, environment

STARTS = 120
"""Seconds within which what a process logs at its start is there."""

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

    def add_worker(self, place: Path, name: str, driver: Driver) -> None:
        """One more, whose executor takes tasks of the driver from now on."""
        worker = launch_worker(place, name, self.url)
        self.workers.append(worker)

        def ended() -> str | None:
            return ended_with(worker, place / f"{name}.log") or ended_with(driver.process, driver.log)

        wait_until(lambda: in_executors(place / name, "Successfully registered with driver"), ended)

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

    @property
    def said(self) -> str:
        """The messages in a line."""
        return self.stderr.replace("\n", " ")


@dataclass
class Driver:
    """A process with a Spark session; see `spark_driver`."""

    process: subprocess.Popen[str]
    place: Path

    @property
    def log(self) -> Path:
        return self.place / "driver.log"

    def run(self, *words: object, code: int = 0) -> Done:
        """How a command ends: with this exit code, and never with a traceback."""
        self.begin(words=[*map(str, words)])
        done = Done(**self.answer())
        assert done.code == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def report(self, *words: object, code: int = 0) -> dict[str, Any]:
        """The report of a command on the cluster."""
        done = self.run(*words, "--format", "json", "--engine", "spark", code=code)
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def begin(self, **what: Any) -> None:
        """Ask for something."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what | {"answer": str(self.place / "answer")}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Wait for what has come of it."""
        assert self.process.stdout is not None
        if not self.answers(within=HANGS):
            self.process.kill()  # what comes after it would get this answer
        line = self.process.stdout.readline()
        assert line == "answered\n", self.log.read_text(errors="replace")
        found: dict[str, Any] = json.loads((self.place / "answer").read_text())
        return found

    def answers(self, within: float) -> bool:
        """Whether it has answered, or ended, after so many seconds."""
        return bool(select.select([self.process.stdout], [], [], within)[0])

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for something that the command does before it answers."""
        wait_until(true, lambda: "the driver has answered before that" if self.answers(within=0) else None)


@contextmanager
def started(place: Path, master: str, **variables: str) -> Iterator[Driver]:
    """A driver, with variables of its environment."""
    with (place / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_driver", master],
            cwd=ROOT,
            env=environment(SPARK_LOCAL_IP=HOST, **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:  # that its input ends ends it
        yield Driver(process, place)


def in_executors(worker: Path, text: str) -> bool:
    """Whether an executor of a worker has logged it."""
    return any(text in log.read_text(errors="replace") for log in worker.glob("*/*/stderr"))


def launch_worker(place: Path, name: str, url: str) -> subprocess.Popen[bytes]:
    asked = ("--cores", "1", "--memory", "1g", "--host", HOST, "--work-dir", str(place / name), "--webui-port", "0")
    return launch(place, name, "org.apache.spark.deploy.worker.Worker", *asked, url)


def launch(place: Path, name: str, program: str, *arguments: str, memory: str = "256m") -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    env = environment(
        SPARK_HOME=str(home), SPARK_LOCAL_IP=HOST, PYSPARK_PYTHON=sys.executable, SPARK_DAEMON_MEMORY=memory
    )
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), program, *arguments],
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(log: Path, text: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has logged it."""
    wait_until(lambda: text in log.read_text(errors="replace"), lambda: ended_with(process, log))


def ended_with(process: subprocess.Popen[Any], log: Path) -> str | None:
    """What a process that has ended has logged."""
    return None if process.poll() is None else f"it has ended: {log.read_text(errors='replace')}"


def wait_until(true: Callable[[], bool], never: Callable[[], str | None]) -> None:
    """Wait until it is true; fail where there is a reason for it to be so `never`."""
    until = time.monotonic() + STARTS
    while True:
        why = never()  # asked first: what comes true and then ends has come true
        if true():
            return
        assert why is None, why
        assert time.monotonic() < until, f"it has not come true in {STARTS} s"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])
