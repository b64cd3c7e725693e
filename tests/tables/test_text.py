"""CSV and TSV: values pass through as they stand, broken rows are refused by number, and columns have types."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calcli.errors import CalcliError, DataError, UsageError
from calcli.tables import text
from calcli.tables.sink import write
from calcli.tables.source import open_source
from calcli.tables.text import MISSING, infer_schema
from tests.support.tables import ordinary, put_text

VALUE = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
NUMBERS = ("", "007", "1.50", "-0", "1e5")
TRICKY = st.sampled_from(
    (*NUMBERS, " a ", "a,b", "a\tb", 'say "x"', '"', "l\nm", "l\r\nm", "\r", "NA", "null", "ü", "☃", "#")
)
NAME = st.text(st.characters(min_codepoint=1, exclude_categories=("Cs",)), max_size=12)
CELL = st.none() | VALUE | TRICKY


def sensible(names: list[str]) -> bool:
    """Patterns are refused as names, and a lone name that looks like several is taken for them."""
    patterns = any(name == "*" or (name[:1] == "^" and name[-1:] == "$") for name in names)
    return not patterns and (len(names) > 1 or not set(";|,\t") & set(names[0]))


@st.composite
def tables(draw: st.DrawFn) -> pl.DataFrame:
    names = draw(st.lists(NAME, min_size=1, max_size=4, unique=True).filter(sensible))
    rows = draw(st.integers(1, 6))
    return pl.DataFrame(
        {name: draw(st.lists(CELL, min_size=rows, max_size=rows)) for name in names},
        schema=dict.fromkeys(names, pl.String),
    )


def as_text(frame: pl.DataFrame, separator: str) -> str:
    """Every field in quotes but null, which is nothing at all."""

    def row(values: tuple[str | None, ...]) -> str:
        return separator.join("" if value is None else '"' + value.replace('"', '""') + '"' for value in values)

    return "\n".join([row(tuple(frame.columns)), *map(row, frame.iter_rows())]) + "\n"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(frame=tables(), suffix=st.sampled_from(["csv", "tsv"]))
def test_text_passes_through_untouched(frame: pl.DataFrame, suffix: str) -> None:
    separator = {"csv": ",", "tsv": "\t"}[suffix]
    with TemporaryDirectory() as folder:
        path = put_text(Path(folder) / f"in.{suffix}", as_text(frame, separator))
        with open_source(path) as source:
            assert source.raw.collect().equals(frame, null_equal=True)
            assert write(source.raw, Path(folder) / f"out.{suffix}") == len(frame)
        written = (Path(folder) / f"out.{suffix}").read_bytes()
        with open_source(Path(folder) / f"out.{suffix}") as again:
            assert again.raw.collect().equals(frame, null_equal=True)
    if frame.width > 1:  # the reader of the standard library takes an empty line for no row
        rows = list(csv.reader(io.StringIO(written.decode(), newline=""), delimiter=separator))
        assert rows == [frame.columns, *[[value or "" for value in row] for row in frame.iter_rows()]]


@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize("value", ["\n", "\r\n", "\n\n", '"', '"\n'])
def test_a_file_may_end_in_a_value_of_line_breaks_and_quotes(tmp_path: Path, value: str, line: str) -> None:
    quoted = '"' + value.replace('"', '""') + '"'
    for end in ("", line):
        path = put_text(tmp_path / "a.csv", f"a{line}{quoted}{end}")
        with open_source(path) as source:
            assert source.raw.collect().rows() == [(value,)]
    path = put_text(tmp_path / "a.csv", f"a{line}{quoted}{line}{quoted[:-1]}")
    with open_source(path) as source, pytest.raises(DataError, match="ends inside a quoted value"):
        source.raw.collect()


def test_null_and_empty_text_stay_apart_and_one_column_keeps_its_empty_lines(tmp_path: Path) -> None:
    with open_source(put_text(tmp_path / "one.csv", "a\n1\n\n2\n")) as source:
        assert source.raw.collect()["a"].to_list() == ["1", None, "2"]
    path = put_text(tmp_path / "a.csv", 'a,b\n"",\n,""\n')
    with open_source(path) as source:
        assert source.raw.collect().rows() == [("", None), (None, "")]
        write(source.raw, tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == 'a,b\n"",\n,""\n'


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"\xef\xbb\xbfa,b\n1,2\n", [("1", "2")]),
        (b"a,b\r\n1,2\r\n", [("1", "2")]),
        (b"a,b\n1,2", [("1", "2")]),
        (b"\n\na,b\n1,2\n\n\n3,4\n\n", [("1", "2"), ("3", "4")]),
        (b'a,b\n1,5" pipe\n', [("1", '5" pipe')]),
        (b'a,b\n1,"ends in a quote"""\n', [("1", 'ends in a quote"')]),
        (b'a,b\n1,""""\n', [("1", '"')]),
        (b'a,b\n1,""', [("1", "")]),
        (b'a,b\n1,"x\n"\n', [("1", "x\n")]),
    ],
)
def test_dialects(tmp_path: Path, content: bytes, rows: list[tuple[str, ...]]) -> None:
    with open_source(put_text(tmp_path / "a.csv", content)) as source:
        assert source.columns == ("a", "b")
        assert source.raw.collect().rows() == rows


@pytest.mark.parametrize("mark", [";", "|", "\t", ","])
@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_separators_are_found_in_the_first_line(tmp_path: Path, mark: str, suffix: str) -> None:
    lines = [["a", '"x;|y"', "c"], ["1", "u", '"3;|4"']]
    with open_source(put_text(tmp_path / f"a.{suffix}", "\n".join(map(mark.join, lines)))) as source:
        assert source.columns == ("a", "x;|y", "c")
        assert source.raw.collect().rows() == [("1", "u", "3;|4")]


def test_a_first_line_can_name_the_separator(tmp_path: Path) -> None:
    """As Excel writes it; it is no row, and none is counted for it."""
    for line in ("sep=|\n", '"SEP=|"\r\n', "\ufeffsep=|\n"):
        with open_source(put_text(tmp_path / "a.csv", line + "a|b,c;d\n0,5|x\n1,5|y\n")) as source:
            assert source.columns == ("a", "b,c;d")
            assert source.typed().collect().rows() == [(0.5, "x"), (1.5, "y")]
    with pytest.raises(DataError, match="3 fields in row 2,"):
        open_source(put_text(tmp_path / "a.csv", "sep=|\na|b\n1|2\n3|4|5\n"))
    with open_source(put_text(tmp_path / "a.csv", "sep=x,y\n1,2\n")) as source:
        assert source.columns == ("sep=x", "y")


def test_separators_that_are_named(tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.csv", "a,b:c,d\n1,5:2,5\n3:4\n")
    with open_source(path, delimiter=":") as source:
        assert source.typed().collect().rows() == [(1.5, 2.5), (3.0, 4.0)]
    with open_source(put_text(tmp_path / "b.csv", "a;b\tc\n1;2\t3\n"), delimiter="\\t") as source:
        assert source.columns == ("a;b", "c")
    for wrong, kind, message in (
        ("::", "csv", "one letter, not '::'"),
        ("é", "csv", "one letter"),
        (";", "ndjson", "is ndjson"),
    ):
        with pytest.raises(UsageError, match=f"--delimiter .*{message}"):
            open_source(path, format=kind, delimiter=wrong)


EUROPEAN = """id;label;prob;text;thousands;mixed
007;0;0,25;1,5 kg;1.234,5;0,5
008;1;,5e-1;"a;b";2.345,5;0.5
009;1;NA;;3.456,5;1
010;0;-1;"1,5";4.567,5;2
"""


def test_decimal_commas(tmp_path: Path) -> None:
    with open_source(put_text(tmp_path / "a.csv", EUROPEAN)) as source:
        assert source.typed(["prob"]).collect()["prob"].to_list() == [0.25, 0.05, None, -1.0]
        assert source.schema == {
            "id": pl.String, "label": pl.Int64, "prob": pl.Float64, "text": pl.String, "thousands": pl.String,
            "mixed": pl.String,
        }  # fmt: skip
        assert source.dialect is not None
        write(text.as_written(source.raw, source.dialect), tmp_path / "b.csv", dialect=source.dialect)
    assert (tmp_path / "b.csv").read_text() == EUROPEAN.replace('"1,5"', "1,5")
    with open_source(put_text(tmp_path / "c.csv", 'a,b\n"1,5",x\n"2,5",y\n')) as source:  # they part its fields
        assert source.schema["a"] == pl.String
        assert source.raw.collect()["a"].to_list() == ["1,5", "2,5"]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_thousands_are_no_fractions(tmp_path: Path, mark: str) -> None:
    lines = ["a|b|c", "1,234|1,234|0,123", "-12,500|0,5|0,125", "7|8|9"]
    with open_source(put_text(tmp_path / "a.csv", "\n".join(lines).replace("|", mark))) as source:
        assert source.schema == {"a": pl.String, "b": pl.Float64, "c": pl.Float64}
        assert source.typed(["b", "c"]).collect().rows() == [(1.234, 0.123), (0.5, 0.125), (8.0, 9.0)]


def test_files_are_read_together_in_the_dialect_of_each(tmp_path: Path) -> None:
    put_text(tmp_path / "1.csv", "a;b\n1;2\n")
    put_text(tmp_path / "2.csv", "a|b\n0,5;x|2,5\n")
    with open_source(tmp_path) as source:
        assert source.raw.collect().rows() == [("1", "2"), ("0,5;x", "2.5")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\n", "has no rows"),
        (b"a,b", "has no rows"),
        (b"a,b\n1,2\n3\n", "1 fields in row 2, but 2 column names: '3'"),
        (b"a,b\n1,2\n\n3,4,5\n", "3 fields in row 2, but 2 column names: '3,4,5'"),
        (b"a,b,a\n1,2,3\n", "more than one column 'a'"),
        (b"a,b\n1,2\n3,\xff\n", "row 2 of .* is not UTF-8"),
        (b"a,\xff\n1,2\n", "first line of .* is not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "is not UTF-8 text"),
        (b"PAR1....", "is a Parquet or Arrow file"),
        (b"PK\x03\x04....", "is a ZIP archive or a spreadsheet"),
        (b"first,b\0c\n1,2\n", "NUL byte in a column name"),
        (b'a,b\n1,2\n3,"x\n5,6\n', "ends inside a quoted value"),
        (b'a,b\n1,2\n3,"', "ends inside a quoted value"),
        (b'a,b\n1,2\n3,"x', "ends inside a quoted value"),
    ],
)
def test_broken_text(tmp_path: Path, content: bytes, message: str) -> None:
    path = put_text(tmp_path / "broken.csv", content)
    with pytest.raises(DataError, match=message) as caught, open_source(path) as source:
        source.raw.collect()
    assert "broken.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_row_is_noticed_whatever_columns_are_read(tmp_path: Path) -> None:
    path = put_text(tmp_path / "a.csv", "a,b,c\n1,2,3\n" * 1 + '4,5,"6\n7,8,9\n')
    with open_source(path) as source, pytest.raises(DataError, match="ends inside a quoted value"):
        source.raw.select("a").collect()


def test_a_bad_row_far_down_has_its_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 1000)
    good = "".join(f"{row},{row}\n" for row in range(1, 5001))
    short = put_text(tmp_path / "a.csv", "a,b\n" + good + "oops\n")
    with open_source(short) as source, pytest.raises(DataError, match="1 fields in row 5001"):
        source.raw.collect()
    latin = put_text(tmp_path / "b.csv", ("a,b\n" + good).encode() + b"5001,\xff\n")
    with open_source(latin) as source, pytest.raises(DataError, match=r"row 5001 of .* is not UTF-8"):
        source.raw.collect()
    long = f'a,b\n1,2\n3,"{"x" * 5000}"\n'
    with pytest.raises(DataError, match="row of more than"), open_source(put_text(tmp_path / "c.csv", long)) as source:
        source.raw.collect()


def test_chunks_filters_and_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 500)
    expected = pl.DataFrame({"a": [str(n) for n in range(1000)], "b": [str(n % 7) for n in range(1000)]})
    expected.write_csv(tmp_path / "a.csv")
    with open_source(tmp_path / "a.csv") as source:
        raw = source.raw
        assert raw.collect().equals(expected)
        assert raw.collect(engine="in-memory").equals(expected)
        assert raw.head(3).collect().equals(expected.head(3))
        assert raw.slice(990, 5).collect().equals(expected.slice(990, 5))
        assert raw.tail(2).collect().equals(expected.tail(2))
        assert (
            raw.select("b").filter(pl.col("b") == "3").collect().equals(expected.select("b").filter(pl.col("b") == "3"))
        )
        assert raw.filter(pl.col("a") == "44").select("b").collect().item() == "2"
        assert source.rows() == 1000


def test_several_files_are_read_by_column_name(tmp_path: Path) -> None:
    put_text(tmp_path / "1.csv", "a,b\n1,2\n")
    put_text(tmp_path / "2.csv", "b,a\n4,3\n")
    put_text(tmp_path / "3.csv", "a,b\n")
    with open_source([tmp_path / "1.csv", tmp_path / "2.csv", tmp_path / "3.csv"]) as source:
        assert source.raw.collect().rows() == [("1", "2"), ("3", "4")]
        assert source.raw.select("b").collect().rows() == [("2",), ("4",)]


@pytest.mark.parametrize(
    ("header", "message"), [("a,c", "no column 'b'"), ("a,b,c", "a column 'c', which"), ("a", "no column 'b'")]
)
def test_columns_that_differ_between_files(tmp_path: Path, header: str, message: str) -> None:
    one = put_text(tmp_path / "1.csv", "a,b\n1,2\n")
    two = put_text(tmp_path / "2.csv", header + "\n")
    with pytest.raises(CalcliError, match=message) as caught:
        open_source([one, two])
    assert "2.csv" in str(caught.value)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("values", "dtype", "typed"),
    [
        (["1", "-2", "+3"], pl.Int64, [1, -2, 3]),
        (["1", "2.5"], pl.Float64, [1.0, 2.5]),
        (["1", "1e3", "inf"], pl.Float64, [1.0, 1000.0, float("inf")]),
        (["1", "", "NA", None, "3"], pl.Int64, [1, None, None, None, 3]),
        (["1.5", "nan", "NaN", "null"], pl.Float64, [1.5, None, None, None]),
        (["true", "False", "NULL"], pl.Boolean, [True, False, None]),
        (["true", "0"], pl.String, ["true", "0"]),
        (["a", "NA", "", None], pl.String, ["a", "NA", "", None]),
        (["007", "12"], pl.String, ["007", "12"]),
        (["1.5", "007"], pl.String, ["1.5", "007"]),
        (["-01", "2"], pl.String, ["-01", "2"]),
        (["0", "0.5", "-0.5"], pl.Float64, [0.0, 0.5, -0.5]),
        (["99999999999999999999", "1"], pl.Float64, [1e20, 1.0]),
        (["18446744073709551615", "", "1"], pl.UInt64, [2**64 - 1, None, 1]),
        (["9223372036854775808", "-1"], pl.Float64, [2.0**63, -1.0]),
        (["NA", "", None], pl.String, ["NA", "", None]),
        (["1_000", "2"], pl.String, ["1_000", "2"]),
        (["2024-01-01"], pl.String, ["2024-01-01"]),
    ],
)
def test_kinds(tmp_path: Path, values: list[str | None], dtype: pl.DataType, typed: list[object]) -> None:
    pl.DataFrame({"x": values, "y": ["k"] * len(values)}, schema={"x": pl.String, "y": pl.String}).write_csv(
        tmp_path / "a.csv"
    )
    with open_source(tmp_path / "a.csv") as source:
        assert source.schema == {"x": dtype, "y": pl.String}
        assert source.typed().collect()["x"].to_list() == typed
        assert source.typed(["x"]).collect_schema() == {"x": dtype}
        assert source.raw.collect()["x"].to_list() == values


def test_the_last_row_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "BLOCK", 2000)
    put_text(tmp_path / "a.csv", "x,y\n" + "1,true\n" * 20_000 + "2.5,maybe\n")
    with open_source(tmp_path / "a.csv") as source:
        assert source.schema == {"x": pl.Float64, "y": pl.String}


@given(st.lists(st.sampled_from(["1", "2.5", "007", "true", "x", *MISSING]) | st.none(), min_size=1, max_size=8))
def test_it_does_not_matter_where_chunks_end(values: list[str | None]) -> None:
    whole = pl.LazyFrame({"x": values}, schema={"x": pl.String})
    parts = pl.concat([pl.LazyFrame({"x": [value]}, schema={"x": pl.String}) for value in values])
    assert infer_schema(whole) == infer_schema(parts)


def test_typed_table_reads_as_it_was_written(tmp_path: Path) -> None:
    frame = ordinary().with_columns(pl.col("day").cast(pl.String))
    frame.write_csv(tmp_path / "a.csv")
    with open_source(tmp_path / "a.csv") as source:
        assert source.typed().collect().equals(frame, null_equal=True)


@pytest.mark.parametrize("missing", ["\\N", "."])
def test_what_databases_and_sas_write_for_missing_numbers_is_missing(tmp_path: Path, missing: str) -> None:
    rows = "number,whole,truth,text\n1.5,?,true,a\n?,2,?,?\n-3,4,false,b\n"
    put_text(tmp_path / "empty.csv", rows.replace("?", ""))
    put_text(tmp_path / "a.csv", rows.replace("?", missing))
    with open_source(tmp_path / "empty.csv") as expected, open_source(tmp_path / "a.csv") as source:
        assert source.schema == expected.schema
        numbers = ["number", "whole", "truth"]
        assert source.typed(numbers).collect().equals(expected.typed(numbers).collect())
        assert source.typed(["text"]).collect()["text"].to_list() == ["a", missing, "b"]
