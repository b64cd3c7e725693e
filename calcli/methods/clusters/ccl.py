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
from typing import TypeAlias

import numpy as np

from calcli import expressions as terms
from calcli.batch import NO_SIDE_INPUTS, Batch, Column, FloatArray, IntArray, SideInputs
from calcli.errors import FitError, UsageError
from calcli.expressions import MOST, Every, Inputs, Number, Switch, Term, Terms
from calcli.learners.encoding import Encoding, NearestCentroids, on_grid
from calcli.methods import calibrator, catalog
from calcli.methods.base import SETTINGS, Params, Section, candidates, information, number, own_share
from calcli.methods.calibrator import FittedMethod, formula_of, score_formula_of
from calcli.methods.clusters import explanation, partition
from calcli.methods.clusters.partition import NEAREST, NEGLIGIBLE, Partition, Plain, Shares, shares
from calcli.methods.spec import MethodSpec
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, splits_by_score, tested
from calcli.state import Json, Numbers, Rules, State, nest, pack_texts, unit, unnest

TEMPERATURES = (0.0, 0.5, 1.0, 2.0)
TAUS = (math.inf, 100.0, 30.0, 10.0, 3.0, 0.0)

FOLDS = 5

_SAME = 1e-9
"""Relative differences of the loss up to this count as ties; the stronger shrinkage wins them."""


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
    known, cece = explanation.of_clusters(batch, cluster, len(clusters), chosen.fold, probs)
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
        "cece": cece,
        "clustering": explanation.of_clustering(batch, cluster, known),
        **pack_texts(explanation.set_apart(batch, cluster, len(clusters)), "apart"),
    }
    return State({**whole.params, **chosen_params}, {**whole.arrays, **arrays}, whole.blobs)


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
    """That rows are clustered by a stand-in for the model, where they are."""
    if nodes is not None or state.params["model"] or state.params["embedding"] in ("columns", "features"):
        return ()
    return (
        f"ccl clusters by {explanation.seen_by(state)}, a small model that predicts the scores: --model FILE names the "
        "model itself",
    )


def inner_name(asked: str, classes: int) -> str:
    """The method that calibrates clusters; ``auto`` is `platt` for two classes and `temperature` for more."""
    return asked if asked != "auto" else "platt" if classes == 2 else "temperature"


Part: TypeAlias = FittedMethod | FloatArray | None
"""A cluster's calibrator; the rate of each class if its rows do not suffice; None without rows."""


@dataclass(frozen=True, slots=True)
class Inner:
    """How the calibrators of clusters are fitted."""

    spec: MethodSpec
    seed: int
    """`spec`, `seed`: the method, at its defaults."""

    least: float
    """A cluster of less weight, or of a single label, gets its label rate instead of a calibrator; so does one on which
    the fit fails.
    """

    prior: float
    """Rows of each class that are added to such a rate."""

    def fit(self, batch: Batch) -> FittedMethod:
        """A calibrator of these rows."""
        return calibrator.fit(self.spec, batch, self.spec.resolve(), seed=self.seed)

    def fit_cluster(self, batch: Batch, share: FloatArray) -> Part:
        """The calibrator of a cluster, from its rows and their shares."""
        weight = batch.weights * share
        mass = totals(batch.labels, weight, batch.classes)
        total = float(mass.sum())
        if total == 0.0:
            return None
        rates: FloatArray = (mass + self.prior) / (total + self.prior * batch.classes)
        if np.count_nonzero(mass) < 2 or total < self.least:
            return rates
        try:
            fitted = self.fit(replace(batch.bare, weight=weight))
        except FitError:  # one label has next to no weight
            return rates
        return replace(fitted, rows=max(1, round(float(share.sum()))))


@dataclass(frozen=True, slots=True)
class Mixture:
    """The global calibrator, those of the clusters, and the information H in the rows of each."""

    everyone: FittedMethod
    parts: tuple[Part, ...]
    information: FloatArray

    @classmethod
    def fit(cls, inner: Inner, batch: Batch, shares: Shares, clusters: int) -> Mixture:
        everyone = inner.fit(batch)
        of_rows = information(everyone.predict(batch), batch.weights)
        of_each = list(shares.of_each(clusters))
        parts = tuple(inner.fit_cluster(batch.take(rows), share) for rows, share in of_each)
        return cls(everyone, parts, np.array([float(share @ of_rows[rows]) for rows, share in of_each]))

    def predict(self, batch: Batch, shares: Shares, tau: float) -> FloatArray:
        """Probabilities of rows with these shares in the clusters."""
        return self.predict_each(batch, shares, (tau,))[0]

    def predict_each(self, batch: Batch, shares: Shares, taus: Sequence[float]) -> list[FloatArray]:
        """Probabilities for several tau, at little more than the cost of one."""
        everyone = self.everyone.predict(batch)
        mixed = [everyone if math.isinf(tau) else np.zeros(everyone.shape) for tau in taus]
        finite = [(mixed[place], own_share(self.information, tau)) for place, tau in enumerate(taus) if tau < math.inf]
        if not finite:
            return mixed
        global_score = scores(everyone)
        for cluster, (rows, share) in enumerate(shares.of_each(len(self.parts))):
            if not len(rows):
                continue
            # What the cluster predicts of its rows is the same for all tau; only the shrinkage differs.
            part = self.parts[cluster]
            own = everyone[rows] if part is None else _predicted(part, batch.take(rows))
            own_score, shrunk_to = scores(own), global_score[rows]
            for total, own_shares in finite:
                kept = own_shares[cluster]
                prob = own if kept == 1.0 else probabilities(kept * own_score + (1.0 - kept) * shrunk_to)
                total[rows] += (share * prob.T).T
        return mixed

    def to_state(self) -> State:
        fitted = {
            str(place): part.to_state() for place, part in enumerate(self.parts) if isinstance(part, FittedMethod)
        }
        whole = nest({"everyone": self.everyone.to_state(), **fitted})
        rates = np.zeros((len(self.parts), self.everyone.classes))
        for place, part in enumerate(self.parts):
            if part is not None and not isinstance(part, FittedMethod):
                rates[place] = part
        return State(whole.params, {**whole.arrays, "rates": rates, "information": self.information}, whole.blobs)

    @classmethod
    def of_state(cls, state: State, method: str) -> Mixture:
        states = unnest(state, state.params)
        fitted = {name: FittedMethod.from_state(method, part) for name, part in states.items()}
        rates = [row if row.any() else None for row in state.array("rates")]
        parts = tuple(fitted.get(str(place), rate) for place, rate in enumerate(rates))
        return cls(fitted["everyone"], parts, state.array("information"))


def _predicted(part: FittedMethod | FloatArray, batch: Batch) -> FloatArray:
    if isinstance(part, FittedMethod):
        return part.predict(batch)
    return np.full(len(batch), part[1]) if batch.classes == 2 else np.repeat(part[None, :], len(batch), axis=0)


@dataclass(frozen=True, slots=True)
class Tempered:
    """The choice, and out-of-fold predictions with it and with the global calibrator alone (`everyone`)."""

    temperature: float
    tau: float
    prob: FloatArray
    everyone: FloatArray
    fold: IntArray
    """The fold in which each row was held out."""


def temper(
    batch: Batch,
    partition: Partition,
    near: NearestCentroids,
    inner: Inner,
    temperatures: Sequence[float],
    taus: Sequence[float],
    seed: int,
) -> Tempered:
    """The temperature and the tau of least log-loss, by cross-validation.

    Clusters do not depend on the labels, so they are not formed anew for each fold.
    """
    # Rows with the same score and clusters share a fold.
    beside = [*near.place.T.astype(np.float64), *near.distance.T]
    splits = splits_by_score(batch.score, batch.labels, FOLDS, seed, "ccl folds", beside, batch.units)
    judged = tested(splits, len(batch)) if splits else np.ones(len(batch), dtype=np.bool_)
    if not judged.all():  # nothing is before the first rows: they are predicted from the others, and not judged by
        splits.append(Split(judged, ~judged))

    def predict(temperature: float, taus: Sequence[float]) -> list[FloatArray]:
        return _held_out(inner, batch.bare, shares(near, temperature, partition.spread), len(partition), splits, taus)

    # The loss of each pair; at tau = inf the temperature does not matter.
    losses: dict[tuple[float, float], float] = {}
    for temperature in temperatures:
        for tau, prob in zip(taus, predict(temperature, taus), strict=True):
            loss = float(np.average(log_loss(prob, batch.labels)[judged], weights=batch.weights[judged]))
            losses.setdefault((math.inf, 0.0) if math.isinf(tau) else (tau, temperature), loss)
    # The strongest shrinkage of the best pairs.
    least = min(losses.values())
    tau, temperature = max(pair for pair, loss in losses.items() if loss <= least * (1.0 + _SAME))
    prob, everyone = predict(temperature, (tau, math.inf))
    fold = np.zeros(len(batch), dtype=np.int64)
    for place, split in enumerate(splits):
        fold[split.test] = place
    return Tempered(temperature, tau, prob, everyone, fold)


def _held_out(
    inner: Inner, batch: Batch, belongs: Shares, clusters: int, splits: Sequence[Split], taus: Sequence[float]
) -> list[FloatArray]:
    """The out-of-fold predictions of all rows, for each tau."""
    if not splits:  # all rows are in one fold: none can be held out
        everyone = inner.fit(batch).predict(batch)
        return [everyone for _ in taus]
    probs = [np.empty(batch.score.shape) for _ in taus]
    for train, test in splits:
        mixture = Mixture.fit(inner, batch.take(train), belongs[train], clusters)
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
