from __future__ import annotations

import pytest

from calcli.errors import UsageError
from calcli.tables.paths import compression_of, format_of


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("a.parquet", "parquet"),
        ("a.pq", "parquet"),
        ("a.csv", "csv"),
        ("A.CSV", "csv"),
        ("a.b.csv.gz", "csv"),
        ("a.tsv", "tsv"),
        ("a.tsv.zst", "tsv"),
        ("a.arrow", "ipc"),
        ("a.feather", "ipc"),
        ("a.ipc", "ipc"),
        ("a.ndjson.zst", "ndjson"),
        ("a.jsonl", "ndjson"),
        ("a.json.gz", "json"),
    ],
)
def test_format_by_suffix(name: str, format: str) -> None:  # noqa: A002
    assert format_of(name, None) == format


def test_what_is_given_wins() -> None:
    assert format_of("a.parquet", "CSV") == "csv"


@pytest.mark.parametrize("name", ["a", "a.xlsx", "a.gz", "csv", "-"])
def test_no_format(name: str) -> None:
    with pytest.raises(UsageError, match="--input-format"):
        format_of(name, None, flag="--input-format")


def test_unknown_format_says_what_was_meant() -> None:
    with pytest.raises(UsageError, match=r"--output-format: no format 'parket'; did you mean 'parquet'\?"):
        format_of("x", "parket", flag="--output-format")


def test_compression() -> None:
    assert [compression_of(name) for name in ("a.csv.gz", "a.csv.ZST", "a.csv")] == ["gzip", "zstd", None]
