"""The page's commands for a cluster, on one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.support.shell import ROOT, blocks
from tests.support.spark import Driver

pytest.importorskip("pyspark", reason="needs the extra spark")


def test_the_commands_run(days: Path, driver: Driver, tmp_path: Path) -> None:
    (block,) = blocks((ROOT / "docs/growing.md").read_text(), "bash")
    lines = block.splitlines()
    assert len(lines) == 3
    places = {"days": days, **{name: tmp_path / name for name in ("nightly.platt", "scored")}}
    for line in lines:
        program, *words = shlex.split(line)
        driver.run(*(places.get(word, word) for word in words))
        assert program == "calcli"
