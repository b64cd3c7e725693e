from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from calcli.errors import DataError, UsageError
from calcli.tables.paths import compression_of, format_of
from calcli.tables.source import open_source


@pytest.mark.parametrize(
    ("name", "format"),
    [
        *((f"a.{suffix}", "parquet") for suffix in ("parquet", "pq")),
        *((name, "csv") for name in ("a.csv", "A.CSV", "a.b.csv.gz")),
        *((f"a.{suffix}", "tsv") for suffix in ("tsv", "tsv.zst")),
        *((f"a.{suffix}", "ipc") for suffix in ("arrow", "feather", "ipc")),
        *((f"a.{suffix}", "ndjson") for suffix in ("ndjson.zst", "jsonl")),
        ("a.json.gz", "json"),
    ],
)
def test_format_by_suffix(name: str, format: str) -> None:  # noqa: A002
    assert format_of(name, None) == format


@pytest.mark.parametrize("name", ["a", "a.xlsx", "a.gz", "csv", "-"])
def test_no_format(name: str) -> None:
    with pytest.raises(UsageError, match="--input-format"):
        format_of(name, None, flag="--input-format")


def test_what_is_given_wins_and_must_be_known() -> None:
    assert format_of("a.parquet", "CSV") == "csv"
    with pytest.raises(UsageError, match=r"--output-format: no format 'parket'; did you mean 'parquet'\?"):
        format_of("x", "parket", flag="--output-format")


def test_compression() -> None:
    assert [compression_of(name) for name in ("a.csv.gz", "a.csv.ZST", "a.csv")] == ["gzip", "zstd", None]


def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("fastexcel")
    frame = pl.DataFrame({"label": [0, 1, 1], "prob": [0.25, 0.5, None], "city": ["a", None, "é"]})
    frame.write_excel(tmp_path / "rows.xlsx")
    with open_source(tmp_path / "rows.xlsx") as source:
        assert source.raw.collect().rows() == frame.rows()
    (tmp_path / "bad.xlsx").write_bytes(b"PK none")
    with pytest.raises(DataError, match=r"bad\.xlsx: its first sheet is no table"):
        open_source(tmp_path / "bad.xlsx")
