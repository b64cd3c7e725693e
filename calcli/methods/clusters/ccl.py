"""CCL, clustered calibration (Lavi, Shapira & Rappoport): a calibrator for each cluster of rows.

Rows are clustered by an `embedding`, such as the SHAP values of a model, and each cluster gets a calibrator that is
shrunk to that of all rows (`mixture`). A row is calibrated by the clusters near it, weighted by their distance
(`partition`). The temperature of these weights and the shrinkage are chosen by cross-validation (`tempering`), the
global calibrator alone among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.expressions import Inputs, Terms
from calcli.methods import catalog
from calcli.methods.base import SETTINGS, Params, Section, candidates, number
from calcli.methods.clusters import explanation, facts, partition
from calcli.methods.clusters import formula as clusters_formula
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.clusters.partition import Partition, shares
from calcli.methods.clusters.tempering import TAUS, TEMPERATURES, temper
from calcli.numeric.links import probabilities
from calcli.state import Json, State, nest, pack_texts, unnest


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    batch = batch.take(batch.weights > 0)
    # Cluster the rows, choose temperature and tau by cross-validation, fit on all rows.
    clusters, near = partition.fit(batch, sides, params, seed)
    name = inner_name(str(params["inner"]), batch.classes)
    inner = Inner(catalog.find(name), seed, number(params, "rows"), number(params, "prior"))
    temperatures, taus = candidates(params, "temperature", TEMPERATURES), candidates(params, "tau", TAUS)
    chosen = temper(batch, clusters, near, inner, temperatures, taus, seed)
    belongs = shares(near, chosen.temperature, clusters.spread)
    mixture = Mixture.fit(inner, batch.bare, belongs, len(clusters))
    # Statistics of the clusters, for `explain`.
    cluster = near.place[:, 0]
    probs = {"raw": probabilities(batch.score), "unified": chosen.everyone, "ccl": chosen.prob}
    known = facts.of_clusters(batch, cluster, len(clusters), probs)
    whole = nest({"partition": clusters.to_state(), "mixture": mixture.to_state()})
    tau: Json = None if math.isinf(chosen.tau) else chosen.tau
    chosen_params: dict[str, Json] = {
        SETTINGS: {"temperature": chosen.temperature, "tau": "inf" if tau is None else tau},
        "classes": batch.classes,
        "clusters": len(clusters),
        "inner": name,
        "embedding": str(params["embedding"]),
        "model": "model" in sides.blobs,
        "temperature": chosen.temperature,
        "tau": tau,
        "reaches_ends": number(params, "prior") == 0.0,
    }
    arrays = {
        "facts": known,
        "clustering": facts.of_clustering(batch, cluster, known),
        **pack_texts(facts.set_apart(batch, cluster, len(clusters)), "apart"),
    }
    return State({**whole.params, **chosen_params}, {**whole.arrays, **arrays}, whole.blobs)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    parts = unnest(state, ["partition", "mixture"])
    mixture = Mixture.of_state(parts["mixture"], str(state.params["inner"]))
    if state.params["tau"] is None:  # one calibrator for all rows was best
        return mixture.everyone.predict(Batch(batch.score))
    clusters = Partition.of_state(parts["partition"], sides)
    belongs = shares(clusters.near(batch), state.number("temperature"), clusters.spread)
    return mixture.predict(Batch(batch.score), belongs, state.number("tau"))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return clusters_formula.formula(state, score, features)


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
