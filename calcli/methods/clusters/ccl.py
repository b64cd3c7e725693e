"""CCL, clustered calibration (Lavi, Shapira & Rappoport): a calibrator for each cluster of rows.

Rows are clustered by how a model sees them (`embedding`), each cluster gets a calibrator (`mixture`). A row takes those
of the clusters near it, by how near they are (`partition`), and each is shrunk to the one fitted on all rows. How soft
and how strongly is chosen on held-out rows (`tempering`), the global calibrator alone among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.methods import catalog
from calcli.methods.base import Params, Section, number
from calcli.methods.clusters import explanation, facts, partition
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.clusters.partition import Partition, shares
from calcli.methods.clusters.tempering import TAUS, TEMPERATURES, temper
from calcli.numeric.links import probabilities
from calcli.state import Json, State, nest, pack_texts, unnest


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    batch = batch.take(batch.weights > 0)
    clusters, near = partition.fit(batch, sides, params, seed)
    name = inner_name(str(params["inner"]), batch.classes)
    inner = Inner(catalog.find(name), seed, number(params, "rows"), number(params, "prior"))
    temperatures, taus = _tried(params, "temperature", TEMPERATURES), _tried(params, "tau", TAUS)
    chosen = temper(batch, clusters, near, inner, temperatures, taus, seed)
    bare = Batch(batch.score, batch.label, batch.weight)
    belongs = shares(near, chosen.temperature, clusters.spread)
    mixture = Mixture.fit(inner, bare, belongs, len(clusters))
    cluster = near.place[:, 0]
    probs = {"raw": probabilities(batch.score), "unified": chosen.everyone, "ccl": chosen.prob}
    known = facts.of_clusters(batch, cluster, len(clusters), probs)
    whole = nest({"partition": clusters.to_state(), "mixture": mixture.to_state()})
    told: dict[str, Json] = {
        "classes": batch.classes,
        "clusters": len(clusters),
        "inner": name,
        "embedding": str(params["embedding"]),
        "model": "model" in sides.blobs,
        "temperature": chosen.temperature,
        "tau": None if math.isinf(chosen.tau) else chosen.tau,
        "reaches_ends": number(params, "prior") == 0.0,
    }
    arrays = {
        "facts": known,
        "clustering": facts.of_clustering(batch, cluster, known),
        **pack_texts(facts.set_apart(batch, cluster, len(clusters)), "apart"),
    }
    return State({**whole.params, **told}, {**whole.arrays, **arrays}, whole.blobs)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    parts = unnest(state, ["partition", "mixture"])
    clusters = Partition.of_state(parts["partition"], sides)
    mixture = Mixture.of_state(parts["mixture"], str(state.params["inner"]))
    belongs = shares(clusters.near(batch), state.number("temperature"), clusters.spread)
    tau = math.inf if state.params["tau"] is None else state.number("tau")
    return mixture.predict(Batch(batch.score), belongs, tau)


def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
    """The cluster whose centroid is nearest."""
    clusters = Partition.of_state(unnest(state, ["partition"])["partition"], sides)
    return {"cluster": clusters.near(batch, 1).place[:, 0].astype(np.float64)}


def explain(state: State) -> tuple[Section, ...]:
    """The clusters."""
    return explanation.sections(state)


def inner_name(asked: str, classes: int) -> str:
    """The method that calibrates clusters; ``auto`` is `platt` for two classes and `temperature` for more."""
    return asked if asked != "auto" else "platt" if classes == 2 else "temperature"


def _tried(params: Params, name: str, all_of_them: Sequence[float]) -> Sequence[float]:
    """The values among which cross-validation chooses."""
    value = params[name]
    if value == "auto":
        return all_of_them
    return (math.inf,) if value == "inf" else (number(params, name),)
