"""A standalone Spark cluster on this machine: a master and two workers, each a process that can be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.shell import ROOT, environment
from tests.support.spark import HOST, Cluster, Driver, free_port, launch, launch_worker, wait_for


@pytest.fixture(scope="session")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    place = tmp_path_factory.mktemp("driver")
    with (place / "driver.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.spark_driver", cluster.url],
            cwd=ROOT,
            env=environment(SPARK_LOCAL_IP=HOST),
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
