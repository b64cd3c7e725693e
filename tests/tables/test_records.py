"""Records of JSON: what is refused, what is read, and the text that passes through."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.errors import DataError
from calcli.tables import records, spool
from calcli.tables.records import RECORD, cut, extended
from calcli.tables.sink import write
from calcli.tables.source import open_source
from tests.support.tables import put_text

NAMES = st.text(st.sampled_from('ab"\\{}[],: é\n'), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(NAMES, inside, max_size=3),
    max_leaves=6,
)
RECORDS = st.dictionaries(NAMES, VALUES, max_size=4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": "x"}\n\n{"a": 1}\n', "'a' is text in line 1, a number in line 3"),
        ('{"a": 1}\n{"a": null}\n{"a": {}}\n', "'a' is a number in line 1, an object in line 3"),
        ('{"a": true}\n{"a": 1}\n', "'a' is a boolean in line 1, a number in line 2"),
        ('{"a": [1]}\n{"a": 1}\n{"a": "s"}\n', "'a' is a list in line 1, a number in line 2"),
        ('{"a": {"x": 1, "t": "x"}}\n{"a": {"x": "x"}}\n', r"'a\.x' is a number in line 1, text in line 2"),
        ('{"a": [-1.5, false, "x"]}\n', r"'a\[\]' is a number in line 1, a boolean in line 1"),
        ('{"a": [{"x": ["x"]}, {"x": [1]}]}\n', r"'a\[\]\.x\[\]' is text in line 1, a number in line 1"),
        (
            '{"a": 1, "c": {"d": 1}}\n{"a": 2, "c": 3}\n{"c": "x", "a": "y"}',
            "'a' is a number in line 1, text in line 3",
        ),
    ],
)
def test_a_key_that_mixes_types_is_refused_where_it_is_used(tmp_path: Path, text: str, words: str) -> None:
    lines = [line.replace("{", '{"b": 5, ', 1).replace(", }", "}") for line in text.splitlines() if line]
    for content, line in ((text, 0), ("\n".join(lines), 1)):
        with open_source(put_text(tmp_path / "a.jsonl", content)) as source:
            assert source.rows() == len(lines)
            if line:
                assert source.raw.select("b").collect()["b"].to_list() == [5] * len(lines)
            with pytest.raises(DataError, match="a.jsonl mixes types: " if line else f"a.jsonl mixes types: {words}"):
                list(source.chunks("a"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1}\n{"a": 0.2, "a": 0.99}\n', "line 2: the key 'a' stands twice in one record"),
        ('{"a": 1}\n{"a": 0.2, "\\u0061": 0.99}\n', "line 2: the key 'a' stands twice"),
        ('{"b": "x"}\n\n{"b": 1, "c": {"d": 1, "d": 1}}\n', "line 3: the key 'd' stands twice"),
        ('{"a": 1}\n{"a": 1,}\n', "line 2: "),
        ('{"a": 1}\n3\n', "line 2 is no object"),
        ('{"a": 1}\nnull\n', "line 2 is no object"),
        ('{"a": 1}{"a": 2}\n', "line 1: Extra data"),
        ('{"a":\n1}\n', "line 1: "),
        ('{"a": 1}\n{"a": 2', "line 2: .*was it cut off"),
    ],
)
def test_lines_that_are_no_records_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=f"a.jsonl, {words}"):
        list(open_source(put_text(tmp_path / "a.jsonl", text)).chunks("a"))


def test_the_second_file_is_checked_as_the_first(tmp_path: Path) -> None:
    put_text(tmp_path / "1.jsonl", '{"a": 1}\n')
    put_text(tmp_path / "2.jsonl", '{"a": 1, "a": 2}\n')
    with pytest.raises(DataError, match=r"2\.jsonl, line 1: the key 'a' stands twice"):
        open_source(tmp_path)


def test_records_that_pyarrow_refuses_are_no_hole_in_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "CHECKED_BLOCK", 16)
    long = json.dumps({"t": "x" * 40, "b": 1}) + "\n"
    with open_source(put_text(tmp_path / "a.jsonl", long + '{"b": 2}\n')) as source:
        assert source.raw.select("b").collect()["b"].to_list() == [1, 2]
    with pytest.raises(DataError, match="line 2: the key 'b' stands twice"):
        open_source(put_text(tmp_path / "b.jsonl", long + '{"b": 2, "b": 3}\n'))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_what_python_writes_is_read(tmp_path: Path, mark: str) -> None:
    rows = [
        {"a": math.nan, "b": 1, "t": 'NaN "NaN\\'},
        {"a": math.inf, "b": 2, "t": "Infinity, NaN"},
        {"a": 2.5, "b": 3, "c": {"d": [-math.inf, 1]}, "NaN": 1},
    ]
    expected = [
        {"a": None, "b": 1, "t": 'NaN "NaN\\', "c": None, "NaN": None},
        {"a": None, "b": 2, "t": "Infinity, NaN", "c": None, "NaN": None},
        {"a": 2.5, "b": 3, "t": None, "c": {"d": [None, 1]}, "NaN": 1},
    ]
    lines = mark + "".join(json.dumps(row) + "\n" for row in rows)
    for name, text in (("a.jsonl", lines), ("a.json", mark + json.dumps(rows))):
        with open_source(put_text(tmp_path / name, text)) as source:
            assert source.typed().collect().to_dicts() == expected


@pytest.mark.parametrize("chunk", [3, 8, 64])
def test_a_number_of_python_is_found_wherever_the_chunks_end(tmp_path: Path, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "CHUNK", chunk)
        for before in range(20):
            text = '{"' + "a" * before + '":'
            assert spool.has_constants(put_text(tmp_path / "a", f"{text}-Infinity}}"))
            assert spool.has_constants(put_text(tmp_path / "a", f"{text}NaN}}"))
            assert not spool.has_constants(put_text(tmp_path / "a", f"{text}null}}"))


@given(record=RECORDS, keep=st.sets(NAMES, max_size=3), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_a_record_keeps_what_it_had(record: dict[str, Any], keep: set[str], indent: int, ascii_only: bool) -> None:
    text = json.dumps(record, indent=indent, ensure_ascii=ascii_only)
    wanted = {name: value for name, value in record.items() if name in keep | {"a"}}
    assert json.loads(cut(text, keep | {"a"})) == wanted


@given(rows=st.lists(RECORDS, min_size=1, max_size=5), block=st.integers(1, 40), keep=st.none() | st.sets(NAMES))
def test_records_pass_with_one_key_more(
    tmp_path_factory, rows: list[dict[str, Any]], block: int, keep: set[str] | None
) -> None:
    """Python's parser is the oracle: the same keys and values, and the added key last."""
    folder = tmp_path_factory.getbasetemp()
    rows = [{**row, "n": index} for index, row in enumerate(rows)]
    path = put_text(folder / "rows.jsonl", "\r\n \n".join(map(json.dumps, rows)))
    with pytest.MonkeyPatch.context() as patch, open_source(path) as source:
        patch.setattr(records, "BLOCK", block)
        assert source.records is not None
        frame = source.records.select(RECORD, "n").with_columns(new=pl.col("n") / 2)
        for name in ("out.jsonl", "out.json"):
            write(extended(frame, ["new"], keep), folder / name)
    text = (folder / "out.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    kept = [{name: value for name, value in row.items() if keep is None or name in keep} for row in rows]
    assert found == [{**row, "new": index / 2} for index, row in enumerate(kept)]
    assert json.loads((folder / "out.json").read_text()) == found
    pairs = zip(text.splitlines(), map(json.dumps, rows), strict=True)
    assert keep is not None or all(line.startswith(before[:-1]) for line, before in pairs)
