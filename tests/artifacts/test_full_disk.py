"""A disk that is full, read-only or broken, and Ctrl-C, at every operation of every way to change an artifact."""

from __future__ import annotations

import errno
import os

import pytest

from calcli.artifacts import store
from calcli.errors import FileSystemError
from tests.support import artifact_scenarios as scenarios
from tests.support import disk_probe as probe
from tests.support.artifacts import draft, leftovers, put

CODES = [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT]


def operations(scenario, directory):
    scenario.prepare(directory)
    return probe.count(lambda: scenario.act(directory))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_an_error_at_any_operation_leaves_the_old_or_the_new_and_nothing_else(scenario, tmp_path):
    outcomes = set()
    for place in range(operations(scenario, tmp_path / "count")):
        (tmp_path / str(place)).mkdir()
        directory = tmp_path / str(place) / "deep" / "x.platt"
        scenario.prepare(directory)
        code = CODES[place % len(CODES)]

        def fail(*arguments, code=code):
            probe.write_half(*arguments)
            raise OSError(code, os.strerror(code))

        failed = None
        with probe.at(place, fail):
            try:
                scenario.act(directory)
            except FileSystemError as error:
                failed = error
        seen = scenarios.seen(directory)
        assert seen in (scenario.before, scenario.after)
        if failed:
            assert failed.exit_code == 7
            assert str(directory) in str(failed)
            assert os.strerror(code) in str(failed)
            assert "\n" not in str(failed)
        else:
            assert seen == scenario.after, "it failed and did not say so"
        if seen is None:
            assert len(list((tmp_path / str(place)).iterdir())) == 0, "a failed first write left something"
        elif failed:
            assert leftovers(directory) == set()
        scenarios.heals(directory)
        outcomes.add((failed is None, seen))
    assert (False, scenario.before) in outcomes


@pytest.mark.slow
@pytest.mark.parametrize("scenario", scenarios.ALL, ids=lambda scenario: scenario.name)
def test_ctrl_c_at_any_operation_leaves_the_old_or_the_new_and_nothing_else(scenario, tmp_path):
    def interrupt(*arguments):
        probe.write_half(*arguments)
        raise KeyboardInterrupt

    for place in range(operations(scenario, tmp_path / "count")):
        directory = tmp_path / str(place)
        scenario.prepare(directory)
        with probe.at(place, interrupt), pytest.raises(KeyboardInterrupt):
            scenario.act(directory)
        assert scenarios.seen(directory) in (scenario.before, scenario.after)
        scenarios.heals(directory)


def test_a_disk_that_stays_full_leaves_the_old_artifact(tmp_path):
    put(tmp_path / "a", 1)
    (tmp_path / "empty").mkdir()

    def full(name, arguments):
        if name == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for place in ("a", "b/c", "empty"):
        with probe.probed(full), pytest.raises(FileSystemError, match="free some space"):
            put(tmp_path / place, 2)
    assert scenarios.seen(tmp_path / "a") == 1
    assert leftovers(tmp_path / "a") == set()
    assert not (tmp_path / "b").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_disk_that_writes_a_little_at_a_time(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[:7]))
    put(tmp_path / "a", 1)
    assert scenarios.seen(tmp_path / "a") == 1


def test_a_file_system_without_locks_says_so(tmp_path, monkeypatch):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(FileSystemError, match="has no locks"):
        put(tmp_path / "a", 1)
    assert not (tmp_path / "a" / "manifest.json").exists()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_may_not_be_written_to(tmp_path):
    (tmp_path / "a").mkdir(mode=0o500)
    with pytest.raises(FileSystemError, match="may write to"):
        put(tmp_path / "a" / "b", 1)


def test_a_target_is_checked_before_the_work_is_done(tmp_path, monkeypatch):
    store.check_target(tmp_path / "new" / "deep")
    store.check_target(tmp_path)
    put(tmp_path / "a", 1)
    store.check_target(tmp_path / "a")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(FileSystemError, match="Permission denied; choose a directory"):
        store.check_target(tmp_path / "new" / "deep")


def test_a_draft_that_cannot_be_written_touches_nothing(tmp_path):
    with pytest.raises(ValueError, match=r"fit\['after'\]\['nll'\] is nan"):
        store.write(tmp_path / "a", draft(fit={"after": {"nll": float("nan")}}), {})
    assert not (tmp_path / "a").exists()
