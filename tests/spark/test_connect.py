"""Verbs over Spark Connect, where this process has no Java."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import calcli
from tests.support.spark import HOST, Driver, free_port, launch, ordered, started, wait_for

pytest.importorskip("pyspark", reason="needs the extra spark")
pytest.importorskip("grpc_status", reason="needs pyspark[connect]")

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture(scope="module")
def connected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    place, port = tmp_path_factory.mktemp("connect"), free_port()
    setting = f"spark.connect.grpc.binding.port={port}"
    words = ("--master", "local[2]", "--class", SERVER, "--conf", setting, "spark-internal")
    server = launch(place, "server", "org.apache.spark.deploy.SparkSubmit", *words, memory="1g")
    try:
        wait_for(place / "server.log", "Spark Connect server started", server)
        with started(place, f"sc://{HOST}:{port}") as found:
            yield found
    finally:
        server.kill()
        server.wait()


def test_the_verbs_over_connect(connected: Driver, days: Path, tmp_path: Path) -> None:
    kept, here, there = (tmp_path / name for name in ("kept", "here.parquet", "there"))
    connected.run("fit", days, "-m", "platt", "--holdout", "none", "-o", kept, "--engine", "spark")
    expected = calcli.fit(days, method="platt", holdout="none", output=tmp_path / "local").model.calibrator.state
    state = calcli.load(kept).calibrator.state
    assert state.number("a") == pytest.approx(expected.number("a"), rel=1e-9)
    # By a formula, and by Python on the workers.
    calcli.apply(kept, days, here)
    for more in ((), ("--extra",)):
        place = there.with_name(f"there{len(more)}")
        connected.run("apply", kept, days, "-o", place, *more, "--engine", "spark")
        np.testing.assert_allclose(ordered(place)["calibrated"], ordered(here)["calibrated"], rtol=0, atol=1e-12)
    found = connected.report("evaluate", days, "--with", kept, "--metrics", "nll")
    report = calcli.evaluate(days, artifacts=(str(kept),), metrics="nll")
    assert found["differences"][0]["value"] == pytest.approx(report.differences[0].value, rel=1e-9)
