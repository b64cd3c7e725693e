"""Tables of Delta and Iceberg, written by their own libraries."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from calcli.places import Url, stores
from calcli.tables.source import open_source
from tests.support.places import Web, need

ROWS = pl.DataFrame({"id": range(100), "prob": [0.1, 0.9] * 50, "label": [0, 1] * 50, "day": [1] * 50 + [2] * 50})
LEFT = ROWS.filter(pl.col("id") >= 10)


def delta(folder: Path) -> Path:
    """A table of which rows were replaced, and then some deleted."""
    need("deltalake")
    from deltalake import DeltaTable, write_deltalake

    write_deltalake(folder, ROWS.with_columns(prob=pl.lit(0.5)).to_arrow(), partition_by=["day"])
    write_deltalake(folder, ROWS.to_arrow(), mode="overwrite", partition_by=["day"])
    DeltaTable(folder).delete("id < 10")
    return folder


def iceberg(folder: Path) -> Path:
    """The same of Iceberg."""
    return Path(iceberg_at(f"file://{folder}").removeprefix("file://"))


def iceberg_at(warehouse: str, **properties: str) -> str:
    """The URL of a table in a warehouse."""
    need("pyiceberg", "sqlalchemy")
    from pyiceberg.catalog.memory import InMemoryCatalog

    catalog = InMemoryCatalog("catalog", warehouse=warehouse, **properties)
    catalog.create_namespace("space")
    table = catalog.create_table("space.rows", ROWS.to_arrow().schema)
    table.append(ROWS.with_columns(prob=pl.lit(0.5)).to_arrow())
    table.overwrite(ROWS.to_arrow())
    table.delete("id < 10")
    return str(table.location())


@pytest.mark.parametrize("make", [delta, iceberg])
def test_the_rows_are_those_of_the_present_version(tmp_path: Path, make) -> None:
    folder = make(tmp_path / "rows")
    assert sum(len(pl.read_parquet(path)) for path in folder.rglob("*.parquet")) > len(LEFT)
    with open_source(folder) as source:
        assert source.typed().select(ROWS.columns).sort("id").collect().equals(LEFT)
        assert source.rows() == len(LEFT)
        assert source.files()[0].path == str(folder)
        assert str(source.files()[0].query).startswith(("delta version 2", "iceberg snapshot "))


@pytest.mark.slow
def test_a_table_of_delta_is_read_from_a_store(store: Web, tmp_path: Path) -> None:
    folder = delta(tmp_path / "rows")
    for path in folder.rglob("*"):
        if path.is_file():
            stores.put(Url(f"{store.bucket}/rows/{path.relative_to(folder)}"), path.read_bytes())
    with open_source(f"{store.bucket}/rows") as source:
        assert source.typed().select(ROWS.columns).sort("id").collect().equals(LEFT)


@pytest.mark.slow
def test_a_table_of_iceberg_is_read_from_a_store(s3: Web) -> None:
    keys = {"access-key-id": "AKIANOBODY", "secret-access-key": "verysecret", "region": "us-east-1"}
    options = {f"s3.{name}": value for name, value in {**keys, "endpoint": str(s3.upstream)}.items()}
    with open_source(iceberg_at("s3://bucket/lake", **options)) as source:
        assert source.typed().select(ROWS.columns).sort("id").collect().equals(LEFT)
        assert str(source.files()[0].query).startswith("iceberg snapshot ")
