"""The interpreter of `docs/formula.md`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.shell import ROOT, blocks


@pytest.fixture(scope="module")
def interpreter() -> Callable[[dict[str, Any], dict[str, Any]], dict[str, Any]]:
    names: dict[str, Any] = {}
    (program,) = blocks((ROOT / "docs" / "formula.md").read_text(), "python")
    exec(program, names)
    return names["predict"]
