"""CCL, clustered calibration (Lavi, Shapira & Rappoport): a calibrator for each cluster of rows.

Rows are clustered by an `embedding`, such as the SHAP values of a model, and each cluster gets a calibrator that is
shrunk to that of all rows (`mixture`). A row is calibrated by the clusters near it, weighted by their distance
(`partition`). The temperature of these weights and the shrinkage are chosen by cross-validation, the global calibrator
alone among the candidates. Clusters of columns have a formula too: the distances of a row to the centroids, and the
calibrators of the nearest ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, FloatArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import MOST, Every, Inputs, Number, Switch, Term, Terms
from calcli.learners.encoding import Encoding, on_grid
from calcli.methods import catalog
from calcli.methods.base import SETTINGS, Params, Section, candidates, number, own_share
from calcli.methods.calibrator import FittedMethod, formula_of, score_formula_of
from calcli.methods.clusters import explanation, partition
from calcli.methods.clusters.mixture import TAUS, TEMPERATURES, Inner, Mixture, temper
from calcli.methods.clusters.partition import NEAREST, NEGLIGIBLE, Partition, Plain, shares
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
    known = explanation.of_clusters(batch, cluster, len(clusters), probs)
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
        "clustering": explanation.of_clustering(batch, cluster, known),
        **pack_texts(explanation.set_apart(batch, cluster, len(clusters)), "apart"),
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


def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
    """The cluster whose centroid is nearest."""
    clusters = Partition.of_state(unnest(state, ["partition"])["partition"], sides)
    return {"cluster": clusters.near(batch, 1).place[:, 0].astype(np.float64)}


def explain(state: State) -> tuple[Section, ...]:
    return explanation.sections(state)


def inner_name(asked: str, classes: int) -> str:
    """The method that calibrates clusters; ``auto`` is `platt` for two classes and `temperature` for more."""
    return asked if asked != "auto" else "platt" if classes == 2 else "temperature"


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    """The probability of the positive class, or of each class."""
    parts = unnest(state, ["partition", "mixture"])
    mixture = Mixture.of_state(parts["mixture"], str(state.params["inner"]))
    everyone = formula_of(mixture.everyone, score, {})
    tau = math.inf if state.params["tau"] is None else state.number("tau")
    if math.isinf(tau):
        return everyone
    shared = terms.scores(everyone)
    kept = own_share(mixture.information, tau).tolist()
    of_clusters = [
        everyone if part is None else _shrunk(_own(part, score), share, shared)
        for part, share in zip(mixture.parts, kept, strict=True)
    ]
    if len(of_clusters) == 1:
        return of_clusters[0]
    distances = _distances(_partition(parts["partition"]), features)
    temperature = state.number("temperature") * parts["partition"].number("spread")
    return _mixed(of_clusters, distances, temperature)


def _partition(state: State) -> Partition:
    kind = str(unnest(state, ["embedding"])["embedding"].params["kind"])
    if kind in ("shap", "leaves"):
        seen = "SHAP values" if kind == "shap" else "leaves"
        raise UsageError(
            f"clusters by the {seen} of a model have no formula",
            hint="clusters by columns do: --set embedding=columns, features or top",
        )
    return Partition.of_state(state, NO_SIDE_INPUTS)


def _own(part: FittedMethod | np.ndarray, score: Terms) -> Terms:
    """The score that the cluster's own calibrator gives."""
    if isinstance(part, FittedMethod):
        return score_formula_of(part, score)
    rates = tuple(Number(float(rate)) for rate in part)
    return terms.scores(rates[1:] if len(score) == 1 else rates)


def _shrunk(own: Terms, kept: float, shared: Terms) -> Terms:
    if kept < 1.0:
        own = tuple(kept * one + (1.0 - kept) * other for one, other in zip(own, shared, strict=True))
    return terms.probabilities(own)


def _distances(clusters: Partition, features: Inputs) -> list[Term]:
    """The squared distance to each centroid less the square of the row's own length: whole numbers, and exact."""
    embedding = clusters.embedding
    assert isinstance(embedding, Plain)
    encoding = embedding.encoding
    numbers = [_on_grid(one, clusters) for one in _numbers(encoding, features)]
    centroids = clusters.centroids
    distances = [
        terms.linear((-2.0 * centre[: len(numbers)]).tolist(), numbers) + float(length)
        for centre, length in zip(centroids, np.square(centroids).sum(axis=1), strict=True)
    ]
    first = len(numbers)
    unit = float(on_grid(np.ones((1, centroids.shape[1])), clusters.step)[0, 0])  # of a coordinate that is 1
    for name, levels in zip(encoding.categories, encoding.levels, strict=True):
        known = tuple(range(len(levels)))
        place = Switch(features[name], tuple(levels), tuple(map(Number, map(float, known))), Number(float(len(levels))))
        products = -2.0 * unit * centroids[:, first : first + len(levels)]
        distances = [
            distance + Switch(place, known, tuple(map(Number, row.tolist())), Number(0.0))
            for distance, row in zip(distances, products, strict=True)
        ]
        first += len(levels)
    return distances


def _numbers(encoding: Encoding, features: Inputs) -> list[Term]:
    """`Encoding.coordinates` of the columns that are numbers, as terms."""
    made: list[Term] = []
    for name, median, mean, scale in zip(
        encoding.numbers, encoding.median.tolist(), encoding.mean.tolist(), encoding.scale.tolist(), strict=True
    ):
        column = features[name]
        known = terms.choose(Every((column >= -MOST, column <= MOST)), column, median)
        made.append((known - mean) / scale if scale > 0 else Number(0.0))
    return made


def _on_grid(coordinate: Term, clusters: Partition) -> Term:
    """`points.on_grid`, as a term."""
    width = clusters.centroids.shape[1]
    most = float(on_grid(np.full((1, width), np.inf), clusters.step)[0, 0])
    return terms.clip(terms.rounded(coordinate / clusters.step), -most, most)


def _mixed(of_clusters: list[Terms], distances: list[Term], temperature: float) -> Terms:
    """The mean of the clusters' probabilities, weighted by the shares of the row in them."""
    least: Term = terms.least(*distances)
    if temperature == 0.0:
        return terms.at_place(_first(distances, least), of_clusters)
    places, shares = _nearest(distances, least, temperature)
    whole = terms.total(shares)
    weighted = [
        [share * prob for prob in terms.at_place(place, of_clusters)]
        for place, share in zip(places, shares, strict=True)
    ]
    return tuple(terms.total(of_class) / whole for of_class in zip(*weighted, strict=True))


def _nearest(distances: list[Term], least: Term, temperature: float) -> tuple[list[Term], list[Term]]:
    """The nearest clusters (the first of equally near ones), and a number proportional to the share in each."""
    places: list[Term] = []
    shares: list[Term] = []
    closest = least
    for _ in range(min(NEAREST, len(distances))):
        place = _first(distances, closest)
        share = terms.exp((least - closest) / (2.0 * temperature))
        places.append(place)
        shares.append(terms.choose(share >= NEGLIGIBLE, share, 0.0))
        distances = [
            terms.choose(Every((place > at - 0.5, place < at + 0.5)), MOST, distance)
            for at, distance in enumerate(distances)
        ]
        closest = terms.least(*distances)
    return places, shares


def _first(distances: list[Term], closest: Term) -> Term:
    """The place of the first cluster at the closest distance."""
    cases = tuple((distance <= closest, Number(float(at))) for at, distance in enumerate(distances[:-1]))
    return terms.Choice(cases, Number(float(len(distances) - 1)))
