"""RECAL: a temperature for each row, from its logits and those of related rows (Wang et al., EMNLP Findings 2023).

A graph over the calibration rows, two graph convolutions from their logits to one number, t = softplus of it, and
v' = v / t (Eq. 5): a row's classes keep their order. Trained on the mean log-loss + lambda times the mean of Eq. 7. By
default the network sees a row's own logits a second time, past the graph: a mean of neighbours has lost them.

Applied ``online`` each row joins the calibration rows alone, tied to its own neighbours both ways: the state keeps
these rows. Applied ``offline`` the rows of a table are a graph of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, Column, Edges, FloatArray, SideInputs
from calcli.errors import DataError
from calcli.methods.base import READS, WHOLE_TABLE, Params, Section
from calcli.methods.graphs import mixing
from calcli.methods.graphs.mixing import (
    GCN,
    LAPLACIAN,
    Adjacency,
    Cliques,
    Graph,
    Hidden,
    Network,
    Part,
    Scheme,
    logits,
    two_layers,
)
from calcli.methods.graphs.relation import (
    Neighbourhood,
    Relation,
    choose,
    edges_of,
    left_out,
    links_from,
    links_within,
    node_of,
)
from calcli.methods.graphs.training import Inputs, first_mixing, train
from calcli.numeric.links import probabilities
from calcli.numeric.seeded import row_keys
from calcli.state import Json, Numbers, Rules, State, pack_texts, unpack_texts

WEIGHTS = "weights.safetensors"

Arrays = Mapping[str, NDArray[np.generic]]


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    batch = _in_order(batch, seed)
    # The inputs of the network: scaled logits, and these mixed by the graph.
    scheme, values = _scheme(params["propagation"]), logits(batch.score)
    scale = float(np.average(np.abs(values).mean(axis=1), weights=batch.weights)) or 1.0
    values /= scale
    parts: dict[Part, FloatArray] = {}
    graph, offline = None, False
    columns: list[Json] = []
    facts: dict[str, Json] = {}
    kept: Arrays = {}
    if params["backbone"] == "gcn":
        related = choose(batch, sides, params, seed)
        graph = related.graph(batch, sides)
        parts["graph"] = first_mixing(graph, values, scheme)
        facts, columns = _facts(related, graph, batch, sides), list(related.columns)
        # Online, the state keeps what new rows are joined to.
        offline = params["apply"] == "offline"
        kept = {} if offline else _kept_rows(related, graph, batch, values, scheme)
    if params["skip"] or graph is None:
        parts["own"] = values
    # Train it.
    network, training = train(batch, Inputs(parts, scale, graph, scheme), params, seed)
    known: dict[str, Json] = {"propagation": str(params["propagation"]), READS: columns, WHOLE_TABLE: offline}
    return State({**known, **facts, **training}, kept, {WEIGHTS: network.to_bytes()})


def holds(classes: int) -> Rules:
    sums = {"size": Numbers(("n",), low=0.0, optional=True), "sums": Numbers(("n", "K"), optional=True)}
    # A row with a missing or infinite coordinate is nowhere, and has no neighbours.
    points = Numbers(("p", "d"), -np.inf, np.inf, optional=True, missing=True)
    return {**sums, "values": Numbers(("m", "K"), optional=True), "points": points}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    t = extras(state, batch, sides)["temperature"]
    return probabilities(batch.score / (t if batch.score.ndim == 1 else t[:, None]))


def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
    """The temperature of each row."""
    network, scheme = Network.from_bytes(state.blobs[WEIGHTS]), _scheme(state.params["propagation"])
    values = logits(batch.score) / network.scale
    mixed = None
    if network.graph is not None and network.graph.out.any():
        related = Relation.from_params(state.params)
        if state.params[WHOLE_TABLE]:
            mixed = two_layers(related.graph(batch, sides), values, scheme, network.graph)
        else:
            mixed = _joined(related, state, batch, values, sides, scheme, network.graph)
    return {"temperature": network.temperature(mixed, values)}


def explain(state: State) -> tuple[Section, ...]:
    """The relation and the training of the network."""
    known = state.params
    sections = [
        Section(
            "Training",
            ("rate", "lambda", "epochs", "started at T", "held-out nll at T", "held-out nll"),
            (tuple(known[name] for name in ("rate", "lambda", "epochs", "temperature", "before", "after")),),
            "0 epochs is the temperature T for every row." if known["epochs"] == 0 else "",
        )
    ]
    if "relation" in known:
        counts = ("rows", "links", "alone", "edges_given", "edges_left_out")
        names = tuple(name for name in counts if name in known)
        relation = Relation.from_params(known)
        row = (str(relation), *(known[name] for name in names))
        columns = ("linked by", *(name.replace("_", " ") for name in names))
        sections.insert(0, Section("Relation", columns, (row,)))
    return tuple(sections)


def remarks(state: State, sides: SideInputs, nodes: Column | None) -> tuple[str, ...]:
    """The relation, the edges that are left out, and whether the network is used."""
    if nodes is not None:
        return _link_remarks(state, sides, nodes)
    known, sentences = state.params, list[str]()
    if "relation" in known:
        sentences.append(f"recal links rows by {Relation.from_params(known)}")
    if known.get("edges_left_out"):
        given, left = int(state.number("edges_given")), int(state.number("edges_left_out"))
        sentences.append(f"{left:,} of {given:,} edges are left out: an end of theirs is none of the calibration rows")
    if known["epochs"] == 0:
        sentences.append(
            "on held-out rows the network was not better than the one temperature, so that is what is used"
        )
    return tuple(sentences)


def _link_remarks(state: State, sides: SideInputs, nodes: Column) -> tuple[str, ...]:
    """How the edge list links new rows."""
    edges = edges_of(sides)
    if state.params[WHOLE_TABLE]:
        links, to = links_within(edges, nodes), "each other"
        used = len(links.ends) // 2
    else:
        links, to = links_to_kept(state, nodes, edges), "calibration rows"
        used = len(links.ends)
    alone = int((links.degree == 0.0).sum())
    return (
        f"{used:,} of {len(edges):,} edges tie these rows to {to}, the others are left out; "
        f"{alone:,} of {len(links):,} rows have none",
    )


def _in_order(batch: Batch, seed: int) -> Batch:
    """The rows ordered by a hash of their values, so that their original order does not matter."""
    columns = [batch.score, batch.labels, batch.weights, *(column.values for column in batch.by_name.features.values())]
    if batch.node is not None:
        columns.append(batch.node.values)
    return batch.take(np.argsort(row_keys(np.column_stack(columns), seed, "recal order"), kind="stable"))


def _scheme(name: Json) -> Scheme:
    return LAPLACIAN if name == "laplacian" else GCN


def _facts(related: Relation, graph: Graph, batch: Batch, sides: SideInputs) -> dict[str, Json]:
    """The relation, and how many rows it links; an edge list must link some."""
    if isinstance(graph, Cliques):
        pairs, alone = float((graph.size * (graph.size - 1.0) / 2.0).sum()), int((graph.size == 1.0).sum())
    else:
        pairs, alone = len(graph.ends) / 2.0, int((graph.degree == 0.0).sum())
    facts: dict[str, Json] = {**related.to_params(), "rows": len(batch), "links": int(pairs), "alone": alone}
    if related.kind != "edges":
        return facts
    edges, node = edges_of(sides), node_of(batch)
    if not pairs:
        raise DataError(
            f"none of the {len(edges):,} edges links two of the {len(batch):,} rows",
            hint=f"ids of rows look like {_some(node.levels)}, ids in edges like {_some(edges.nodes)}",
        )
    return facts | {"edges_given": len(edges), "edges_left_out": left_out(edges, node)}


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) or "none"


def _kept_rows(related: Relation, graph: Graph, batch: Batch, values: FloatArray, scheme: Scheme) -> Arrays:
    """All that `_joined` needs to know of the rows of `batch`; `values` are their scaled logits."""
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
    node = node_of(batch)
    return {**kept, **pack_texts(node.levels, "nodes"), "node": node.values}


def _joined(
    related: Relation, kept: State, batch: Batch, new: FloatArray, sides: SideInputs, scheme: Scheme, hidden: Hidden
) -> FloatArray:
    """The output of the graph part for new rows, each joined to the kept rows alone; `new` are their scaled logits."""
    if related.kind == "value":
        group = related.groups(batch, unpack_texts(kept.arrays, "levels"))
        if scheme.loops:
            return mixing.join_by_mean(kept.array("size"), kept.array("sums"), group, new, hidden)
        start = kept.arrays["start"].astype(np.int64)
        return mixing.join_by_members(start, kept.array("values"), group, new, scheme, hidden)
    if related.kind == "nearest":
        neighbourhood = Neighbourhood(kept.array("points"), related.count, related.radius)
        joined = neighbourhood.links_from(related.points(batch))
    else:
        joined = links_to_kept(kept, node_of(batch), edges_of(sides))
    graph = Adjacency(kept.arrays["start"].astype(np.int64), kept.arrays["ends"].astype(np.int64))
    values = kept.array("values")
    graph.check(len(values))
    return mixing.join_by_links(graph, values, joined, new, scheme, hidden)


def links_to_kept(kept: State, nodes: Column, edges: Edges) -> Adjacency:
    """The kept rows that an edge list links new rows with these ids to."""
    node = Column("category", kept.arrays["node"].astype(np.int32), unpack_texts(kept.arrays, "nodes"))
    return links_from(edges, node, nodes)
