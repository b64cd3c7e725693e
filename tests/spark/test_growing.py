"""The page's commands for a cluster, on one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.shell import ROOT, blocks
from tests.support.spark import Driver, write_days

pytest.importorskip("pyspark", reason="needs the extra spark")


def test_the_commands_run(driver: Driver, tmp_path: Path) -> None:
    write_days(tmp_path / "days")
    (block,) = blocks((ROOT / "docs/growing.md").read_text(), "bash")
    lines = block.splitlines()
    assert len(lines) == 3
    places = {name: str(tmp_path / name) for name in ("days", "nightly.platt", "scored")}
    for line in lines:
        program, *words = shlex.split(line)
        done = driver.run(*(places.get(word, word) for word in words))
        assert (program, done.code) == ("calcli", 0), done.stderr
