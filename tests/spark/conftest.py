"""A standalone Spark cluster on this machine: a master and two workers, each a process that can be killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.shell import ROOT

HOST = "127.0.0.1"


@dataclass
class Cluster:
    url: str
    workers: list[subprocess.Popen[bytes]]

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
    """A process with a Spark session; see driver.py."""

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


@pytest.fixture(scope="session")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    place = tmp_path_factory.mktemp("driver")
    with (place / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.driver", cluster.url],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": HOST},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    with process:  # that its input ends ends it
        yield Driver(process, place)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("spark")
    port, page = free_port(), free_port()
    name = "org.apache.spark.deploy.master.Master"
    master = launch(place, "master", name, "--host", HOST, "--port", str(port), "--webui-port", str(page))
    found = Cluster(f"spark://{HOST}:{port}", [])
    try:
        wait_for(place / "master.log", "I have been elected leader")
        found.workers += [launch_worker(place, f"worker{index}", found.url) for index in range(2)]
        for index in range(2):
            wait_for(place / f"worker{index}.log", "Successfully registered with master")
        yield found
    finally:
        for process in [*found.workers, master]:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def launch_worker(place: Path, name: str, url: str) -> subprocess.Popen[bytes]:
    asked = ("--cores", "1", "--memory", "1g", "--host", HOST, "--work-dir", str(place / name), "--webui-port", "0")
    return launch(place, name, "org.apache.spark.deploy.worker.Worker", *asked, url)


def launch(place: Path, name: str, program: str, *arguments: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": HOST,
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    with (place / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), program, *arguments],
            env=env,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(log: Path, text: str, seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while text not in log.read_text(errors="replace"):
        assert time.monotonic() < until, log.read_text(errors="replace")
        time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as one:
        one.bind((HOST, 0))
        return int(one.getsockname()[1])
