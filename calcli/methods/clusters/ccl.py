"""CCL, clustered calibration (Lavi, Shapira & Rappoport): a calibrator for each cluster of rows.

Rows are clustered by an `embedding`, such as the SHAP values of a model (`partition`). Calibrator c of a cluster is
fitted with every row weighted by its share u_c in the cluster, and shrunk to the calibrator of all rows
(`calcli.methods.base`, rows weighted by u_c); the mixture predicts sum u_c p_c. With tau = 0 clusters stand alone, as
in the paper. The temperature by which rows belong to several clusters and the shrinkage tau are chosen by
cross-validation, the global calibrator alone among the candidates. Clusters of columns have a formula too: the
distances of a row to the centroids, and the calibrators of the nearest ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray, IntArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import MOST, Every, Inputs, Number, Switch, Term, Terms
from calcli.learners.encoding import Encoding, NearestCentroids, on_grid
from calcli.methods import catalog
from calcli.methods.base import SETTINGS, Chosen, Params, Section, candidates, number, own_share
from calcli.methods.calibrator import FittedMethod, formula_of, score_formula_of
from calcli.methods.clusters import explanation, partition
from calcli.methods.clusters.mixture import Inner, Mixture
from calcli.methods.clusters.partition import NEAREST, NEGLIGIBLE, Partition, Plain, Shares, shares
from calcli.methods.trees.held_out_choice import each_held_out_once, enough
from calcli.numeric.links import probabilities
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Mask, Split, splits_by_score, tested
from calcli.numeric.side_by_side import on_threads
from calcli.state import Json, Numbers, Rules, State, nest, pack_texts, unit, unnest

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
TAUS = (math.inf, 100.0, 30.0, 10.0, 3.0, 0.0)

FOLDS = 5

_SAME = 1e-9
"""Relative differences of the loss up to this count as ties; the stronger shrinkage wins them."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    batch = batch.take(batch.weights > 0)
    # Cluster the rows, choose temperature and tau by cross-validation, fit on all rows.
    rows = Clustered.of(batch, sides, params, seed)
    tried = rows.tried(rows.splits(seed))
    return rows.state(tried.least(), tried)


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """Temperature and tau by the held-out rows of these splits, if each row is held out by one or the last is enough.

    The clusters are those of all rows, since no label has a part in them. Of several splits, each has the pair that the
    others prefer, so that no row takes part in a choice by which it is judged.
    """
    whole = each_held_out_once(splits)
    given = params["temperature"] != "auto" and params["tau"] != "auto"
    by_labels = params["clusters"] == "auto" or not (batch.weights > 0).all()
    if given or by_labels or not (whole or (len(splits) == 1 and enough(batch, splits))):
        return Chosen()
    rows = Clustered.of(batch, sides, params, seed)
    tried = rows.tried(splits)
    pair = tried.least()
    states = {
        place: rows.kept(tried.mixture(own := tried.least(place) if whole else pair, place), own)
        for place in range(len(splits))
    }
    return Chosen(pair.settings, states, rows.state(pair, tried))


def holds(classes: int) -> Rules:
    return {
        "mixture/rates": unit("k", "K"),
        "mixture/information": Numbers(("k",), low=0.0),
        "partition/centroids": Numbers(("k", "d")),
        "partition/step": Numbers(low=np.finfo(np.float64).tiny, high=np.inf),
        "partition/spread": Numbers(low=0.0),
        "facts": Numbers(("k", "f"), -np.inf, np.inf, optional=True, missing=True),
        "temperature": Numbers(low=0.0),
        "tau": Numbers(low=0.0, high=np.inf, optional=True),
        **{
            f"partition/embedding/encoding/{name}": Numbers(("e",), -MOST, MOST, optional=True)
            for name in ("median", "mean", "scale")
        },
    }


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


def remarks(state: State, sides: SideInputs, nodes: Column | None) -> tuple[str, ...]:
    """The sentence that rows are clustered by a stand-in for the model, where they are."""
    if nodes is not None or state.params["model"] or state.params["embedding"] in ("columns", "features"):
        return ()
    return (
        f"ccl clusters by {explanation.seen_by(state)}, a small model that predicts the scores: --model FILE names the "
        "model itself",
    )


def inner_name(asked: str, classes: int) -> str:
    """The method that calibrates clusters; ``auto`` is `platt` for two classes and `temperature` for more."""
    return asked if asked != "auto" else "platt" if classes == 2 else "temperature"


class Pair(NamedTuple):
    """How strongly clusters are shrunk to one calibrator, and how strongly nearby ones are mixed in."""

    tau: float
    temperature: float

    @property
    def settings(self) -> dict[str, float | str]:
        return {"temperature": self.temperature, "tau": "inf" if math.isinf(self.tau) else self.tau}


@dataclass(frozen=True, slots=True)
class Clustered:
    """Rows with their clusters, and how these are calibrated."""

    batch: Batch
    clusters: Partition
    near: NearestCentroids
    inner: Inner
    pairs: tuple[Pair, ...]
    """The pairs that are tried; at tau = inf the temperature does not matter, and the first stands for all."""

    embedding: str
    own_model: bool

    @classmethod
    def of(cls, batch: Batch, sides: SideInputs, params: Params, seed: int) -> Clustered:
        clusters, near = partition.fit(batch, sides, params, seed)
        name = inner_name(str(params["inner"]), batch.classes)
        inner = Inner(catalog.find(name), seed, number(params, "rows"), number(params, "prior"))
        temperatures, taus = candidates(params, "temperature", TEMPERATURES), candidates(params, "tau", TAUS)
        pairs = tuple(Pair(tau, temperature) for temperature in temperatures for tau in taus)
        return cls(batch, clusters, near, inner, pairs, str(params["embedding"]), "model" in sides.blobs)

    def splits(self, seed: int) -> list[Split]:
        """Folds; rows with the same score and clusters share one."""
        beside = [*self.near.place.T.astype(np.float64), *self.near.distance.T]
        return splits_by_score(self.batch, FOLDS, seed, "ccl folds", beside)

    def shares(self, temperature: float) -> Shares:
        return shares(self.near, temperature, self.clusters.spread)

    def mixture(self, temperature: float, rows: Mask | None = None) -> Mixture:
        """The calibrators of all rows, or of some."""
        batch, belongs = self.batch.bare, self.shares(temperature)
        if rows is not None:
            batch, belongs = batch.take(rows), belongs[rows]
        return Mixture.fit(self.inner, batch, belongs, len(self.clusters))

    def tried(self, splits: Sequence[Split]) -> Tried:
        """Every pair on the held-out rows of the splits."""
        judged = tested(splits, len(self.batch)) if splits else np.ones(len(self.batch), dtype=np.bool_)
        if not judged.all():  # the others, before the first in time perhaps, are predicted too, and not judged by
            splits = [*splits, Split(judged, ~judged)]
        temperatures = tuple(dict.fromkeys(pair.temperature for pair in self.pairs))
        todo = [(temperature, split) for temperature in temperatures for split in splits]
        made = iter(on_threads(lambda each: self.mixture(each[0], each[1].train), todo))
        mixtures = {temperature: tuple(islice(made, len(splits))) for temperature in temperatures}
        tried = Tried(self, splits, judged, mixtures, {})

        def losses(temperature: float) -> dict[Pair, FloatArray]:
            pairs = [pair for pair in self.pairs if pair.temperature == temperature]
            probs = tried.predict(temperature, [pair.tau for pair in pairs])
            return {pair: log_loss(prob, self.batch.labels) for pair, prob in zip(pairs, probs, strict=True)}

        for of_temperature in on_threads(losses, temperatures):
            for pair, loss in of_temperature.items():
                # Without clusters the temperature says nothing.
                one = Pair(math.inf, temperatures[0]) if math.isinf(pair.tau) else pair
                tried.losses.setdefault(one, loss)
        return tried

    def state(self, pair: Pair, tried: Tried) -> State:
        """The state of all rows, with what held-out rows say of the clusters."""
        batch, cluster = self.batch, self.near.place[:, 0]
        prob, everyone = tried.predict(pair.temperature, (pair.tau, math.inf))
        probs = {"raw": probabilities(batch.score), "unified": everyone, "ccl": prob}
        known, cece = explanation.of_clusters(batch, cluster, len(self.clusters), tried.fold, probs)
        arrays = {
            "facts": known,
            "cece": cece,
            "clustering": explanation.of_clustering(batch, cluster, known),
            **pack_texts(explanation.set_apart(batch, cluster, len(self.clusters)), "apart"),
        }
        kept = self.kept(self.mixture(pair.temperature), pair)
        return replace(kept, arrays={**kept.arrays, **arrays})

    def kept(self, mixture: Mixture, pair: Pair) -> State:
        """The state that predicts, of these calibrators."""
        whole = nest({"partition": self.clusters.to_state(), "mixture": mixture.to_state()})
        params: dict[str, Json] = {
            SETTINGS: {**pair.settings},
            "classes": self.batch.classes,
            "clusters": len(self.clusters),
            "inner": self.inner.spec.name,
            "embedding": self.embedding,
            "model": self.own_model,
            "temperature": pair.temperature,
            "tau": None if math.isinf(pair.tau) else pair.tau,
            "reaches_ends": self.inner.prior == 0.0,
        }
        return State({**whole.params, **params}, whole.arrays, whole.blobs)


@dataclass(frozen=True, slots=True)
class Tried:
    """The calibrators of every split by temperature, and the losses of held-out rows by pair.

    Clusters do not depend on the labels, so they are not formed anew for each fold.
    """

    rows: Clustered
    splits: Sequence[Split]
    judged: Mask
    """The rows that choose."""

    mixtures: Mapping[float, Sequence[Mixture]]
    losses: dict[Pair, FloatArray]

    def mixture(self, pair: Pair, split: int) -> Mixture:
        return self.mixtures[pair.temperature][split]

    @property
    def fold(self) -> IntArray:
        """The split in which each row was held out."""
        fold = np.zeros(len(self.rows.batch), dtype=np.int64)
        for place, split in enumerate(self.splits):
            fold[split.test] = place
        return fold

    def least(self, without: int | None = None) -> Pair:
        """The strongest shrinkage of the pairs of least log-loss, judged by all splits or by all but one."""
        judged = self.judged if without is None else self.judged & ~self.splits[without].test
        weights = self.rows.batch.weights[judged]
        mean = {pair: float(np.average(loss[judged], weights=weights)) for pair, loss in self.losses.items()}
        least = min(mean.values())
        return max(pair for pair, loss in mean.items() if loss <= least * (1.0 + _SAME))

    def predict(self, temperature: float, taus: Sequence[float]) -> list[FloatArray]:
        """The held-out predictions of all rows for each tau."""
        batch, belongs = self.rows.batch.bare, self.rows.shares(temperature)
        if not self.splits:  # all rows are in one fold: none can be held out
            everyone = self.rows.inner.fit(batch).predict(batch)
            return [everyone for _ in taus]
        probs = [np.empty(batch.score.shape) for _ in taus]
        for (_, test), mixture in zip(self.splits, self.mixtures[temperature], strict=True):
            predicted = mixture.predict_each(batch.take(test), belongs[test], taus)
            for prob, of_fold in zip(probs, predicted, strict=True):
                prob[test] = of_fold
        return probs


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
