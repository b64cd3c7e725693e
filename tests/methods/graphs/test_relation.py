"""Graphs over rows: who is linked, and what a layer makes of it, beside adjacency matrices written out."""

from __future__ import annotations

import numpy as np
import pytest

from calcli.batch import Batch, Column, Edges, SideInputs
from calcli.errors import DataError, UsageError
from calcli.methods import catalog
from calcli.methods.graphs.mixing import GCN, LAPLACIAN, Adjacency, Cliques, Scheme
from calcli.methods.graphs.relation import Neighbourhood, Relation, choose, links_from, links_within
from calcli.methods.graphs.training import first_mixing, second_mixing
from tests.support.graphs import mixing, nearest

SCHEMES = pytest.mark.parametrize("scheme", [GCN, LAPLACIAN], ids=["gcn", "laplacian"])


def adjacency_of(links: Adjacency) -> np.ndarray:
    found = np.zeros((len(links), len(links)))
    found[links.sources, links.ends] = 1.0
    return found


def random_links(rows: int, edges: int, seed: int) -> Adjacency:
    one, other = np.random.default_rng(seed).integers(0, rows, (2, edges))
    return Adjacency.both_ways(one, other, rows)


def pairs_of(links: Adjacency) -> list[tuple[int, int]]:
    return list(zip(links.sources.tolist(), links.ends.tolist(), strict=True))


def test_one_way_repeated_and_looped_edges_become_an_undirected_graph() -> None:
    one, other = np.array([0, 0, 2, 1, 3, 3]), np.array([1, 1, 0, 0, 3, 3])
    links = Adjacency.both_ways(one, other, 5)
    assert pairs_of(links) == [(0, 1), (0, 2), (1, 0), (2, 0)]
    np.testing.assert_array_equal(links.degree, [2, 1, 1, 0, 0])


def test_a_graph_can_have_no_edges_and_no_rows() -> None:
    nothing = np.empty(0, dtype=np.int64)
    for rows in (0, 3):
        links = Adjacency.both_ways(nothing, nothing, rows)
        np.testing.assert_array_equal(links.spread(np.ones((rows, 2)), GCN), np.ones((rows, 2)))


@SCHEMES
@pytest.mark.parametrize("seed", range(5))
def test_a_layer_multiplies_by_the_normalised_adjacency(scheme: Scheme, seed: int) -> None:
    links = random_links(12, 14, seed)
    values = np.random.default_rng(seed).normal(size=(12, 3))
    expected = mixing(adjacency_of(links), scheme) @ values
    np.testing.assert_allclose(links.spread(values, scheme), expected, rtol=0, atol=1e-13)


@SCHEMES
def test_a_clique_is_mixed_as_if_its_edges_were_there(scheme: Scheme) -> None:
    group = np.array([0, 1, 1, 4, 1, 4, 2])  # of two, three and one rows, and groups without any
    values = np.random.default_rng(0).normal(size=(7, 3))
    adjacency = (group[:, None] == group[None, :]) - np.eye(7)
    expected = mixing(adjacency, scheme) @ values
    np.testing.assert_allclose(Cliques(group, 6).spread(values, scheme), expected, rtol=0, atol=1e-13)


@SCHEMES
@pytest.mark.parametrize(
    "graph", [random_links(12, 14, 3), Cliques(np.arange(12) % 5 % 4, 6)], ids=["links", "cliques"]
)
def test_the_network_learns_with_the_layers_that_it_is_applied_with(scheme: Scheme, graph: Adjacency | Cliques) -> None:
    """Training mixes by torch-geometric, or by means of groups; applying by NumPy."""
    import torch

    values = np.random.default_rng(1).normal(size=(12, 2))
    once = graph.spread(values, scheme)
    first, mix = first_mixing(graph, values, scheme), second_mixing(graph, scheme, torch.device("cpu"))
    if isinstance(graph, Cliques) and scheme is GCN:
        np.testing.assert_allclose(first[graph.group], once, rtol=0, atol=1e-13)
    else:
        np.testing.assert_allclose(first, once, rtol=0, atol=1e-13)
    twice = mix(torch.as_tensor(np.square(first))).numpy()
    np.testing.assert_allclose(twice, graph.spread(np.square(once), scheme), rtol=0, atol=1e-13)


@pytest.mark.parametrize("radius", [None, 0.35])
@pytest.mark.parametrize("kind", ["grid", "few places", "anywhere"])
@pytest.mark.parametrize("rows", [1, 4, 40])
def test_the_nearest_rows_are_those_that_brute_force_finds(rows: int, kind: str, radius: float | None) -> None:
    for seed in range(8):
        rng = np.random.default_rng(seed)
        columns, count = int(rng.integers(1, 4)), int(rng.integers(1, 8))

        def points(size: int) -> np.ndarray:
            found = rng.normal(size=(size, columns))  # noqa: B023 called in this very turn
            if kind != "anywhere":
                found = rng.integers(0, 8 if kind == "grid" else 2, (size, columns)) / 10  # noqa: B023
            found[rng.random(found.shape) < 0.06] = np.nan  # noqa: B023
            return found

        there, new = points(rows), points(15)
        space = Neighbourhood(there, count, radius)
        expected = [(i, j) for i, point in enumerate(new) for j in sorted(nearest(there, point, count, radius, None))]
        assert pairs_of(space.links_from(new)) == expected
        one_way = {(i, j) for i, point in enumerate(there) for j in nearest(there, point, count, radius, i)}
        assert pairs_of(space.links()) == sorted(one_way | {(j, i) for i, j in one_way})


def test_many_rows_in_one_place_cost_no_square() -> None:
    """A hundred thousand rows at three places: pairs of rows would not fit into memory."""
    there = np.repeat([[0.0], [1.0], [2.5]], [50_000, 49_999, 1], axis=0)
    links = Neighbourhood(there, 3).links()
    assert pairs_of(links.take(np.array([49_999])))[0:3] == [(0, 0), (0, 1), (0, 2)]
    np.testing.assert_array_equal(links.ends[links.start[99_999] :], [50_000, 50_001, 50_002])


def column(*names: str | None) -> Column:
    levels = tuple(sorted({name for name in names if name is not None}))
    return Column(
        "category", np.array([-1 if name is None else levels.index(name) for name in names], np.int32), levels
    )


EDGES = Edges(("a", "b", "c", "d", "e"), np.array([[0, 1], [1, 0], [1, 2], [2, 2], [2, 4], [3, 4], [0, -1]]))


def test_edges_link_the_rows_of_their_nodes_and_the_others_are_left_out() -> None:
    links = links_within(EDGES, column("c", None, "b", "z", "a"))
    assert pairs_of(links) == [(0, 2), (2, 0), (2, 4), (4, 2)]


def test_a_new_row_is_tied_to_rows_of_other_nodes() -> None:
    new = column("e", "b", None, "z", "b", "d")
    links = links_from(EDGES, column("c", "b", "a"), new)
    assert pairs_of(links) == [(0, 0), (1, 0), (1, 2), (4, 0), (4, 2)]  # e-c, b-c, b-a, not b with itself


def test_a_node_in_two_rows_is_an_error() -> None:
    with pytest.raises(DataError, match="the node 'b' occurs in 2 rows"):
        links_within(EDGES, column("b", "c", "b"))


def rows(**features: Column) -> Batch:
    return Batch(np.zeros(3), np.array([0, 1, 0]), features=features)


NUMBER = Column("number", np.arange(3.0))
PLACE = Column("category", np.array([0, 1, -1], np.int32), ("a", "b"))
FLAG = Column("boolean", np.array([1.0, 0.0, np.nan]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("column:x", Relation("nearest", ("x",), 5)),
        ("column:place", Relation("value", ("place",))),
        ("column:flag", Relation("value", ("flag",))),
        ('knn:x, "a,b"', Relation("nearest", ("x", "a,b"), 5)),
    ],
)
def test_a_relation_is_read(text: str, expected: Relation) -> None:
    batch = rows(x=NUMBER, place=PLACE, flag=FLAG, **{"a,b": NUMBER})
    params = catalog.find("recal").resolve({"relation": text})
    assert choose(batch, SideInputs(), params, 0) == expected
    assert Relation.from_params(expected.to_params()) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colum:x", "relation=colum:x is none of auto, column:NAME, knn:A,B and edges"),
        ("knn:", "is none of"),
        ("column:x,flag", "is none of"),
        ("column:y", "no feature 'y'; available: x, place, flag"),
        ("knn:x,place", "'place' is not numeric"),
        ("edges", "needs an edge list; try: --edges"),
        ("edges:list.csv", "files are named by flags"),
    ],
)
def test_a_relation_that_cannot_be_is_named(text: str, message: str) -> None:
    batch = rows(x=NUMBER, place=PLACE, flag=FLAG)
    with pytest.raises(UsageError, match=message):
        choose(batch, SideInputs(), catalog.find("recal").resolve({"relation": text}), 0)


def test_edges_are_the_relation_where_they_are_given() -> None:
    batch = Batch(np.zeros(3), np.array([0, 1, 0]), node=column("a", "b", "c"))
    row = catalog.find("recal")
    assert choose(batch, SideInputs(edges=EDGES), row.resolve(), 0) == Relation("edges")
    with pytest.raises(UsageError, match="--edges is given, but relation=column:x does not use it"):
        choose(batch, SideInputs(edges=EDGES), row.resolve({"relation": "column:x"}), 0)
    with pytest.raises(UsageError, match="no column holds the node ids of the rows"):
        choose(rows(x=NUMBER), SideInputs(edges=EDGES), row.resolve(), 0)


def test_missing_and_unseen_values_are_groups_of_their_own() -> None:
    new = Batch(np.zeros(4), features={"place": Column("category", np.array([1, -1, 0, 2], np.int32), ("b", "c", "z"))})
    np.testing.assert_array_equal(Relation("value", ("place",)).groups(new, ("a", "b", "c")), [2, 3, 1, 4])
    flags = Batch(np.zeros(3), features={"flag": FLAG})
    np.testing.assert_array_equal(Relation("value", ("flag",)).groups(flags, ("false", "true")), [1, 0, 2])
