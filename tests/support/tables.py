"""Small tables, and files of every format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from calcli.tables.paths import format_of
from calcli.tables.source import Source, open_source


def put(path: Path, frame: pl.DataFrame) -> Path:
    """Write a file with polars' eager writers, which the room itself does not use."""
    path.parent.mkdir(parents=True, exist_ok=True)
    match format_of(path, None):
        case "parquet":
            frame.write_parquet(path)
        case "ipc":
            frame.write_ipc(path)
        case "ndjson":
            frame.write_ndjson(path)
        case "csv":
            frame.write_csv(path)
        case "tsv":
            frame.write_csv(path, separator="\t")
    return path


def put_arrow(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        try:
            pyarrow.parquet.write_table(table, path)
        except pa.ArrowNotImplementedError as error:
            if not pa.__version__.startswith("20."):
                raise
            pytest.skip(f"pyarrow 20: {error}")
    else:
        with pyarrow.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def get_arrow(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path)
    with pyarrow.ipc.open_file(str(path)) as reader:
        return reader.read_all()


def put_text(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(columns: Mapping[str, Sequence[Any]]) -> Source:
    """A source from columns in memory."""
    return open_source(pl.DataFrame(columns, strict=False))


def ordinary(rows: int = 500, seed: int = 0) -> pl.DataFrame:
    """A table as people have them: a label, a logit, features of each role, an id, a date."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=rows)
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "label": (rng.random(rows) < 1 / (1 + np.exp(-2 * logit))).astype(int),
            "logit": logit,
            "site": [["north", "south", "east, west", 'q"uote', None][value] for value in rng.integers(0, 5, rows)],
            "age": [None if value < 20 else float(value) for value in rng.integers(18, 60, rows)],
            "member": [(True, False, None)[value] for value in rng.integers(0, 3, rows)],
            "day": pl.Series(["2024-01-01"] * rows).str.to_date(),
        }
    )
