"""A forest: the mean of the label rates in the leaves of many randomised trees, mixed with the scaled score.

A node of a tree tries a few features, the score among them, each with a cut drawn at random, and takes the best
(Geurts, Ernst & Wehenkel 2006). The rates are not built on the score: they err elsewhere than methods that are, and so
make a mixture better. Each tree has not seen some of the rows, by which it can be judged: they choose the weight of the
forest in the mixture, and whether there are trees at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray, IntArray, SideInputs, spans
from calcli.expressions import Inputs, Number, Term, Terms, Trees
from calcli.methods.base import READS, Chosen, Params, Section, number
from calcli.methods.calibrator import FittedMethod, formula_of, scaled
from calcli.methods.effects.coding import Coding, centred_scores, centred_terms, codings_of
from calcli.methods.forest import growing, kernels
from calcli.methods.forest.growing import Rows, Tree
from calcli.methods.trees.coding import pack_features, unpacked_once
from calcli.methods.trees.held_out_choice import distinct, least_loss
from calcli.numeric.losses import log_loss, prob_of_label
from calcli.numeric.mixture import likeliest_weights
from calcli.numeric.seeded import Mask, Split, class_order, folds, group_folds, held_out, stream
from calcli.numeric.side_by_side import on_threads
from calcli.state import Numbers, Rules, State, nest, prefixed, unit, unnest, unprefixed

FOLDS = 10
"""Into so many folds rows are dealt, of which each tree sees six."""

MOST_ROWS = 200_000
"""Where there are more rows, a sample grows the trees and judges them: each tree sees a tenth of it."""

MOST_JUDGED = 20_000
"""So many rows are enough to judge by."""

ADDED = (0.001, 0.003, 0.01, 0.03)
"""The numbers that may be added to the rate of each class, so that none is 0."""

LEAST = 0.02
"""A forest of less weight would cost more time than it gains."""

BLOCK = 1 << 16
"""Rows that one thread takes at a time."""

WRITTEN = 1_000
"""A forest of at most so many nodes is written node by node in a formula."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows = distinct(batch, seed)
    rng = stream(seed, "folds of a forest")
    if len(rows) > MOST_ROWS:
        rows = rows.take(held_out(len(rows), MOST_ROWS / len(rows), rng))
    count = min(FOLDS, len(rows))
    fold = folds(len(rows), count, rng) if rows.units is None else group_folds(rows.units.rank, count, rng)
    return _Grown.of(rows, fold, params, seed).state()


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """The forest of all rows, and as that of a split its trees that have not seen the rows which are held out.

    The rows of a split have no part in the weight of its forest.
    """
    if not splits or len(batch) > MOST_ROWS or any((split.train == split.test).any() for split in splits):
        return Chosen()
    fold = np.full(len(batch), -1)
    for place, split in enumerate(splits):
        fold[split.test] = place
    grown = _Grown.of(batch.by_name, fold, params, seed)
    return Chosen({}, {place: grown.state(place) for place in range(len(splits))}, grown.state())


@dataclass(frozen=True, slots=True, eq=False)
class _Grown:
    """Trees of which each has not seen some folds, and the rates of rows by those that have not seen them."""

    batch: Batch
    order: IntArray
    codings: list[Coding]
    rows: Rows
    trees: list[Tree]
    some: IntArray
    """The rows that judge."""

    rates: FloatArray
    """Theirs, by trees that have not seen them."""

    weight: float | None
    """The weight of the forest beside the scaled score, if it is given."""

    @classmethod
    def of(cls, batch: Batch, fold: IntArray, params: Params, seed: int) -> _Grown:
        order = class_order(batch.score, batch.weight)
        score = np.ascontiguousarray(centred_scores(batch.score, order))
        codings = growing.ordered_codings(batch, score, int(number(params, "bins")))
        codes = np.stack([coding.of(batch, score) for coding in codings], dtype=np.int32)
        label, weight = np.argsort(order)[batch.labels], batch.weights.astype(np.float64)
        rows = Rows(codes, label, weight, fold, batch.classes)
        tries = round(2.0 * len(codings) ** 0.5) if params["tries"] == "auto" else int(number(params, "tries"))
        count, least = int(number(params, "trees")), number(params, "min_rows")
        trees = growing.grown(rows, trees=count, tries=tries, least=least, seed=seed)
        some = np.flatnonzero((fold >= 0) & (weight > 0.0))
        some = some[:: max(1, -(-len(some) // MOST_JUDGED))]
        given = None if params["weight"] == "auto" else number(params, "weight")
        return cls(batch, order, codings, rows, trees, some, growing.judged(rows, trees, some), given)

    def state(self, without: int | None = None) -> State:
        """The state of all trees; or of those without a fold, whose rows have no part in what is chosen."""
        fold = self.rows.fold
        if without is None:
            return self._state(self.trees, scaled(self.batch), np.ones(len(self.some), dtype=np.bool_))
        judging = fold[self.some] != without
        if not judging.any():
            judging = ~judging
        unseen = [tree for tree in self.trees if without in tree.unseen]
        return self._state(unseen, scaled(self.batch.take(fold != without)), judging)

    def _state(self, trees: Sequence[Tree], start: FittedMethod, judging: Mask) -> State:
        added, weight = self._mixed(start, judging)
        whole = nest({"start": start.to_state()})
        arrays = {**whole.arrays, "order": self.order.copy()}  # a state is known by an array of its own
        params = {**whole.params, "method": start.spec.name, "added": added, "weight": weight}
        if weight == 0.0 or not any(len(tree.nodes) > 1 for tree in trees):
            return State({**params, READS: [], "weight": 0.0}, arrays)
        sizes = np.array([len(tree.nodes) for tree in trees], dtype=np.int64)
        roots = np.cumsum(sizes) - sizes
        nodes, rates = np.concatenate([tree.nodes for tree in trees]), np.concatenate([tree.rates for tree in trees])
        nodes[:, kernels.FIRST] += np.repeat(roots, sizes).astype(np.int32)
        inner = nodes[:, kernels.FIRST] != np.arange(len(nodes))
        rates[inner] = 0.0
        # Only what some node asks for is kept.
        used, nodes[inner, kernels.FEATURE] = np.unique(nodes[inner, kernels.FEATURE], return_inverse=True)
        codings = [self.codings[place] for place in used]
        gains = np.sum([tree.gains for tree in trees], axis=0)[used]
        arrays |= {
            **prefixed("features", pack_features(codings)),
            "sizes": sizes,
            "nodes": nodes,
            "rate": (rates[:, 1:] if rates.shape[1] == 2 else rates).astype(np.float32),
            "importances": 100.0 * gains / (gains.sum() or 1.0),
        }
        return State({**params, READS: sorted(one.name for one in codings if one.kind != "score")}, arrays)

    def _mixed(self, start: FittedMethod, judging: Mask) -> tuple[float, float]:
        """The number added to rates, and the weight of the forest: 0 unless given, or shown to help these rows."""
        rows = self.batch.bare.take(self.some[judging])
        scaled = start.predict(Batch(rows.score))
        rates = self.rates[judging][:, np.argsort(self.order)]
        mixtures, losses = [(ADDED[0], 0.0)], [log_loss(scaled, rows.labels)]
        for added in ADDED if len(rows) else ():
            prob, weight = _held(rates, added), self.weight
            if weight is None:
                likelihood = np.column_stack([prob_of_label(one, rows.labels) for one in (scaled, prob)])
                weight = float(likeliest_weights(likelihood, rows.weights, np.zeros(2))[1])
            mixtures.append((added, weight if weight >= LEAST else 0.0))
            losses.append(log_loss((1.0 - weight) * scaled + weight * prob, rows.labels))
        if self.weight is not None and len(rows):
            return mixtures[1 + int(np.argmin([rows.weights @ loss for loss in losses[1:]]))]
        return mixtures[least_loss(losses, rows.weights, rows.together) if len(rows) else 0]


def _held(rates: FloatArray, added: float) -> FloatArray:
    """Probabilities from the rates of all classes, held off 0."""
    prob: FloatArray = (rates + added) / (1.0 + added * rates.shape[1])
    return prob[:, 1] if rates.shape[1] == 2 else prob


def holds(classes: int) -> Rules:
    rates = unit("n", "1" if classes == 2 else "K", optional=True)
    return {"rate": rates, "weight": unit(), "added": Numbers((), 1e-9, 1.0)}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    model = _unpacked(state)
    prob = model.start.predict(Batch(batch.score))
    if not len(model.steps.roots):
        return prob
    score = centred_scores(batch.score, model.order)
    columns = [coding.of(batch, score) for coding in model.codings]
    rates = np.zeros((len(batch), model.rate.shape[1]))

    def work(block: slice) -> None:
        codes = np.stack([column[block] for column in columns], axis=1)
        kernels.add_values(codes, *model.steps, model.rate, rates[block])

    on_threads(work, spans(len(batch), BLOCK))
    whole = np.concatenate([len(model.steps.roots) - rates, rates], axis=1) if batch.classes == 2 else rates
    whole /= whole.sum(axis=1, keepdims=True)  # rates are kept as float32
    return (1.0 - model.weight) * prob + model.weight * _held(whole[:, np.argsort(model.order)], model.added)


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    model = _unpacked(state)
    prob = formula_of(model.start, score, {})
    if not len(model.steps.roots):
        return prob
    classes = len(model.order)
    held = centred_terms(score, model.order)
    codes = tuple(coding.term(held, features) for coding in model.codings)
    sums = [model.term(codes, values) for values in model.rate.astype(np.float64).T]
    if classes == 2:
        first = sums[0] / float(len(model.steps.roots))
        in_order = [first if model.order[0] == 0 else 1.0 - first]
    else:
        whole = terms.total(sums)
        in_order = [sums[place] / whole for place in np.argsort(model.order)]
    share = model.weight / (1.0 + model.added * classes)
    return tuple(
        (1.0 - model.weight) * one + share * (rate + model.added) for one, rate in zip(prob, in_order, strict=True)
    )


def explain(state: State) -> tuple[Section, ...]:
    """The importance of each feature for the splits."""
    model = _unpacked(state)
    if not len(model.steps.roots):
        return (Section("forest", (), (), "No trees: the scaled score is as good."),)
    shares = zip(map(model.name_of, model.codings), state.array("importances").tolist(), strict=True)
    leaves = int((model.nodes[:, kernels.FIRST] == np.arange(len(model.nodes))).sum())
    note = (
        f"{len(model.steps.roots)} trees with {leaves:,} leaves, mixed with the scaled score at {model.weight:.2f} to "
        f"{1.0 - model.weight:.2f}. Importance: the share of the gain of all splits, in percent."
    )
    rows = tuple(sorted(shares, key=lambda item: (-item[1], item[0])))
    return (Section("features", ("feature", "importance"), rows, note),)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """An unpacked state; without trees it has no features either."""

    start: FittedMethod
    added: float
    weight: float
    order: IntArray
    codings: Sequence[Coding]
    nodes: kernels.Codes
    rate: NDArray[np.float32]
    steps: kernels.Steps

    def term(self, codes: Terms, values: FloatArray) -> Term:
        """The sum of the values of a row's leaves."""
        if len(self.nodes) > WRITTEN:
            return Trees(codes, self.nodes, self.steps.roots, values)
        made: dict[int, Term] = {}
        for node in reversed(range(len(self.nodes))):  # children come after their parents
            feature, cut, first = self.nodes[node].tolist()
            if first == node:
                made[node] = Number(float(values[node]))
            else:
                made[node] = terms.choose(codes[feature] <= float(cut), made[first], made[first + 1])
        return terms.total([made[int(root)] for root in self.steps.roots])

    def name_of(self, coding: Coding) -> str:
        if coding.kind != "score":
            return coding.name
        return "score" if len(self.order) == 2 else f"score of class {self.order[int(coding.name)]}"


@unpacked_once("order")
def _unpacked(state: State) -> _Model:
    start = FittedMethod.from_state(str(state.params["method"]), unnest(state, ["start"])["start"])
    order = state.arrays["order"].astype(np.int64)
    if sorted(order.tolist()) != list(range(start.classes)):
        raise ValueError(f"it does not name each of its {start.classes} classes once")
    codings: list[Coding] = []
    sizes, nodes, rate = np.empty(0, np.int64), np.empty((0, 3), np.int32), np.empty((0, 1), np.float32)
    if "nodes" in state.arrays:
        codings = codings_of(unprefixed("features", state.arrays))
        sizes = state.arrays["sizes"].astype(np.int64)
        nodes, rate = _checked(sizes, state.arrays["nodes"], state.arrays["rate"], len(codings))
        if len(state.array("importances")) != len(codings):
            raise ValueError("its features have not one importance each")
    numbers = state.number("added"), state.number("weight")
    steps = kernels.steps_of(sizes, nodes, np.result_type(np.uint8, *(coding.dtype for coding in codings)))
    return _Model(start, *numbers, order, codings, nodes, rate, steps)


def _checked(
    sizes: IntArray, nodes: NDArray[Any], rate: NDArray[Any], features: int
) -> tuple[kernels.Codes, NDArray[np.float32]]:
    """The nodes and rates, refused where compiled loops would follow them out of the trees."""
    if (sizes < 1).any() or sum(sizes.tolist()) != len(nodes) or nodes.dtype != np.int32 or rate.dtype != np.float32:
        raise ValueError("its trees have not the nodes that they say")
    if nodes.ndim != 2 or nodes.shape != (len(rate), 3):
        raise ValueError("its nodes are not a feature, a cut and a child each")
    feature, cut, first = nodes.T.astype(np.int64)
    number, end = np.arange(len(nodes)), np.repeat(np.cumsum(sizes), sizes)
    leaf = first == number
    if ((feature < 0) | (feature >= features) | (cut < 0)).any() or (cut[leaf] != kernels.NEVER).any():
        raise ValueError("its trees ask for features that do not exist")
    if ((first <= number) | (first + 1 >= end))[~leaf].any():
        raise ValueError("its nodes lead nowhere")
    return nodes, rate
