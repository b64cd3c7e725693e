"""Columns that a path names."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError
from calcli.tables.binding import bind, bind_score, bind_unscored
from calcli.tables.binding_types import Flags, Score
from calcli.tables.features import model_features
from calcli.tables.load import load
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
        ("percent(a.b)", [0.07, 0.08, 0.09]),
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


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_percentages_are_probabilities_divided_by_a_hundred(as_text: bool, classes: int) -> None:
    prob = np.random.default_rng(0).dirichlet(np.ones(classes), 60).round(3)
    columns = {f"q_{index}": prob[:, index] for index in range(classes)} if classes > 2 else {"q": prob[:, 1]}
    held = {
        name: [f"{100 * one:.1f} %" for one in values] if as_text else 100 * values for name, values in columns.items()
    }
    label = pl.Series("label", np.arange(60) % classes)
    batches = []
    for frame, flags in ((pl.DataFrame(held), Flags(percent="q")), (pl.DataFrame(columns), Flags(prob="q"))):
        with open_source(frame.insert_column(0, label)) as source:
            batches.append(load(source, bind(source, flags), features=True).batch)
    np.testing.assert_allclose(batches[0].score, batches[1].score, rtol=1e-12)
    assert not batches[0].features


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


THREE = np.random.default_rng(0).dirichlet(np.ones(3), size=60)
LABEL = [0, 1, 2] * 20
VECTORS = [{"type": 1, "size": None, "indices": None, "values": row} for row in THREE.tolist()]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (pl.Series(THREE.tolist()), ["{}[0]", "{}[1]", "{}[2]"]),
        (pl.Series(THREE.tolist(), dtype=pl.Array(pl.Float64, 3)), ["{}[0]", "{}[1]", "{}[2]"]),
        (pl.DataFrame(THREE[:, ::-1], schema=["2", "1", "0"]).to_struct(), ["{}.0", "{}.1", "{}.2"]),
        (pl.Series(VECTORS), ["{}.values[0]", "{}.values[1]", "{}.values[2]"]),
    ],
    ids=["list", "array", "struct", "vector of Spark"],
)
@pytest.mark.parametrize("name", ["probs", "probability"])
def test_the_classes_in_one_nested_column_are_read_as_columns_are(
    tmp_path: Path, values: pl.Series, names: list[str], name: str
) -> None:
    flat = open_source(pl.DataFrame(THREE, schema=["p_0", "p_1", "p_2"]).with_columns(label=pl.Series(LABEL)))
    expected = load(flat, bind(flat, features=False), features=False).batch
    frame = pl.DataFrame({"label": LABEL, "prediction": [float(one) for one in LABEL], name: values})
    flags = Flags() if name == "probability" else Flags(prob=name)
    for suffix in ("parquet", "ndjson", "ipc") if name == "probs" else ("parquet",):
        with open_source(put(tmp_path / f"a.{suffix}", frame)) as source:
            binding = bind(source, flags)
            found = load(source, binding, features=False).batch
            assert binding.score == Score("prob", tuple(one.format(name) for one in names))
            assert binding.features == ()
            np.testing.assert_array_equal(found.score, expected.score)
        with open_source(tmp_path / f"a.{suffix}") as source:
            again = load(source, bind(source, known=binding, features=False), features=False).batch
            np.testing.assert_array_equal(again.score, expected.score)
            assert bind_score(source, binding, name).score == binding.score


def test_a_nested_column_of_two_classes_or_of_text_and_a_sparse_one() -> None:
    two = pl.DataFrame({"label": ["no", "yes"] * 10, "probs": [{"no": 0.4, "yes": 0.6}] * 20})
    assert bind(open_source(two), Flags(prob="probs"), features=False).score.columns == ("probs.no", "probs.yes")
    text = pl.DataFrame({"label": ["a", "b", "c"] * 20, "probs": THREE.tolist()})
    with pytest.raises(DataError, match=r"'probs' holds 3 items, which are not the classes a, b, c; .*--classes a,b,c"):
        bind(open_source(text), Flags(prob="probs"))
    chosen = bind(open_source(text), Flags(prob="probs", classes=("c", "a", "b")), features=False)
    assert (chosen.classes, chosen.score.columns) == (("c", "a", "b"), ("probs[0]", "probs[1]", "probs[2]"))
    sparse = [{**VECTORS[0], "type": 0, "size": 3, "indices": [0, 2], "values": [0.5, 0.5]}, *VECTORS[1:]]
    with pytest.raises(DataError, match=r"'probs.values' holds lists of 2 to 3 items"):
        bind(open_source(pl.DataFrame({"label": LABEL, "probs": sparse})), Flags(prob="probs"))
