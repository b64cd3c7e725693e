"""A standalone Spark cluster on this machine: a master and two workers, each a process that can be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

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
