"""The calibration rows that a state keeps, and how new rows join their graph, each on its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, Edges, FloatArray, SideInputs
from calcli.methods.graphs import adjacency as links
from calcli.methods.graphs import cliques, relation
from calcli.methods.graphs.adjacency import Adjacency
from calcli.methods.graphs.cliques import Cliques
from calcli.methods.graphs.nearest import Neighbourhood
from calcli.methods.graphs.relation import Relation
from calcli.methods.graphs.scheme import Hidden, Scheme
from calcli.state import pack_texts, unpack_texts

Arrays = Mapping[str, NDArray[np.generic]]


def keep(related: Relation, graph: Adjacency | Cliques, batch: Batch, values: FloatArray, scheme: Scheme) -> Arrays:
    """All that `join` needs of the rows of `batch`; `values` are their scaled logits."""
    if isinstance(graph, Cliques):
        levels = pack_texts(related.levels(batch), "levels")
        if scheme.loops:
            return {**levels, "size": graph.size, "sums": graph.sums(values)}
        order = np.argsort(graph.group, kind="stable")
        start = np.concatenate([[0], np.cumsum(np.bincount(graph.group, minlength=graph.count))])
        return {**levels, "start": start, "values": values[order]}
    kept = {"start": graph.start, "ends": graph.ends, "values": values}
    if related.kind == "nearest":
        return {**kept, "points": related.points(batch)}
    node = relation.node_of(batch)
    return {**kept, **pack_texts(node.levels, "nodes"), "node": node.values}


def join(
    related: Relation, kept: Arrays, batch: Batch, new: FloatArray, sides: SideInputs, scheme: Scheme, hidden: Hidden
) -> FloatArray:
    """The output of the graph part for new rows, each joined to the kept rows alone; `new` are their scaled logits."""
    if related.kind == "value":
        group = related.groups(batch, unpack_texts(kept, "levels"))
        if scheme.loops:
            return cliques.two_layers_alone(_floats(kept["size"]), _floats(kept["sums"]), group, new, hidden)
        start = kept["start"].astype(np.int64)
        return cliques.two_layers_against(start, _floats(kept["values"]), group, new, scheme, hidden)
    if related.kind == "nearest":
        neighbourhood = Neighbourhood(_floats(kept["points"]), related.count, related.radius)
        joined = neighbourhood.links_from(related.points(batch))
    else:
        joined = links_to_kept(kept, relation.node_of(batch), relation.edges_of(sides))
    graph = Adjacency(kept["start"].astype(np.int64), kept["ends"].astype(np.int64))
    graph.check(len(kept["values"]))
    return links.two_layers_alone(graph, _floats(kept["values"]), joined, new, scheme, hidden)


def links_to_kept(kept: Arrays, nodes: Column, edges: Edges) -> Adjacency:
    """The kept rows that an edge list links new rows with these ids to."""
    node = Column("category", kept["node"].astype(np.int32), unpack_texts(kept, "nodes"))
    return relation.links_from(edges, node, nodes)


def _floats(array: NDArray[np.generic]) -> FloatArray:
    return array.astype(np.float64, copy=False)
