"""JSON arrays of objects: read like lines, and written as arrays."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calcli.errors import DataError
from calcli.tables import spool
from calcli.tables.sink import write
from calcli.tables.source import open_source
from tests.support.tables import ordinary, put, put_text

VALUES = st.one_of(
    st.none(), st.integers(-(2**60), 2**60), st.text(max_size=5), st.lists(st.integers(0, 9), max_size=2)
)


@given(
    rows=st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=5),
    chunk=st.integers(1, 9),
    indent=st.sampled_from([None, 0, 2]),
)
def test_every_object_becomes_a_line(tmp_path_factory, rows: list[dict[str, object]], chunk: int, indent: int) -> None:
    path = tmp_path_factory.getbasetemp() / "array.json"
    put_text(path, json.dumps(rows, indent=indent, ensure_ascii=False))
    assert spool.is_array(path)
    with pytest.MonkeyPatch.context() as patch, path.open() as stream:
        patch.setattr(spool, "CHUNK", chunk)
        lines = list(spool.lines_of(stream, "a"))
    assert [json.loads(line) for line in lines] == rows
    assert all(line.endswith("\n") and "\n" not in line[:-1] for line in lines)


@pytest.mark.parametrize("name", ["a.json", "a.ndjson", "a.json.gz"])
def test_arrays_are_read_like_lines(tmp_path: Path, name: str) -> None:
    frame = ordinary().drop("day")
    with open_source(put(tmp_path / "lines.ndjson", frame)) as lines:
        expected = lines.typed().collect()
    write(frame.lazy(), tmp_path / name, format="json")
    with open_source(tmp_path / name) as source:
        assert source.typed().collect().equals(expected, null_equal=True)


@pytest.mark.parametrize("rows", [0, 1, 3, 110_000])
def test_arrays_are_written_whole(tmp_path: Path, rows: int) -> None:
    frame = pl.DataFrame({"a": range(rows), "b": ['x\n"], ['] * rows})
    write(frame.lazy(), tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text()) == frame.to_dicts()


def test_lines_may_stand_in_a_file_named_json_where_numbers_stay_as_they_are_and_nan_is_null(tmp_path: Path) -> None:
    with open_source(put_text(tmp_path / "lines.json", '{"a": 1}\n{"a": null}\n')) as source:
        assert source.typed().collect()["a"].to_list() == [1, None]
    text = '[{"a": 0.1000000000000000055511151231257827, "b": 1}, {"a": NaN, "b": 12345678901234567}]'
    with open_source(put_text(tmp_path / "a.json", text)) as source:
        assert source.typed().collect().rows() == [(0.1, 1), (None, 12345678901234567)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"a": 1}', "it ends without ','"),
        ('[{"a": 1},', "element 2"),
        ('[{"a": 1},]', "a comma before its end"),
        ('[{"a": 1} {"a": 2}]', "'{' in place of ','"),
        ('[{"a": 1}] x', "text after its end"),
        ("[1, 2]", "element 1 is not an object"),
        ('[{"a": 1}, [2]]', "element 2 is not an object"),
        ("[" * 100_000, "element 1 is nested too deeply"),
        ("[]", "is empty"),
    ],
)
def test_what_is_no_array_of_objects_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        open_source(put_text(tmp_path / "a.json", text))
