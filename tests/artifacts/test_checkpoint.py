"""What a killed run leaves behind: found again by the same run, by no other, and gone in the end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from calcli.artifacts.checkpoint import checkpoint
from calcli.artifacts.store import exists
from calcli.errors import CalcliError, FileSystemError
from calcli.tables.paths import find_inputs


class Killed(Exception):
    pass


def run(target: Path, key: str, parts: dict[str, bytes]) -> None:
    with checkpoint(target, key) as kept:
        for name, content in parts.items():
            kept.put(name, content)
        raise Killed


def stopped(target: Path, key: str, **parts: bytes) -> None:
    with pytest.raises(Killed):
        run(target, key, parts)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("key", "found"), [("aa", (b"1", b"2", None)), ("bb", (None, None, None))])
def test_the_same_run_finds_its_parts_another_none_and_each_sweeps_in_the_end(
    tmp_path: Path, key: str, found: tuple[bytes | None, ...]
) -> None:
    stopped(tmp_path / "ens", "aa", one=b"1", two=b"2")
    with checkpoint(tmp_path / "ens", key) as kept:
        assert (kept.get("one"), kept.get("two"), kept.get("three")) == found
        kept.finished = True
    assert names(tmp_path) == []


def test_a_run_that_kept_nothing_leaves_nothing(tmp_path: Path) -> None:
    stopped(tmp_path / "deep" / "ens", "aa")
    assert names(tmp_path) == []


@pytest.mark.parametrize("kept", [{}, {"one": b"1"}])
def test_a_disk_that_fills_up_leaves_no_half_of_a_part(kept: dict[str, bytes], tmp_path: Path) -> None:
    real, before = os.write, set(kept)

    def full(handle: int, data: bytes) -> int:
        if before:
            before.pop()
            return real(handle, data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(FileSystemError, match="free some space"):
            run(tmp_path / "ens", "aa", {**kept, "two": b"2"})
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock"] == [
        f"aa-{name}" for name in kept
    ]


def test_damaged_parts_are_not_taken(tmp_path: Path) -> None:
    stopped(tmp_path / "ens", "aa", one=b"1")
    part = next(path for path in (tmp_path / ".ens.unfinished").iterdir() if path.name.endswith("one"))
    part.write_bytes(part.read_bytes()[:-1] + b"2")
    with checkpoint(tmp_path / "ens", "aa") as kept:
        assert kept.get("one") is None


def test_two_runs_at_one_artifact_are_one_too_many(tmp_path: Path) -> None:
    with (
        checkpoint(tmp_path / "ens", "aa") as kept,
        pytest.raises(FileSystemError, match="another calcli is writing"),
        checkpoint(tmp_path / "ens", "aa"),
    ):
        raise AssertionError(kept)


def test_without_an_artifact_nothing_is_kept() -> None:
    with checkpoint(None, "aa") as kept:
        kept.put("one", b"1")
        assert kept.get("one") is None
        kept.finished = True


def test_no_command_takes_it_for_anything(tmp_path: Path) -> None:
    stopped(tmp_path / "ens", "aa", one=b"1")
    assert not exists(tmp_path / ".ens.unfinished")
    with pytest.raises(CalcliError, match="holds no table"):
        find_inputs(tmp_path, None)
