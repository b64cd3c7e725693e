"""Whatever ends a command, what stood in its place stands there, or the whole of the new."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import calcli
from tests.cli.making import calcli as run
from tests.cli.making import environment
from tests.soak.making import CASES
from tests.verbs.conftest import clicks

LOOPS = max(3, CASES // 30)
ENDS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-m", "calcli", *words]
    return subprocess.Popen(command, cwd=folder, env=environment(), stdout=pipe, stderr=pipe)


def took(words: list[str], folder: Path) -> float:
    """Seconds from the start to the end, when nobody interferes."""
    begun = time.monotonic()
    process = started(words, folder)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return time.monotonic() - begun


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table, another, and a calibrator of the first."""
    clicks(20_000).write_parquet(tmp_path / "t.parquet")
    clicks(20_000, seed=1).write_parquet(tmp_path / "u.parquet")
    calcli.fit(tmp_path / "t.parquet", method="platt", output=tmp_path / "a", holdout="none")
    return tmp_path


COMMANDS = {
    "fit": (["fit", "-q", "u.parquet", "-m", "isotonic", "-o", "a"], "a"),
    "apply": (["apply", "-q", "a", "u.parquet", "-o", "out.parquet"], "out.parquet"),
    "report": (["evaluate", "-q", "u.parquet", "--with", "a", "--html", "out.html"], "out.html"),
}


def whole(target: Path) -> bool:
    """Whether it is there as a whole."""
    if target.is_dir():
        return bool(calcli.load(target).predict(clicks(10)).size)
    if target.suffix == ".html":
        return target.read_text().rstrip().endswith("</html>")
    return len(pl.read_parquet(target)) == 20_000


def strangers(place: Path) -> list[str]:
    """Files that no command was asked for."""
    known = {"t.parquet", "u.parquet", "a", "out.parquet", "out.html", "a.lock", ".a.lock"}
    return [path.name for path in place.iterdir() if path.name not in known]


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_time(name: str, place: Path) -> None:
    words, target = COMMANDS[name]
    seconds = took(words, place)
    chance = random.Random(name)
    for loop in range(LOOPS):
        process = started(words, place)
        time.sleep(chance.uniform(0.0, 1.1 * seconds))
        process.send_signal(ENDS[loop % len(ENDS)])
        _, said = process.communicate(timeout=300)
        assert b"Traceback" not in said, said
        assert process.returncode in {0, 130, -signal.SIGKILL, -signal.SIGTERM, 143, -signal.SIGINT}
        assert whole(place / target), f"loop {loop}"
    took(words, place)
    assert whole(place / target)
    assert strangers(place) == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 kB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk can be mounted by root only")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_up(place: Path, tiny: Path) -> None:
    rows = place / "t.parquet"
    calcli.fit(clicks(200), method="platt", output=tiny / "a", holdout="none")
    assert run("apply", "-q", str(tiny / "a"), str(rows), "-o", str(tiny / "out.parquet"), cwd=place).returncode == 7
    assert [path.name for path in tiny.iterdir() if path.name != "a"] == []
    (tiny / "filler").write_bytes(b"x" * 235_000)
    done = run("fit", "-q", str(rows), "-m", "isotonic", "-o", str(tiny / "a"), cwd=place)
    assert done.returncode in {0, 7}
    assert done.stderr.count("\n") <= 1
    assert calcli.load(tiny / "a").method == ("isotonic" if done.returncode == 0 else "platt")
    (tiny / "filler").unlink()
    assert run("fit", "-q", str(rows), "-m", "isotonic", "-o", str(tiny / "a"), cwd=place).returncode == 0
    assert calcli.load(tiny / "a").method == "isotonic"
    assert [path.name for path in tiny.iterdir()] == ["a"]


def test_an_input_that_vanishes(place: Path) -> None:
    """Between binding and reading, or while it is read: rows, or one line."""
    words = ["evaluate", "-q", "gone.parquet"]
    (place / "gone.parquet").write_bytes((place / "t.parquet").read_bytes())
    seconds = took(words, place)
    chance = random.Random(0)
    for _ in range(LOOPS):
        (place / "gone.parquet").write_bytes((place / "t.parquet").read_bytes())
        process = started(words, place)
        time.sleep(chance.uniform(0.0, seconds))
        (place / "gone.parquet").unlink()
        _, said = process.communicate(timeout=300)
        assert process.returncode in {0, 3, 7}, said
        assert said.count(b"\n") <= 1
        assert b"Traceback" not in said
