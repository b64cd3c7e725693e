"""The interpreter of `docs/formula.md`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from calcli.verbs.export import ExportRequest, export
from tests.support.shell import ROOT, blocks


@pytest.fixture(scope="module")
def interpreter() -> Callable[[str, pl.DataFrame], pl.DataFrame]:
    """What it makes of the rows of a table by the formula of an artifact."""
    names: dict[str, Any] = {}
    (program,) = blocks((ROOT / "docs" / "formula.md").read_text(), "python")
    exec(program, names)

    def interpreted(artifact: str, table: pl.DataFrame) -> pl.DataFrame:
        formula = json.loads(export(ExportRequest(artifact, to="json")))
        return pl.DataFrame([names["predict"](formula, one) for one in table.to_dicts()], infer_schema_length=None)

    return interpreted
