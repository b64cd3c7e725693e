"""Tests that need processes of their own: run as a script, so that the forks start from a small, single-threaded one.

Each function prints what it saw as JSON; an assertion that fails ends the script with a traceback.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from calcli.artifacts import store
from calcli.errors import FileSystemError
from calcli.state import State
from tests.support import artifact_scenarios as scenarios
from tests.support import disk_probe as probe
from tests.support.artifacts import draft, generation, leftovers, put
from tests.support.shell import HANGS


def forked(action: Callable[[], object]) -> int:
    """Start a process that does this and nothing else."""
    child = os.fork()
    if child:
        return child
    try:
        action()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def died_of(child: int) -> int:
    """0 for a good end, else the signal (negative) or the exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kills(root: Path) -> dict[str, dict[str, int]]:
    """Kill a writer at every operation that it does, and look at what is left."""
    os.fsync = lambda handle: None  # a process that is killed loses nothing that it has written
    result = {}
    for scenario in scenarios.ALL:
        template = root / scenario.name / "template" / "deep" / "x.platt"
        scenario.prepare(template)
        template.parent.mkdir(parents=True, exist_ok=True)
        work = root / scenario.name / "work"
        found: Counter[str] = Counter()
        for place in range(_operations(scenario, template, work)):
            directory = _copy(template, work)
            child = forked(lambda: _killed(scenario, directory, place))  # noqa: B023 - done before the next
            assert died_of(child) == -signal.SIGKILL
            generation_seen = scenarios.seen(directory)
            assert generation_seen in (scenario.before, scenario.after), (scenario.name, place, generation_seen)
            found[str(generation_seen)] += 1
            scenarios.heals(directory)
        result[scenario.name] = dict(found)
    return result


def _operations(scenario: scenarios.Scenario, template: Path, work: Path) -> int:
    directory = _copy(template, work)
    number = probe.count(lambda: scenario.act(directory))
    assert scenarios.seen(directory) == scenario.after
    assert leftovers(directory) == set()
    return number


def _copy(template: Path, work: Path) -> Path:
    """A fresh copy, with the parents of the artifact missing when it is missing."""
    shutil.rmtree(work, ignore_errors=True)
    directory = work / "deep" / "x.platt"
    if template.exists():
        shutil.copytree(template, directory)
    return directory


def _killed(scenario: scenarios.Scenario, directory: Path, place: int) -> None:
    def happen(*arguments: Any) -> None:
        probe.write_half(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    with probe.at(place, happen):
        scenario.act(directory)


def writers(root: Path) -> int:
    """Two writers at once, many times: one artifact, with the other's as its previous generation."""
    rounds = 15
    os.fsync = lambda handle: None
    for number in range(rounds):
        directory = root / str(number)
        start = time.monotonic() + 0.02

        def write(seed: int, directory: Path = directory, start: float = start) -> None:
            while time.monotonic() < start:
                pass
            put(directory, seed)

        children = [forked(lambda seed=seed: write(seed)) for seed in (1, 2)]  # type: ignore[misc]
        assert [died_of(child) for child in children] == [0, 0]
        last = generation(directory)
        assert leftovers(directory) == set()
        store.rollback(directory)
        assert {last, generation(directory)} == {1, 2}
    return rounds


def readers(root: Path) -> dict[str, int]:
    """A reader that looks again and again while a writer replaces the artifact, until it has seen several of them."""
    directory, enough = root / "a", root / "enough"
    put(directory, 0)

    def write() -> None:
        seed = 0
        while seed < 50 or not enough.exists():
            seed += 1
            put(directory, seed)

    child = forked(write)
    seen = [0]
    ended: tuple[int, int] = (0, 0)
    while not ended[0]:  # the last read is of what a writer that has ended left
        ended = os.waitpid(child, os.WNOHANG)
        seen.append(generation(directory))
        if len(seen) > 50 and len(set(seen)) >= 5:
            enough.touch()
    assert ended == (child, 0)
    assert seen == sorted(seen)
    return {"reads": len(seen) - 1, "generations": len(set(seen)), "last": seen[-1]}


def locked(root: Path) -> str:
    """A second writer gives up while the first holds the lock, and goes on once that was killed."""
    directory = root / "a"
    put(directory, 1)
    ready, tell = os.pipe()

    def hold(*_: Any) -> None:
        os.write(tell, b"x")
        time.sleep(HANGS)

    def writer() -> None:
        with probe.at(3, hold):
            put(directory, 2)

    child = forked(writer)
    os.close(tell)
    assert os.read(ready, 1) == b"x", "the first writer ended before it held the lock"
    assert generation(directory) == 1
    try:
        store.write(directory, draft(3), {}, timeout=0.1)
        raise AssertionError("two writers at once")
    except FileSystemError as error:
        message = str(error)
    os.kill(child, signal.SIGKILL)
    assert died_of(child) == -signal.SIGKILL
    scenarios.heals(directory)
    return message


def limit(root: Path) -> str:
    """A real limit of the system in the middle of a write: as a disk that is full."""
    directory = root / "deep" / "a"
    old = root / "old"
    put(old, 1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    large = {"state": State(arrays={"a": np.zeros(100_000)})}
    for place in (directory, old):
        try:
            store.write(place, draft(2), large)
            raise AssertionError("wrote beyond the limit")
        except FileSystemError as error:
            message = str(error)
    assert not directory.parent.exists()
    assert generation(old) == 1
    assert leftovers(old) == set()
    scenarios.heals(old)
    return message


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        print(json.dumps(globals()[sys.argv[1]](Path(root))))
