"""No more threads than a container is given processors."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

import pytest

from calcli.errors import FileSystemError
from calcli.numeric import threads
from calcli.numeric.threads import processors, quota


@pytest.fixture
def groups(tmp_path: Path) -> Path:
    """The control groups /all/pod/box, of which this process is in the last."""
    (tmp_path / "all" / "pod" / "box").mkdir(parents=True)
    (tmp_path / "own").write_text("12:pids:/old\n0::/all/pod/box\n")
    return tmp_path


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, math.inf),
        ({"all/pod/box": "max 100000"}, math.inf),
        ({"all/pod/box": "250000 100000"}, 2.5),
        ({"all/pod/box": "max 100000", "all/pod": "50000 100000"}, 0.5),
        ({"all/pod/box": "400000 100000", "all": "150000 50000"}, 3.0),
        ({"": "100000 100000"}, 1.0),
        ({"all/pod/box": "nonsense"}, math.inf),
        ({"all/pod/box": "1 0"}, math.inf),
    ],
)
def test_the_strictest_group_counts(limits: dict[str, str], expected: float, groups: Path) -> None:
    for place, limit in limits.items():
        (groups / place / "cpu.max").write_text(f"{limit}\n")
    assert quota(groups / "own", groups) == expected


@pytest.mark.parametrize("said", ["", "2:cpu:/box\n", None])
def test_where_there_are_no_such_groups(said: str | None, tmp_path: Path) -> None:
    if said is not None:
        (tmp_path / "own").write_text(said)
    assert quota(tmp_path / "own", tmp_path) == math.inf


@pytest.mark.parametrize(("limit", "expected"), [(math.inf, 6), (2.5, 2), (0.5, 1), (100.0, 6)])
def test_a_container_holds_the_threads(limit: float, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)), raising=False)
    monkeypatch.setattr(threads, "quota", lambda: limit)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    processors.cache_clear()
    try:
        assert threads.threads() == expected
        monkeypatch.setenv("OMP_NUM_THREADS", "9")
        assert threads.threads() == 9
    finally:
        processors.cache_clear()


def test_the_bootstrap_does_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    from calcli.metrics import bootstrap, catalog
    from calcli.metrics.base import Options, Scored

    asked = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, count: int) -> None:
            asked.append(count)
            super().__init__(count)

    monkeypatch.setattr(bootstrap, "ThreadPoolExecutor", Pool)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    rng = np.random.default_rng(0)
    rows = Scored(rng.integers(0, 2, 50), rng.random(50))
    bootstrap.bootstrap([rows], catalog.choose("brier"), Options(), 4)
    assert asked == [3]


@pytest.mark.parametrize("limit", [0, 600_000, 1_500_000, 2_500_000])
def test_a_limit_on_addresses_that_is_too_small_is_named(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit * 1024, resource.RLIM_INFINITY))
    with pytest.raises(FileSystemError, match=rf"may use {limit * 1024 / 1e9:.2f} GB of addresses.*need") as found:
        threads.check_addresses()
    kilobytes = int(str(found.value.hint).rpartition(" ")[2])
    monkeypatch.setattr(resource, "getrlimit", lambda which: (kilobytes * 1024, resource.RLIM_INFINITY))
    threads.check_addresses()


@pytest.mark.parametrize("without", [True, False])
def test_no_limit_on_addresses(without: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no such module."""
    if without:
        monkeypatch.setitem(sys.modules, "resource", None)
    else:
        resource = pytest.importorskip("resource")
        monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    threads.check_addresses()
