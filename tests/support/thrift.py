"""Costs of Python and of the disk that no test needs to pay."""

from __future__ import annotations

import gc
import os
import sys

import pytest

GRAPHS = (
    *("tests/methods/graphs/", "tests/models/test_edges.py", "tests/methods/test_units.py", "tests/test_extras.py"),
    "tests/verbs/test_forged.py",
)
"""Tests that import PyTorch and torch-geometric, which takes seconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of graphs at the head, which one process takes as a whole, so that no other imports their libraries."""
    items.sort(key=lambda item: not item.nodeid.startswith(GRAPHS))


def pytest_collection_finish() -> None:
    """Leave out of the search for garbage what has been imported and collected by now; search less often for the rest.

    Half a million objects belong to modules: to look through them again and again is a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def wait_for_no_disk() -> None:
    """Let no test of this process wait for a sync: whether and when one is asked for, `disk_probe` observes."""
    os.fsync = lambda fd: None


def keep_bytecode() -> None:
    """Let Python keep what it has compiled of the tests and of the package, in directories that git ignores.

    Without it every worker of every run spends seconds on the assertions of all tests, and every process on our code.
    """
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
