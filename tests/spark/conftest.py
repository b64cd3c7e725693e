"""A standalone Spark cluster on this machine: a master and two workers, each a process that can be killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark import HOST, Cluster, Driver, launch, launch_worker, started, wait_for, write_days


@pytest.fixture(scope="session")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table in a directory for each day; read only."""
    return write_days(tmp_path_factory.mktemp("table") / "days")


@pytest.fixture(scope="session")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with started(tmp_path_factory.mktemp("driver"), cluster.url) as found:
        yield found


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """A session of this process, with workers of its own."""
    from calcli.spark.session import spark_session

    with spark_session("local[2]") as found:
        yield found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    place = tmp_path_factory.mktemp("spark")
    name = "org.apache.spark.deploy.master.Master"
    # It takes ports that are free then, and says which: others may have taken what was free before.
    master = launch(place, "master", name, "--host", HOST, "--port", "0", "--webui-port", "0")
    found = Cluster("", [])
    try:
        wait_for(place / "master.log", "I have been elected leader", master)
        found.url = re.findall(r"spark://\S+:\d+", (place / "master.log").read_text())[0]
        found.workers += [launch_worker(place, f"worker{index}", found.url) for index in range(2)]
        for index, worker in enumerate(found.workers):
            wait_for(place / f"worker{index}.log", "Successfully registered with master", worker)
        yield found
    finally:
        for process in [*found.workers, master]:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
