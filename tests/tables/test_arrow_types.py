"""Every Arrow type goes through a scan and a sink and comes back as it was, or is refused by name."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from calcli.errors import DataError
from calcli.tables.sink import write
from calcli.tables.source import Source, open_source
from tests.support.tables import get_arrow, put_arrow

INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [pa.decimal32(5, 1), pa.decimal64(12, 1), pa.decimal128(10, 2), pa.decimal128(38, 2)]
UNITS = ["s", "ms", "us", "ns"]
NUMBERS = [Decimal("1.5"), None, Decimal("-2")]
TIMES = [dt.time(1, 2, 3), None, dt.time(0)]

COLUMNS: dict[str, pa.Array] = {
    **{str(dtype): pa.array([1, None, 100], dtype) for dtype in INTEGERS},
    "uint64 at its end": pa.array([2**64 - 1, None, 0], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None, np.float16(-2)], pa.float16()),
    "float32": pa.array([1.1, None, float("inf")], pa.float32()),
    "float64": pa.array([0.1, None, -0.0]),
    "bool": pa.array([True, None, False]),
    "string": pa.array(["a", None, ""]),
    "large_string": pa.array(["a", None, ""], pa.large_string()),
    "string_view": pa.array(["a", None, ""], pa.string_view()),
    "binary": pa.array([b"a", None, b"\xff"]),
    "large_binary": pa.array([b"a", None, b"\xff"], pa.large_binary()),
    "binary_view": pa.array([b"a", None, b"\xff"], pa.binary_view()),
    "fixed binary": pa.array([b"ab", None, b"\xff\x00"], pa.binary(2)),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "narrow dictionary": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int8()), pa.array(["x", "y"])),
    "ordered": pa.DictionaryArray.from_arrays(
        pa.array([2, None, 0], pa.int8()), pa.array(["lo", "mid", "hi"]), ordered=True
    ),
    "dictionary of integers": pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int32()), pa.array([10, 20])),
    **{str(dtype): pa.array(NUMBERS, dtype) for dtype in DECIMALS},
    "date32": pa.array([dt.date(2020, 1, 1), None, dt.date(1900, 1, 1)]),
    "date64": pa.array([dt.date(2020, 1, 1), None, dt.date(1900, 1, 1)], pa.date64()),
    **{f"time {unit}": pa.array(TIMES, pa.time32(unit)) for unit in ("s", "ms")},
    **{f"time {unit}": pa.array(TIMES, pa.time64(unit)) for unit in ("us", "ns")},
    **{f"timestamp {unit}": pa.array([1000, None, 5], pa.timestamp(unit)) for unit in UNITS},
    **{f"zoned {unit}": pa.array([1000, None, 5], pa.timestamp(unit, "Europe/Paris")) for unit in UNITS},
    "utc": pa.array([1000, None, 5], pa.timestamp("us", "UTC")),
    "offset": pa.array([1000, None, 5], pa.timestamp("us", "+02:00")),
    **{f"duration {unit}": pa.array([1000, None, 5], pa.duration(unit)) for unit in UNITS},
    "list": pa.array([[1, 2], None, []], pa.list_(pa.int32())),
    "large_list": pa.array([[1, 2], None, []], pa.large_list(pa.int32())),
    "fixed list": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "deep": pa.array(
        [[{"a": b"xy", "t": TIMES[0]}], None, []], pa.list_(pa.struct([("a", pa.binary(2)), ("t", pa.time32("s"))]))
    ),
    "null": pa.nulls(3),
    "uuid": pa.array([uuid.UUID(int=5).bytes, None, bytes(16)], pa.uuid()),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", None, "1"])),
}


def same_but_for_widths(one: pa.DataType, two: pa.DataType) -> bool:
    """The oracle of this test: types as words, without what Arrow distinguishes only in memory."""

    def words(dtype: pa.DataType) -> str:
        text = str(dtype)
        for old, new in (
            ("large_", ""), ("_view", ""), ("element:", "item:"), ("'key'", ""), (" ('c')", ""),
            ("dictionary<values=int64, indices=int32, ordered=0>", "int64"),
        ):  # fmt: skip
            text = text.replace(old, new)
        return text

    return words(one) == words(two)


def passed_on(source: Source, path: Path) -> pa.Table:
    frame = source.raw.map_batches(
        lambda rows: rows.with_columns(added=pl.lit(0.5)),
        streamable=True,
        schema={**source.schema, "added": pl.Float64()},
    )
    assert write(frame, path, arrow_types=source.arrow_types) == source.rows()
    return get_arrow(path)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("name", COLUMNS)
def test_types_pass_through(tmp_path: Path, name: str, suffix: str) -> None:
    table = pa.table({"c": COLUMNS[name], "x": [1.0, 2.0, 3.0]}).replace_schema_metadata({"own": "1"})
    path = put_arrow(tmp_path / f"in.{suffix}", table)
    before = get_arrow(path)  # Parquet itself keeps no seconds, for one
    with open_source(path) as source:
        after = passed_on(source, tmp_path / f"out.{suffix}")
    assert after.column_names == ["c", "x", "added"]
    assert after["c"].to_pylist() == before["c"].to_pylist()
    assert same_but_for_widths(after["c"].type, before["c"].type), (after["c"].type, before["c"].type)
    assert after.schema.metadata == {b"own": b"1"}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_all_types_in_one_table(tmp_path: Path, suffix: str) -> None:
    table = pa.table(COLUMNS)
    whole = pa.concat_tables([table] * 4).replace_schema_metadata({"own": "1"})
    path = put_arrow(tmp_path / f"in.{suffix}", whole)
    before = get_arrow(path)
    with open_source(path) as source:
        after = passed_on(source, tmp_path / f"out.{suffix}").drop(["added"])
    assert after.column_names == before.column_names
    for name in before.column_names:
        assert after[name].to_pylist() == before[name].to_pylist(), name
        assert same_but_for_widths(after[name].type, before[name].type), name
    assert after.schema.metadata == {b"own": b"1"}


@pytest.mark.parametrize(
    ("column", "stored"),
    [
        (pa.array([Decimal(1), None], pa.decimal256(50, 2)), True),
        (pa.array([(1, 2, 3), None], pa.month_day_nano_interval()), False),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array([1, 2])), False),
        (pa.array([[1], None], pa.list_view(pa.int32())), True),
        (pa.array([[(1, 2, 3)], None], pa.list_(pa.month_day_nano_interval())), False),
    ],
    ids=["decimal256", "interval", "run ends", "list view", "nested interval"],
)
def test_types_that_cannot_be_carried_are_refused_by_name(tmp_path: Path, column: pa.Array, stored: bool) -> None:
    table = pa.table({"odd one": column})
    for suffix in ["arrow", "parquet"] if stored else ["arrow"]:
        path = put_arrow(tmp_path / f"a.{suffix}", table)
        with pytest.raises(DataError, match=r"column 'odd one' is .* which calcli cannot pass through unchanged"):
            open_source(path)
    with pytest.raises(DataError, match="'odd one'"):
        open_source(table)


def test_decimal256_that_fits(tmp_path: Path) -> None:
    table = pa.table({"c": pa.array(NUMBERS, pa.decimal256(20, 2))})
    with open_source(put_arrow(tmp_path / "a.parquet", table)) as source:
        assert passed_on(source, tmp_path / "b.parquet")["c"].type == pa.decimal256(20, 2)


def test_ordered_categories_of_pandas_keep_their_order(tmp_path: Path) -> None:
    levels = ["low", "middle", "high", "never used"]
    frame = pd.DataFrame({"o": pd.Categorical(["high", "low", None] * 50, levels, ordered=True)})
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=40)
    for data in (tmp_path / "a.parquet", frame):
        with open_source(data) as source:
            passed_on(source, tmp_path / "b.parquet")
        again = pq.read_table(tmp_path / "b.parquet")["o"]
        assert again.type.ordered
        assert again.unify_dictionaries().chunk(0).dictionary.to_pylist() == levels
        assert again.to_pylist() == ["high", "low", None] * 50


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_restored_types_and_many_dictionaries(tmp_path: Path, suffix: str) -> None:
    parts = [
        pa.table(
            {
                "k": pa.array([bytes([n, n])] * 5, pa.binary(2)),
                "c": pa.array([f"v{n}", "x"] * 2 + [None]).dictionary_encode(),
            }
        )
        for n in range(30)
    ]
    for number, part in enumerate(parts):
        put_arrow(tmp_path / f"in{number:02}.{suffix}", part)
    with open_source(str(tmp_path / "in*")) as source:
        after = passed_on(source, tmp_path / f"out.{suffix}")
    before = pa.concat_tables([part.select(["k"]) for part in parts])
    assert after["k"].type == pa.binary(2)
    assert after["k"].to_pylist() == before["k"].to_pylist()
    assert after["c"].to_pylist() == [value for part in parts for value in part["c"].to_pylist()]


def test_a_renamed_or_dropped_column_needs_no_restoring(tmp_path: Path) -> None:
    table = pa.table({"c": COLUMNS["fixed binary"], "x": [1.0, 2.0, 3.0]})
    with open_source(put_arrow(tmp_path / "a.parquet", table)) as source:
        assert source.arrow_types.types == {"c": pa.binary(2)}
        write(source.raw.select("x"), tmp_path / "b.parquet", arrow_types=source.arrow_types)
    assert get_arrow(tmp_path / "b.parquet").column_names == ["x"]


def test_text_formats_refuse_what_they_cannot_hold(tmp_path: Path) -> None:
    for name in ("list", "struct", "binary"):
        frame: Any = pl.DataFrame(pa.table({name: COLUMNS[name]})).lazy()
        with pytest.raises(DataError, match=f"column '{name}' is .* which CSV cannot hold"):
            write(frame, tmp_path / "a.csv")
    assert not list(tmp_path.iterdir())


NOTED = pa.schema(
    [
        pa.field("x", pa.float64(), nullable=False, metadata={"unit": "m"}),
        pa.field("n", pa.int32(), nullable=False),
        pa.field("t", pa.string()),
    ],
    metadata={"geo": "{}", "own": "é"},
)
ROWS = {"x": [1.0, 2.0], "n": [1, 2], "t": ["a", None]}


@pytest.mark.parametrize("restored", [False, True], ids=["plain", "restored"])
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_what_a_schema_says_beside_types_is_kept(tmp_path: Path, suffix: str, restored: bool) -> None:
    schema = NOTED.set(1, NOTED.field("n").with_type(pa.date64())) if restored else NOTED
    if suffix == "arrow":  # polars reads no such Parquet
        schema = schema.with_metadata({**NOTED.metadata, b"bytes": b"\xff\x00"})
    days = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)] if restored else ROWS["n"]
    path = put_arrow(tmp_path / f"in.{suffix}", pa.table({**ROWS, "n": days}, schema=schema))
    with open_source(path) as source:
        after = passed_on(source, tmp_path / f"out.{suffix}")
    assert after.schema.metadata == schema.metadata
    for name in ("x", "n", "t"):
        assert after.schema.field(name).nullable == schema.field(name).nullable
        assert after.schema.field(name).metadata == schema.field(name).metadata
    assert after.schema.field("added").nullable
    assert after.drop(["added"]).to_pydict() == get_arrow(path).to_pydict()


def test_metadata_that_list_all_columns_would_hide_the_added_one(tmp_path: Path) -> None:
    lists = {"org.apache.spark.sql.parquet.row.metadata": '{"type":"struct","fields":[]}', "iceberg.schema": "{}"}
    table = pa.table(ROWS, schema=NOTED.with_metadata({**lists, "own": "1"}))
    with open_source(put_arrow(tmp_path / "in.parquet", table)) as source:
        assert passed_on(source, tmp_path / "out.parquet").schema.metadata == {b"own": b"1"}


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_several_files_keep_what_all_of_them_say(tmp_path: Path, suffix: str) -> None:
    put_arrow(tmp_path / f"1.{suffix}", pa.table(ROWS, schema=NOTED))
    other = pa.schema(
        [NOTED.field("x"), NOTED.field("n").with_nullable(True), NOTED.field("t")], {"geo": "{}", "own": "2"}
    )
    put_arrow(tmp_path / f"2.{suffix}", pa.table({**ROWS, "n": [1, None]}, schema=other))
    with open_source([tmp_path / f"1.{suffix}", tmp_path / f"2.{suffix}"]) as source:
        after = passed_on(source, tmp_path / f"out.{suffix}")
    assert after.schema.metadata == {b"geo": b"{}"}
    assert [after.schema.field(name).nullable for name in ("x", "n", "t")] == [False, True, True]
    assert after["n"].to_pylist() == [1, 2, 1, None]


@pytest.mark.parametrize("index", [pd.RangeIndex(5, 10), pd.Index(list("vwxyz"), name="k")], ids=["range", "text"])
def test_the_index_of_pandas_comes_back(tmp_path: Path, index: Any) -> None:
    frame = pd.DataFrame({"x": [0.0, 1, 2, 3, 4], "c": pd.Categorical(list("abcab"))}, index=index)
    frame.to_parquet(tmp_path / "in.parquet")
    with open_source(tmp_path / "in.parquet") as source:
        passed_on(source, tmp_path / "out.parquet")
    after = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(after.drop(columns="added"), pd.read_parquet(tmp_path / "in.parquet"))
    assert after["added"].to_list() == [0.5] * 5


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("index", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32()], ids=str)
def test_dictionaries_keep_the_type_of_their_indices(tmp_path: Path, suffix: str, index: pa.DataType) -> None:
    texts = [f"{number:03}" for number in range(100)]
    for part in "ab":
        values = pa.array([part + text for text in texts]).dictionary_encode().cast(pa.dictionary(index, pa.string()))
        put_arrow(tmp_path / f"{part}.{suffix}", pa.table({"c": values}))
    with open_source(tmp_path / f"a.{suffix}") as source:
        after = passed_on(source, tmp_path / f"one.{suffix}")["c"]
    before = get_arrow(tmp_path / f"a.{suffix}")["c"]
    assert after.type.index_type == before.type.index_type
    assert after.to_pylist() == before.to_pylist()
    with open_source([tmp_path / f"{part}.{suffix}" for part in "ab"]) as source:
        both = passed_on(source, tmp_path / f"both.{suffix}")["c"]
    wide = before.type.index_type.bit_width > 8
    assert both.type.index_type == (before.type.index_type if wide else pa.int32())  # 200 levels
    assert both.to_pylist() == [part + text for part in "ab" for text in texts]
