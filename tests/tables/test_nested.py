"""Columns that a path names."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from calcli.errors import DataError
from calcli.tables.binding import bind_unscored
from calcli.tables.binding_types import Flags
from calcli.tables.features import model_features
from calcli.tables.source import Source, open_source
from tests.support.tables import put, put_text

ROWS = [
    {"id": "a", "out": {"lp": [-0.5, -2.0], "a.b": {"c": 1}}, "resps": [["-0.25", "x"]], "a.b": 7},
    {"id": "b", "out": {"lp": [], "a.b": None}, "resps": [], "a.b": 8},
    {"id": "c", "out": None, "resps": [["?", "y"], ["-1", "z"]], "a.b": 9},
]

Open = Callable[[Path], Source]


@pytest.fixture(params=["ndjson", "parquet", "ipc", "polars", "arrow"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Source:
    frame = pl.DataFrame(ROWS)
    if request.param in ("polars", "arrow"):
        return open_source(frame if request.param == "polars" else frame.to_arrow())
    return open_source(put(tmp_path / f"rows.{request.param}", frame))


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("out.lp[0]", [-0.5, None, None]),
        ("out.lp[1]", [-2.0, None, None]),
        ("out.lp[-1]", [-2.0, None, None]),
        ("out.lp[99]", [None, None, None]),
        ("out.a.b.c", [1, None, None]),
        ("resps[0][1]", ["x", None, "y"]),
        ("exp(out.lp[0])", [math.exp(-0.5), None, None]),
        ("exp(resps[0][0])", [math.exp(-0.25), None, None]),
        ("exp(a.b)", [math.exp(7), math.exp(8), math.exp(9)]),
        ("a.b", [7, 8, 9]),
    ],
)
def test_a_path_names_what_python_finds_there(source: Source, path: str, values: list[object]) -> None:
    source.find(path)
    for frame in (source.raw, source.typed([path])):
        found = frame.select(path).collect()
        assert found[path].to_list() == pytest.approx(values)
        assert found.schema[path] == source.schema[path]
    assert path in source.columns
    assert source.stored == ("id", "out", "resps", "a.b")


def test_a_column_of_that_very_name_wins() -> None:
    with open_source(pl.DataFrame({"a": [{"b": 1}], "a.b": [2], "exp(a.b)": [3]})) as source:
        source.find("a.b", "exp(a.b)", "nothing", "a_b.c")
        assert source.columns == ("a", "a.b", "exp(a.b)")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("out.lps[0]", r"out\.lps\[0\]: no field of 'out': 'lps'; did you mean 'lp'\? available: lp, a\.b"),
        ("out.lp.x", r"'out\.lp' is List\(Float64\), which has no '\.x'; name an item of it, as in out\.lp\[0\]"),
        ("out[0]", r"'out' is Struct.*, which has no '\[0\]'; name a field of it, as in out\.lp"),
        ("out.lp[x]", r"'out\.lp' is List.*, which has no '\[x\]'"),
        ("out.lp[0].x", r"'out\.lp\[0\]' is Float64, which has no '\.x'"),
        ("exp(out.lp)", r"exp\(out\.lp\): 'out\.lp' is List\(Float64\), not a number; name an item of it"),
        ("exp(" * 9999 + ")" * 9999, r"no column"),
        ("exp(ids)", r"exp\(ids\): no column 'ids'; did you mean 'id'\? available: id,"),
    ],
)
def test_a_path_that_ends_nowhere_is_refused(source: Source, path: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        source.find(path)
    source.find(path, known=True)
    assert source.columns == source.stored


def test_files_of_json_whose_records_have_other_fields_are_one_table(tmp_path: Path) -> None:
    one = put_text(tmp_path / "1.jsonl", '{"doc": {"q": 1, "of": [{"x": 1}]}}\n')
    two = put_text(tmp_path / "2.jsonl", '{"doc": {"of": [{"y": "b"}], "q": 1.5}}\n{"doc": null}\n')
    with open_source([one, two]) as source:
        source.find("doc.of[0].y", "doc.q")
        assert source.raw.select("doc.of[0].y", "doc.q").collect().rows() == [(None, 1.0), ("b", 1.5), (None, None)]
    text = put_text(tmp_path / "3.jsonl", '{"doc": {"q": "one"}}\n')
    with pytest.raises(DataError, match=r"column 'doc' is Struct.* in .*3\.jsonl, but Struct"):
        open_source([one, text]).raw.select("doc").collect()


def test_a_table_without_a_score_is_bound_by_paths() -> None:
    frame = pl.DataFrame({"doc": [{"x": 1.5, "z": 1.0}, {"x": 2.5, "z": 2.0}], "m": [{"y": 0}, {"y": 1}]})
    with open_source(frame) as source:
        binding = bind_unscored(source, Flags(label="m.y", features=("doc.x",)))
        assert (binding.label, [feature.name for feature in binding.features]) == ("m.y", ["doc.x"])
        assert [one.name for one in model_features(source, ["doc.x", "doc.z"], (), None)] == ["doc.x", "doc.z"]
