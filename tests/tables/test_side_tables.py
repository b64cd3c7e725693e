"""Edge lists and ids of nodes, in whatever types and formats they come."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calcli.errors import DataError
from calcli.tables.binding import bind
from calcli.tables.binding_types import Flags
from calcli.tables.load import load
from calcli.tables.side_tables import load_edges, load_nodes
from calcli.tables.source import open_source


def edges_of(frame: pl.DataFrame) -> list[tuple[str | None, str | None]]:
    with open_source(frame) as source:
        edges = load_edges(source)
    names = (*edges.nodes, None)
    assert list(edges.nodes) == sorted(set(edges.nodes))
    return [(names[one], names[other]) for one, other in edges.pairs]


@pytest.mark.parametrize("names", [("src", "dst"), ("source", "target"), ("from", "to")])
def test_the_ends_are_found_by_name(names: tuple[str, str]) -> None:
    frame = pl.DataFrame({"w": [0.5, 0.1], names[1]: ["b", "c"], names[0]: ["a", "b"]})
    assert edges_of(frame) == [("a", "b"), ("b", "c")]


def test_two_columns_of_any_name_are_the_ends_and_a_missing_end_stays_missing() -> None:
    assert edges_of(pl.DataFrame({"u": [1, None], "v": [None, 2]})) == [("1", None), (None, "2")]
    said = "is not an edge list: it has the columns a, b, c; name the two ends src and dst"
    with pytest.raises(DataError, match=said):
        edges_of(pl.DataFrame({"a": [1], "b": [2], "c": [3]}))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt64, pl.Float64, pl.String, pl.Categorical])
def test_an_id_is_the_same_in_every_type(dtype: pl.DataType) -> None:
    values = pl.Series(["7", "12", None]).cast(pl.Int64)
    values = values.cast(pl.String).cast(dtype) if dtype in (pl.String, pl.Categorical) else values.cast(dtype)
    assert edges_of(pl.DataFrame({"src": values, "dst": values})) == [("7", "7"), ("12", "12"), (None, None)]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.5], "numbers with fractions"),
        ([float("inf")], "fractions"),
        ([[1]], r"ids of nodes: the column 'src' is List"),
    ],
)
def test_what_cannot_be_an_id_is_named(values: list[object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        edges_of(pl.DataFrame({"src": values, "dst": values}))


def test_text_files_keep_leading_zeros(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("src,dst\n007,7\n")
    with open_source(path) as source:
        assert load_edges(source).nodes == ("007", "7")


def test_ids_are_read_with_the_rows_and_are_no_feature() -> None:
    frame = pl.DataFrame({"county": [3, 1, None], "x": [0.5, 0.1, 0.5], "label": [0, 1, 1], "logit": [0.1, 2.0, -3.0]})
    with open_source(frame) as source:
        binding = bind(source, Flags(node_id="county"), features=True)
        batch = load(source, binding, features=True).batch
        assert binding.node_id == "county"
        assert list(batch.features) == ["x"]
        assert batch.node is not None
        assert [batch.node.levels[code] if code >= 0 else None for code in batch.node.values] == ["3", "1", None]
        np.testing.assert_array_equal(batch.take(np.array([1])).node.values, batch.node.values[[1]])
        np.testing.assert_array_equal(load_nodes(source, "county").values, batch.node.values)
        with pytest.raises(DataError, match=r"--node-id: no column 'count'.*'county'"):
            bind(source, Flags(node_id="count"), features=False)
