"""Tables for a cluster: a directory of days, and what was written there again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.support.samples import clicks

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def parts() -> list[tuple[str, pl.DataFrame]]:
    """Two tables for each day, with row numbers that go on."""
    return [
        (day, clicks(1000, seed=2 * place + part).with_columns(row_id=pl.col("row_id") + 1000 * (2 * place + part)))
        for place, day in enumerate(DAYS)
        for part in range(2)
    ]


def write_days(folder: Path) -> Path:
    """A directory of days, two files each."""
    for place, (day, frame) in enumerate(parts()):
        path = folder / f"day={day}"
        path.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path / f"{place}.parquet")
    return folder


def ordered(path: Path) -> pl.DataFrame:
    """What was written, in an order of its own; the days as texts."""
    found = pl.read_parquet(path / "**/*.parquet" if path.is_dir() else path, hive_partitioning=True)
    found = found.with_columns(pl.col("day").cast(pl.String))
    return found.select(sorted(found.columns)).sort("row_id")


def assert_near(found: Any, expected: Any, **near: float) -> None:
    """Of values within values: the same words, and numbers that are near."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_near(found[key], value, **near)
    elif isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, **near)
    else:
        assert found == (pytest.approx(expected, **near) if isinstance(expected, float) else expected)


def assert_same_numbers(found: dict[str, Any], report: dict[str, Any]) -> None:
    """What a report from sums has that all rows at once give; of a histogram, as near as it says."""
    for theirs, ours in zip(found["scores"], report["scores"], strict=True):
        assert theirs["name"] == ours["name"]
        for name, value in ours["metrics"].items():
            definition, near = found["definitions"][name], 1e-9
            if (definition["approximation"] or "").startswith("histogram"):
                near += float(definition["approximation"].rpartition(" ")[2])
                definition = definition | {"approximation": report["definitions"][name]["approximation"]}
            assert definition == report["definitions"][name]
            assert_near(theirs["metrics"][name]["value"], value["value"], abs=near)
            assert_near(theirs["metrics"][name]["floor"], value["floor"], abs=1e-9)
            assert_near(theirs["metrics"][name]["per_class"], value["per_class"], abs=near)
    for theirs, ours in zip(found["differences"], report["differences"], strict=True):
        if theirs["metric"] in {"nll", "brier"}:
            assert_near(theirs, ours, abs=1e-9)
    assert_near(found["curves"], report["curves"], abs=1e-9)
    for fact in ("rows", "rows_bad", "weight_sum", "label_rate"):
        assert_near(found["data"][fact], report["data"][fact], rel=1e-12)
