"""A machine that loses its power loses more than a process that is killed.

What was written and not synced may be gone, and names may have reached the disk in any choice. A model of such a disk
follows a writer, and is cut off at every operation.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

from tests.support import artifact_scenarios as scenarios
from tests.support import disk_probe as probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks up open files in /proc")


class Disk:
    """One directory: what is surely on the disk, and the changes of names since it was last synced."""

    def __init__(self, directory: Path) -> None:
        self.directory = str(directory)
        there = sorted(directory.iterdir()) if directory.exists() else []
        self.files = [bytearray(path.read_bytes()) for path in there]  # by number; names point to numbers
        self.synced = set(range(len(there)))
        self.names = {path.name: number for number, path in enumerate(there)}  # as a process sees them
        self.durable = dict(self.names)
        self.pending: list[tuple[str, int | None]] = []
        self.crashes: list[dict[str, bytes]] = []
        self.random = random.Random(0)

    def before(self, operation, arguments):
        """Lose the power a few times ahead of this operation; then follow it."""
        for chance in (0.0, 1.0, 0.5, 0.5, 0.5):
            self.crashes.append(self._after_power_loss(chance))
        if operation == "open" and self._name(arguments[0]) not in self.names:
            self.files.append(bytearray())
            self._point(self._name(arguments[0]), len(self.files) - 1)
        elif operation == "open" and arguments[1] & os.O_TRUNC:
            raise AssertionError("a file is overwritten in place")
        elif operation == "write":
            number = self.names[self._name(_path(arguments[0]))]
            self.files[number] += arguments[1]
            self.synced.discard(number)
        elif operation == "fsync" and _path(arguments[0]) == self.directory:
            self.durable, self.pending = dict(self.names), []
        elif operation == "fsync" and _path(arguments[0]).startswith(self.directory + "/"):
            self.synced.add(self.names[self._name(_path(arguments[0]))])
        elif operation == "replace":
            source = self._name(arguments[0])
            self._point(self._name(arguments[1]), self.names[source])
            self._point(source, None)
        elif operation == "unlink":
            self._point(self._name(arguments[0]), None)

    def _name(self, path):
        assert str(Path(path).parent) == self.directory
        return Path(path).name

    def _point(self, name, number):
        self.pending.append((name, number))
        self.names[name] = number
        if number is None:
            del self.names[name]

    def _after_power_loss(self, chance):
        names = dict(self.durable)
        for name, number in self.pending:
            if self.random.random() < chance:
                names[name] = number
        content = {name: bytes(self.files[number]) for name, number in names.items() if number in self.synced}
        return content | {
            name: b"" for name, number in names.items() if number is not None and number not in self.synced
        }


def _path(handle):
    return str(Path(f"/proc/self/fd/{handle}").readlink())


@pytest.mark.slow
@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_the_old_or_the_new_survives_whole(scenario, tmp_path):
    directory = tmp_path.resolve() / "x.platt"
    scenario.prepare(directory)
    disk = Disk(directory)
    with probe.probed(disk.before, sync=False):
        scenario.act(directory)
    survivors = set()
    different = {tuple(sorted(crash.items())) for crash in disk.crashes}
    assert len(different) > 5
    for number, crash in enumerate(sorted(different)):
        place = tmp_path / str(number)
        place.mkdir()
        for name, content in crash:
            (place / name).write_bytes(content)
        survivors.add(scenarios.seen(place))
        with probe.probed(lambda *_: None, sync=False):
            scenarios.heals(place)
    assert survivors == {scenario.before, scenario.after}


def test_what_is_reported_as_written_survives(tmp_path):
    """After `write` has returned, losing everything that was not synced loses nothing."""
    for scenario in scenarios.ALL:
        directory = tmp_path.resolve() / scenario.name
        scenario.prepare(directory)
        disk = Disk(directory)
        with probe.probed(disk.before, sync=False):
            scenario.act(directory)
        disk.before("end", ())
        last = tmp_path / f"after {scenario.name}"
        last.mkdir()
        for name, content in disk.crashes[-5].items():  # the one that lost all it could
            (last / name).write_bytes(content)
        assert scenarios.seen(last) == scenario.after
