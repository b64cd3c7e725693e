"""Whatever ends a command, what stood in its place stands there, or the whole of the new."""

from __future__ import annotations

import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import calcli
from calcli.artifacts import store
from tests.support.damage import CASES, listing
from tests.support.samples import clicks
from tests.support.shell import HANGS, environment
from tests.support.shell import calcli as run

pytestmark = pytest.mark.slow

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
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 0, said
    return time.monotonic() - begun


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A table, another, and a calibrator of the first before its scores moved, so that a refit replaces it."""
    clicks(20_000).write_parquet(tmp_path / "t.parquet")
    clicks(20_000, seed=1).write_parquet(tmp_path / "u.parquet")
    calcli.fit(moved(20_000), method="platt", output=tmp_path / "a", holdout="0.2")
    return tmp_path


def moved(rows: int) -> pl.DataFrame:
    return clicks(rows).with_columns(pl.col("logit") + 8.0)


def in_place_again(name: str, place: Path) -> None:
    """Undo a refit, which replaces nothing twice."""
    if name == "refit":
        shutil.rmtree(place / "a")
        calcli.fit(moved(20_000), method="platt", output=place / "a", holdout="0.2")


TRAINED = ["-q", "u.parquet", "--ignore", "logit", "--members", "3", "--trees", "40", "--depth", "3"]
COMMANDS = {
    "fit": (["fit", "-q", "u.parquet", "-m", "isotonic"], "-o", "a"),
    "refit": (["refit", "-q"], "a", "u.parquet"),
    "select": (["compare", "-q", "u.parquet", "--methods", "platt,isotonic"], "--select", "a"),
    "ensemble": (["uncertainty", "fit", *TRAINED], "-o", "e"),
    "apply": (["apply", "-q", "a", "u.parquet"], "-o", "out.parquet"),
    "report": (["evaluate", "-q", "u.parquet", "--with", "a"], "--html", "out.html"),
    "picture": (["diagram", "-q", "u.parquet", "--with", "a"], "-o", "out.png"),
}
"""Name to the words of a command; those that name its target are the last."""


def words_of(name: str, folder: str = "") -> tuple[list[str], str]:
    """A command and its target, in another folder perhaps."""
    first, *last = COMMANDS[name]
    target = next(word for word in last if not word.startswith("-") and word != "u.parquet")
    return [*first, *(folder + word if word == target else word for word in last)], folder + target


def whole(target: Path) -> bool:
    """Whether it is there as a whole."""
    if target.name == "e":
        return bool(calcli.load_ensemble(target).predict(clicks(10)).total.size)
    if target.is_dir():
        return bool(calcli.load(target).predict(clicks(10)).size)
    if target.suffix == ".html":
        return target.read_text().rstrip().endswith("</html>")
    if target.suffix == ".png":
        return target.read_bytes().endswith(b"IEND\xaeB`\x82")
    return len(pl.read_parquet(target)) == 20_000


def strangers(place: Path) -> list[str]:
    """Files that no command was asked for."""
    known = {"t.parquet", "u.parquet", "a", "e", "out.parquet", "out.html", "out.png"}
    return [path.name for path in place.iterdir() if path.name not in known]


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_time(name: str, place: Path) -> None:
    words, target = words_of(name)
    seconds = took(words, place)
    first = payloads(place / target)
    chance = random.Random(name)
    for loop in range(LOOPS):
        in_place_again(name, place)
        process = started(words, place)
        time.sleep(chance.uniform(0.0, 1.1 * seconds))
        process.send_signal(ENDS[loop % len(ENDS)])
        _, said = process.communicate(timeout=HANGS)
        assert b"Traceback" not in said or not_ours(said), said
        assert process.returncode in {0, 1, 130, -signal.SIGKILL, -signal.SIGTERM, 143, -signal.SIGINT}
        assert whole(place / target), f"loop {loop}"
    in_place_again(name, place)
    took(words, place)
    assert whole(place / target)
    assert payloads(place / target) == first, "what was interrupted ended as something else"
    assert strangers(place) == []


def not_ours(said: bytes) -> bool:
    """Whether Python itself was interrupted, on its way to the first line of `main`."""
    within = re.search(rb'cli/main\.py", line \d+, in (?!<module>)', said)
    return b"KeyboardInterrupt" in said and within is None


def payloads(target: Path) -> list[str]:
    """The names of what an artifact holds, which follow from its content; none of a file."""
    return [one.name for one in store.describe(target).payloads] if target.is_dir() else []


@pytest.mark.parametrize("name", COMMANDS)
def test_two_at_once(name: str, place: Path) -> None:
    """The same command twice at the same time, on the same target: one whole result, and nothing beside it."""
    words, target = words_of(name)
    for loop in range(max(1, LOOPS // 3)):
        in_place_again(name, place)
        both = [started(words, place) for _ in range(2)]
        for process in both:
            _, said = process.communicate(timeout=HANGS)
            assert b"Traceback" not in said, said
            assert process.returncode in {0, {"ensemble": 7, "refit": 1}.get(name)}, said  # it came second
        assert 0 in {process.returncode for process in both}
        assert whole(place / target), f"loop {loop}"
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


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full_or_read_only(name: str, place: Path, tiny: Path) -> None:
    """One line, exit code 7, and nothing on the disk has changed."""
    words, _ = words_of(name, f"{tiny}/")
    if name == "refit":
        calcli.fit(moved(2_000), method="platt", output=tiny / "a", holdout="0.2")
    fill(tiny)
    before = listing(tiny)
    for how in ("rw", "ro"):
        subprocess.run(["mount", "-o", f"remount,{how}", str(tiny)], check=True)
        done = run(*words, cwd=place)
        assert done.returncode == 7, done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert before == listing(tiny)


def fill(disk: Path) -> None:
    """Leave no room at all."""
    with suppress(OSError), (disk / "filler").open("wb", buffering=0) as file:
        while file.write(b"x" * 4_096):
            pass


def test_an_export_into_a_full_disk(place: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = run("export", "a", cwd=place, stdout=full)
    assert done.returncode == 7
    assert done.stderr.count("\n") == 1


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
        _, said = process.communicate(timeout=HANGS)
        assert process.returncode in {0, 3, 7}, said
        assert said.count(b"\n") <= 1
        assert b"Traceback" not in said
