"""Generations of an artifact: written, read, rolled back, swept."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from calcli import files
from calcli.artifacts import store
from calcli.errors import ArtifactError, FileSystemError
from calcli.state import State
from tests.support.artifacts import contents, draft, generation, leftovers, put, same, side, state
from tests.support.shell import HANGS


def test_what_was_written_is_read(tmp_path):
    directory = tmp_path / "not" / "yet" / "there"
    written = store.write(directory, draft(7), {"state": state(7)})
    artifact = store.read(str(directory))
    assert artifact.manifest == written == store.describe(directory)
    assert replace(written, payloads=(), previous=None) == draft(7)
    assert written.previous is None
    assert same(artifact.state, state(7))
    assert artifact.path == directory
    assert artifact.sha256 == hashlib.sha256((directory / "manifest.json").read_bytes()).hexdigest()
    assert store.exists(directory)


def test_the_same_fit_has_the_same_bytes(tmp_path):
    one, other = state(1), state(1)
    other = State(
        dict(reversed(other.params.items())), dict(reversed(other.arrays.items())), dict(reversed(other.blobs.items()))
    )
    store.write(tmp_path / "a", draft(), {"state": one, "edges": side()})
    store.write(tmp_path / "b", draft(), {"edges": side(), "state": other})
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_generations_follow_one_another(tmp_path):
    for seed in (1, 2, 3):
        before = (tmp_path / "manifest.json").read_bytes() if seed > 1 else None
        manifest = put(tmp_path, seed)
        assert generation(tmp_path) == seed
        assert leftovers(tmp_path) == set()
        assert manifest.previous == (before and f"manifest-{hashlib.sha256(before).hexdigest()}.json")
    assert {path.name for path in tmp_path.iterdir() if path.suffix == ".parquet"} == {
        f"edges-{hashlib.sha256(bytes([seed])).hexdigest()}.parquet" for seed in (2, 3)
    }


def test_a_rollback_goes_back_and_forth(tmp_path):
    put(tmp_path, 1)
    put(tmp_path, 2)
    assert store.rollback(tmp_path).seed == 1
    assert generation(tmp_path) == 1
    assert leftovers(tmp_path) == set()
    assert store.rollback(tmp_path).seed == 2
    assert generation(tmp_path) == 2
    put(tmp_path, 3)
    assert store.rollback(tmp_path).seed == 2


def test_a_rollback_needs_a_previous_generation_and_makes_none(tmp_path):
    for name, words in (("", "holds no manifest"), ("a", "there is no artifact")):
        with pytest.raises(ArtifactError, match=words):
            store.rollback(tmp_path / name)
    assert list(tmp_path.iterdir()) == []
    put(tmp_path, 1)
    before = contents(tmp_path)
    with pytest.raises(ArtifactError, match="no previous version"):
        store.rollback(tmp_path)
    assert contents(tmp_path) == before


def test_a_rollback_to_what_is_damaged_is_refused(tmp_path):
    name = put(tmp_path, 1).payloads[0].name
    put(tmp_path, 2)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ArtifactError, match=name):
        store.rollback(tmp_path)
    assert generation(tmp_path) == 2
    (tmp_path / name).unlink()
    with pytest.raises(ArtifactError, match="missing from the previous"):
        store.rollback(tmp_path)
    assert generation(tmp_path) == 2


def test_a_rollback_without_the_previous_manifest_is_refused(tmp_path):
    put(tmp_path, 1)
    previous = tmp_path / str(put(tmp_path, 2).previous)
    previous.write_bytes(previous.read_bytes().replace(b"auto", b"mbct"))
    with pytest.raises(ArtifactError, match="sha256"):
        store.rollback(tmp_path)
    previous.unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        store.rollback(tmp_path)
    assert generation(tmp_path) == 2


def test_a_rollback_leaves_a_damaged_generation(tmp_path):
    put(tmp_path, 1)
    name = put(tmp_path, 2).payloads[0].name
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(ArtifactError, match=f"calcli refit {tmp_path} --rollback$"):
        store.read(tmp_path)
    store.rollback(tmp_path)
    assert generation(tmp_path) == 1


def test_a_damaged_payload_is_written_anew(tmp_path):
    manifest = put(tmp_path, 1)
    for payload in manifest.payloads:
        (tmp_path / payload.name).write_bytes(b"x" * payload.bytes)
    put(tmp_path, 1)
    assert generation(tmp_path) == 1


def test_sides_get_the_names_of_their_payloads(tmp_path):
    content = b"a,b\n"
    sides = (
        {"role": "edges", "name": "edges.csv", "sha256": hashlib.sha256(content).hexdigest()},
        {"role": "partition-data", "name": "rows.parquet", "sha256": "0" * 64, "payload": "an old name"},
        {"role": "model", "name": "model.cbm", "sha256": "1" * 64, "payload": "an old name"},
    )
    kept = {
        "state": State(),
        "edges": State(blobs={"other.csv": b"", "edges.csv": content}),
        "partition-data": State(arrays=state().arrays),
    }
    found = store.write(tmp_path, draft(sides=sides), kept).sides
    assert found[0]["payload"] == f"edges-{found[0]['sha256']}.csv"
    assert str(found[1]["payload"]).startswith("partition-data-")
    assert str(found[1]["payload"]).endswith(".json")
    assert found[2]["payload"] is None


def test_an_artifact_may_keep_no_calibrator(tmp_path):
    store.write(tmp_path, draft(), {})
    with pytest.raises(ArtifactError, match="holds no calibrator"):
        _ = store.read(tmp_path).state


def test_files_have_the_rights_of_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        put(tmp_path / "a", 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o750
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a").iterdir()} == {0o640}


@pytest.mark.parametrize("name", ["train.csv", ".git", "model.json", "state-1.npz", "manifest-1.json"])
def test_a_directory_with_something_else_in_it_is_left_alone(tmp_path, name):
    (tmp_path / name).write_bytes(b"mine")
    for attempt in (store.check_target, lambda directory: put(directory, 1)):
        with pytest.raises(FileSystemError, match=f"it contains '{name}'"):
            attempt(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


OTHERS = (b'{"manifest_version": 3}', b"[]", b"", b"not json", b'{"schema": "other/1"}')
OURS = (b'{"schema": "calcli.artifact/2", "calcli": "9.0"}', b'{"schema": "calcli.artifact/1", "calcli": "9.0"}')


@pytest.mark.parametrize("content", [*OTHERS, *OURS])
def test_a_manifest_of_something_else_or_newer_or_damaged_is_left_alone(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    error, words = (FileSystemError, "not calcli's") if content in OTHERS else (ArtifactError, "cannot be replaced")
    with pytest.raises(error, match=words):
        put(tmp_path, 1)
    assert contents(tmp_path) == {"manifest.json": content}


def test_a_note_in_an_artifact_is_kept_and_a_directory_with_our_name_is_not_ours(tmp_path):
    put(tmp_path / "a", 1)
    (tmp_path / "a" / "README.md").write_text("ours")
    put(tmp_path / "a", 2)
    put(tmp_path / "a", 3)
    assert (tmp_path / "a" / "README.md").read_text() == "ours"
    (tmp_path / "b" / f"state-{'0' * 64}.json").mkdir(parents=True)
    with pytest.raises(FileSystemError, match="it contains"):
        put(tmp_path / "b", 1)


@pytest.mark.parametrize(
    "make", [lambda path: path.write_text("x"), lambda path: path.symlink_to("nowhere"), os.mkfifo]
)
def test_something_that_is_no_directory_is_in_the_way(tmp_path, make):
    make(tmp_path / "a")
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(FileSystemError, match=r"not a directory|cannot write"):
            put(path, 1)
        with pytest.raises(FileSystemError, match=r"not a directory|cannot write"):
            store.check_target(path)


@pytest.mark.parametrize("name", ["manifest.json", ".lock"])
def test_a_link_in_place_of_our_files_is_not_followed(tmp_path, name):
    (tmp_path / "elsewhere").write_text("theirs")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileSystemError):
        put(tmp_path / "a", 1)
    assert (tmp_path / "elsewhere").read_text() == "theirs"


def test_a_link_to_an_artifact_is_an_artifact(tmp_path):
    put(tmp_path / "2026-01-31", 1)
    (tmp_path / "current").symlink_to("2026-01-31")
    assert generation(tmp_path / "current") == 1
    put(tmp_path / "current", 2)
    assert generation(tmp_path / "2026-01-31") == 2


def test_relative_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put("a/b", 1)
    assert generation("a/b") == 1
    (tmp_path / "c").mkdir()
    monkeypatch.chdir(tmp_path / "c")
    put(".", 2)
    assert generation(tmp_path / "c") == 2


def test_a_lock_that_is_a_link_is_named(tmp_path):
    put(tmp_path / "a", 1)
    (tmp_path / "a" / ".lock").unlink()
    (tmp_path / "a" / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileSystemError, match=r"\.lock is a symbolic link, which no lock may be; remove it"):
        put(tmp_path / "a", 2)
    assert not (tmp_path / "elsewhere").exists()


def test_a_working_directory_that_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for use in (lambda: store.check_target("a"), lambda: put(Path("a"), 1)):
        with pytest.raises(FileSystemError, match="cannot write a: the working directory has been deleted; change to"):
            use()


def test_a_file_system_that_is_read_only_is_named_before_the_fit(tmp_path, monkeypatch):
    """The words are those that the write itself would have."""
    real = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for flag, reason in ((real.f_flag | os.ST_RDONLY, "Read-only file system"), (0, "Permission denied")):
        monkeypatch.setattr(os, "statvfs", lambda _, flag=flag: os.statvfs_result((*real[:8], flag, real[9])))
        with pytest.raises(FileSystemError, match=reason):
            store.check_target(tmp_path / "a")


def test_where_no_artifact_is(tmp_path):
    put(tmp_path / "train.mbct", 1)
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, words in [
        ("train.mbtc", "there is no artifact .*train.mbtc; did you mean .*train.mbct"),
        ("quite/another", "there is no artifact"),
        ("file", "is a file; an artifact is a directory"),
        ("file/below", "there is no artifact"),
        ("empty", "holds no manifest.json"),
    ]:
        assert not store.exists(tmp_path / name)
        for look in (store.read, store.describe, store.rollback):
            with pytest.raises(ArtifactError, match=words):
                look(tmp_path / name)


def test_a_reader_that_two_writers_overtook_reads_the_newest(tmp_path, monkeypatch):
    put(tmp_path, 1)
    real = files.read

    def slow(path, **expected):
        if path.name != "manifest.json":
            monkeypatch.undo()
            put(tmp_path, 2)
            put(tmp_path, 3)
        return real(path, **expected)

    monkeypatch.setattr(files, "read", slow)
    assert generation(tmp_path) == 3


def test_a_reader_that_is_always_overtaken_gives_up(tmp_path, monkeypatch):
    put(tmp_path, 1)
    seeds = iter(range(10**6))
    real = store.generation.manifest_bytes

    def newer(path: Path) -> bytes:
        return real(path).replace(b'"seed": 1', b'"seed": 1' + b"%d" % next(seeds))

    monkeypatch.setattr(store.generation, "manifest_bytes", newer)
    monkeypatch.setattr(store.generation, "load", lambda *_, **__: files.read(tmp_path / "vanished"))
    with pytest.raises(ArtifactError, match="was replaced 100 times"):
        store.read(tmp_path)


def test_a_lock_taken_away_while_a_writer_waits_is_not_taken_for_the_lock(tmp_path, monkeypatch):
    """What a second writer sees when the first fails at its first write."""
    directory = tmp_path / "a"
    waits = threading.Event()
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: (waits.set(), sleep(seconds)))
    outcome = []

    def second_writer():
        try:
            outcome.append(put(directory, 1))
        finally:
            waits.set()  # whatever came of it

    thread = threading.Thread(target=second_writer)
    with files.locked(directory / ".lock", 1, []):
        thread.start()
        assert waits.wait(HANGS)
        (directory / ".lock").unlink()
        directory.rmdir()
    thread.join()
    assert outcome
    assert generation(directory) == 1


def test_what_a_killed_writer_left_is_overwritten_whole(tmp_path):
    put(tmp_path, 1)
    (tmp_path / ".new-manifest.json").write_bytes(b"x" * 100_000)
    put(tmp_path, 2)
    assert generation(tmp_path) == 2
    assert leftovers(tmp_path) == set()


def test_nothing_heavy_is_imported():
    import subprocess
    import sys

    code = "import sys, calcli.artifacts.store; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"polars", "pyarrow", "scipy", "catboost", "pandas", "typer", "rich", "sklearn", "torch"} & set(loaded)
