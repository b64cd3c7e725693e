"""Killed writers, concurrent writers, readers during replacements: see `tests.support.artifact_processes`."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.shell import HANGS, ROOT, environment

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


def run(what):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.artifact_processes", what],
        cwd=ROOT,
        env=environment(OPENBLAS_NUM_THREADS="1"),
        capture_output=True,
        text=True,
        timeout=HANGS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_whoever_is_killed_and_when_readers_see_the_old_or_the_new_whole():
    found = run("kills")
    assert set(found) == {"first", "overwrite", "overwrite with previous", "rollback"}
    assert all(len(seen) == 2 for seen in found.values()), "no kill point before, or none after the change"
    assert sum(sum(seen.values()) for seen in found.values()) >= 100


def test_two_writers_at_once_leave_one_artifact_and_the_other_as_previous():
    assert run("writers") == 15


def test_a_reader_during_fifty_replacements_always_gets_a_whole_generation():
    found = run("readers")
    assert found["reads"] >= 50
    assert found["generations"] >= 5
    assert found["last"] >= 50


def test_a_lock_that_is_held_is_named_and_goes_with_its_holder():
    message = run("locked")
    assert ".lock" in message
    assert "for 0.1 s" in message


def test_a_limit_of_the_system_leaves_the_old_artifact():
    assert "ulimit" in run("limit")
