"""Costs of Python, of the disk and of draws that no test needs to pay."""

from __future__ import annotations

import gc
import hashlib
import os
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from calcli.metrics.diagnosis import Diagnosis
    from calcli.metrics.joint_test import GapSums

GRAPHS = (
    *("tests/methods/graphs/", "tests/models/test_edges.py", "tests/methods/test_units.py", "tests/test_extras.py"),
    "tests/verbs/test_forged.py",
)
"""Tests that import PyTorch and torch-geometric, which takes seconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put tests of graphs at the head, which one process takes as a whole, so that no other imports their libraries."""
    items.sort(key=lambda item: not item.nodeid.startswith(GRAPHS))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Search for no garbage while tests are collected: nothing of what is imported is any, and there is a lot of it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Leave out of the search for garbage what has been imported and collected by now; search less often for the rest.

    Half a million objects belong to modules: to look through them again and again is a tenth of the suite's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    _diagnose_once()


def wait_for_no_disk() -> None:
    """Let no test of this process wait for a sync: whether and when one is asked for, `disk_probe` observes."""
    os.fsync = lambda fd: None


def _diagnose_once() -> None:
    """Let fits and evaluations of this process keep the diagnosis of gaps that were diagnosed before.

    It is a part of what a small table costs, and many tests begin with the same scores. Tests of the diagnosis ask the
    function itself.
    """
    from calcli.diagrams import curve_builder
    from calcli.metrics import joint_test
    from calcli.metrics.diagnosis import diagnose

    known: dict[bytes, Diagnosis | None] = {}

    def kept(sums: GapSums) -> Diagnosis | None:
        if sums.units is not None:
            return diagnose(sums)
        parts = (sums.cell.tobytes(), sums.sums.tobytes(), repr((sums.impossible, joint_test.DRAWS)).encode())
        key = hashlib.sha256(b"".join(parts)).digest()
        if key not in known:
            known[key] = diagnose(sums)
        return known[key]

    curve_builder.diagnose = kept
