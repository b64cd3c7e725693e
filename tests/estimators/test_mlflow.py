"""The page about MLflow: its code and its commands, with a server on this machine."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

import calcli
from tests.support.shell import HANGS, ROOT, blocks, commands, environment, readers_folder, run, soon

PAGE = (ROOT / "docs" / "mlflow.md").read_text()


@contextmanager
def serving(command: str, place: Path, env: Mapping[str, str]) -> Iterator[str]:
    """The address of a server, once it answers; a free port takes the place of the one that ends the command."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [*shlex.split(command)[:-1], str(port), "--workers", "1"]
    log = place / f"{port}.log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=place, env=env, stdout=output, stderr=output, start_new_session=True
        )
    try:
        assert soon(lambda: _listens(port), server), log.read_text()
        yield f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def _listens(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@pytest.mark.oracle
@pytest.mark.slow
def test_a_calibrator_is_logged_loaded_and_served(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    pytest.importorskip("flask", reason="this mlflow has no server")
    place = readers_folder(tmp_path)
    module, *scripts = blocks(PAGE, "python")
    (place / "calibrated.py").write_text(module)
    (place / "page.py").write_text("\n".join(scripts))
    server, scorer, question = commands(PAGE)
    env = environment(PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    with ExitStack() as stack:
        env["MLFLOW_TRACKING_URI"] = stack.enter_context(serving(server, place, env))
        script = subprocess.run(
            [sys.executable, "page.py"], cwd=place, env=env, capture_output=True, text=True, check=False, timeout=HANGS
        )
        assert script.returncode == 0, script.stderr
        assert {path.name for path in (place / "mlartifacts").rglob("*.platt")} == {"clicks.platt"}
        address = stack.enter_context(serving(scorer, place, env))
        answer = run(question.replace("http://127.0.0.1:5001", address), place)
    sent = json.loads(shlex.split(question)[-1])["dataframe_records"]
    expected = calcli.Calibrator.load(place / "clicks.platt").predict_proba([row["logit"] for row in sent])[:, 1]
    assert json.loads(answer.stdout)["predictions"] == pytest.approx(expected)
