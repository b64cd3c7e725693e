"""Heterogeneous calibration (Durfee et al. 2022): a partition of the feature space, and a calibrator in each cell.

Scores that are calibrated overall can be too high in one region and too low in another, which also costs ranking: on a
partition, calibrating each cell gives the largest AUC that the scores and the partition allow (lemma 4.4 of the paper).
Cells come from one tree, from several whose probabilities are averaged, or from a boosted sequence of trees. Each cell
is shrunk to the calibrator of all rows, so that a few rows change little.

One tree, or each of several, calibrates the incoming scores in its cells. Trees are grown to the full depth once: a
shallower tree consists of their upper nodes.

In a boosted sequence z_0 is the score that the shared calibrator gives. Tree m is grown on y - p(z_{m-1}); in each of
its cells g calibrates z_{m-1}, shrunk to z_{m-1} itself, and z_m = z_{m-1} + rate (g(z_{m-1}) - z_{m-1}).

Parameters that are not given are chosen by cross-validation of the log-loss, no partition among the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product, repeat
from typing import NamedTuple

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import Inputs, Terms
from calcli.methods import catalog
from calcli.methods.base import SETTINGS, Chosen, Params, Section, candidates, information, number, own_share
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous import partition
from calcli.methods.heterogeneous.cells import (
    Cells,
    as_table,
    fit_by_score,
    fit_each,
    in_order,
    mix,
    one_hot,
    own_scores,
    summarise,
)
from calcli.methods.heterogeneous.coding import Coding, Mask
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Tree, grow
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.coding import unpacked_once
from calcli.methods.trees.held_out_choice import (
    best,
    cross_validated,
    distinct,
    each_held_out_once,
    enough,
    held_out_rows,
    held_out_splits,
    least_loss,
)
from calcli.numeric.bins import totals
from calcli.numeric.links import probabilities, scores
from calcli.numeric.losses import log_loss
from calcli.numeric.seeded import Split, stream
from calcli.numeric.side_by_side import on_threads
from calcli.state import Numbers, Rules, State, unit

AUTO = "auto"

PARTITION_DATA = "partition-data"

LEAST = (15.0, 50.0)
"""The least weights of a cell that are tried, times the number of classes. A forest takes the first."""

DEPTHS = (1, 2, 3, 4, 5, 6)
TAUS = (0.0, 3.0, 10.0, 30.0, 100.0)
FOREST_TREES = 10

TRIED = 4
"""In cross-validation a forest has at most so many trees."""

FEATURES = 0.5
"""The share of the features that a node of a forest may split on."""

BOOSTED_DEPTHS, BOOSTED_TREES = (3,), 40
BOOSTED_TAUS = (10.0, 30.0)

PATIENCE = 5
"""The search ends after so many boosted trees that do not lower the held-out loss."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows = _splittable(distinct(batch, seed), str(params["columns"]))
    plan = _plan(params, sides, batch.classes, seed)
    if params["partition"] == "boosted":
        return fit_boosted(rows, plan).to_state()
    return fit_averaged(rows, plan, _best(rows, plan))


def choose(batch: Batch, sides: SideInputs, params: Params, seed: int, splits: Sequence[Split]) -> Chosen:
    """The setting by the rows that these splits hold out, if each row is held out by one or the last is enough.

    Of several splits, each has the setting that the others prefer, so that no row takes part in a choice by which it is
    judged.
    """
    plan = _plan(params, sides, batch.classes, seed)
    last = enough(batch, splits)
    given = params["partition"] == "boosted" or len(plan.settings) == 1
    if given or (last is None and not each_held_out_once(splits)):
        return Chosen()
    tried = list(splits) if last is None else [last]
    columns = str(params["columns"])
    seen = on_threads(lambda split: _splittable(distinct(batch.take(split.train), seed), columns), tried)
    unseen = [batch.take(split.test) for split in tried]
    losses = on_threads(lambda each: _losses(*each, plan), zip(seen, unseen, strict=True))

    def best_without(place: int | None) -> Setting:
        others = [other for other in range(len(tried)) if other != place]
        return plan.settings[best([losses[other] for other in others], [unseen[other] for other in others])]

    setting = best_without(None)
    if last is not None:
        return Chosen(setting.params, {len(splits) - 1: fit_averaged(seen[0], plan, setting)})
    todo = [(_splittable(distinct(batch, seed), columns), setting)]
    todo += [(rows, best_without(place)) for place, rows in enumerate(seen)]
    of_all, *of_splits = on_threads(lambda each: fit_averaged(each[0], plan, each[1]), todo)
    return Chosen({}, dict(enumerate(of_splits)), of_all)


def holds(classes: int) -> Rules:
    return {"cells/share": unit("n", optional=True), "coding/cuts": Numbers(("c",), -np.inf, np.inf)}


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return _unpacked(state).predict(batch)


def extras(state: State, batch: Batch, sides: SideInputs) -> Mapping[str, FloatArray]:
    """The cell of the first tree, by its place among the rules; 1 without trees."""
    fitted = _unpacked(state)
    if not fitted.trees:
        return {"cell": np.ones(len(batch))}
    leaf = fitted.trees[0][0].leaf_of(fitted.coding.encode(batch.features))
    return {"cell": leaf.astype(np.float64) + 1.0}


def explain(state: State) -> tuple[Section, ...]:
    return partition.sections(_unpacked(state))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return partition.formula(_unpacked(state), score, features)


@unpacked_once("coding/category")
def _unpacked(state: State) -> Partition:
    return Partition.from_state(state)


def _splittable(rows: Batch, prefix: str) -> Batch:
    """The rows with those features that a tree may split on."""
    features = {name: column for name, column in rows.features.items() if name.startswith(prefix)}
    if not features:
        names = ", ".join(list(rows.features)[:5])
        raise UsageError(f"columns={prefix}: no feature name begins with it", hint=f"features are {names}")
    return replace(rows, features=features)


class Setting(NamedTuple):
    """The least weight of a cell, the depth of the trees (0: no partition), and how strongly cells are shrunk."""

    least: float
    depth: int
    tau: float

    @property
    def params(self) -> Params:
        return {"min_rows": self.least, "depth": self.depth, "tau": "inf" if math.isinf(self.tau) else self.tau}


@dataclass(frozen=True)
class Plan:
    """The trees to grow, and the candidates of their settings: a single one where the user has given it."""

    method: MethodSpec
    """The calibrator of a cell."""

    trees: int
    """Their number, of a boosted sequence at most."""

    least: tuple[float, ...]
    depths: tuple[int, ...]
    taus: tuple[float, ...]
    on_labels: bool
    """Whether trees are grown on labels, not on the residuals of the shared calibrator."""

    partition_rows: Batch | None
    """Rows to grow the trees on in place of the calibration rows."""

    rate: float
    """The learning rate of a boosted sequence."""

    seed: int

    @property
    def settings(self) -> list[Setting]:
        """What the held-out loss chooses from, no partition first; one alone where the user has given it."""
        settings = [Setting(*each) for each in product(self.least, self.depths, self.taus)]
        if len(settings) == 1 or max(self.depths) == 0:
            return settings[:1]
        return [settings[0]._replace(depth=0), *settings]

    def grow(
        self, rows: Batch, shared: FittedMethod, least: float, depth: int, count: int
    ) -> tuple[Coding, list[Tree]]:
        """One tree; or a forest, each tree of a bootstrap sample of the rows, each node of a sample of the features."""
        grown_on = rows if self.partition_rows is None else self.partition_rows
        target = one_hot(grown_on)
        if not self.on_labels:
            target = target - as_table(shared.predict(Batch(rows.score)))
        coding, target = Coding.of(grown_on), in_order(target, grown_on)
        codes, weights = coding.encode(grown_on.features), grown_on.weights
        if count == 1:
            return coding, [grow(coding, codes, target, weights, depth=depth, least=least)]
        trees = []
        for index in range(count):
            rng = stream(self.seed, "forest", index)
            weight = weights * rng.poisson(1.0, len(grown_on))

            def draw(nodes: int, features: int, rng: np.random.Generator = rng) -> Mask:
                rank = rng.random((nodes, features)).argsort(axis=1)
                return rank < max(1, round(FEATURES * features))

            trees.append(grow(coding, codes, target, weight, depth=depth, least=least, draw=draw))
        return coding, trees


def _plan(params: Params, sides: SideInputs, classes: int, seed: int) -> Plan:
    """Trees are grown on the residuals of the calibration rows by default, or on the labels of ``--partition-data``.

    The model may have been trained on those other rows, so that its residuals there would say little.
    """
    how, other = params["partition"], sides.batches.get(PARTITION_DATA)
    boosted, on_labels = how == "boosted", other is not None or params["target"] == "label"
    if boosted and on_labels:
        what = "target=label" if other is None else f"--{PARTITION_DATA}"
        raise UsageError(
            f"boosted partitions are grown on what is left of the calibration rows' own labels: {what} is not used",
            hint="partition=tree and partition=forest can use it",
        )
    if other is not None and params["target"] == "residual":
        raise UsageError(
            f"target=residual needs the calibration rows, but --{PARTITION_DATA} names others", hint="try: target=label"
        )
    leaf, trees = str(params["leaf"]), {"tree": 1, "forest": FOREST_TREES, "boosted": BOOSTED_TREES}[str(how)]
    least = LEAST[:1] if how == "forest" else LEAST
    return Plan(
        method=catalog.find(("platt" if classes == 2 else "sms") if leaf == AUTO else leaf),
        trees=trees if how == "tree" or params["trees"] == AUTO else int(number(params, "trees")),
        least=candidates(params, "min_rows", tuple(classes * weight for weight in least)),
        depths=tuple(int(depth) for depth in candidates(params, "depth", BOOSTED_DEPTHS if boosted else DEPTHS)),
        taus=candidates(params, "tau", BOOSTED_TAUS if boosted else TAUS),
        on_labels=on_labels,
        partition_rows=None if other is None else _splittable(distinct(other, seed), str(params["columns"])),
        rate=number(params, "rate"),
        seed=seed,
    )


def _best(rows: Batch, plan: Plan) -> Setting:
    """The setting of least held-out loss; one of depth 0 where no partition is as good."""
    if len(plan.settings) == 1:
        return plan.settings[0]
    return plan.settings[cross_validated(rows, lambda seen, unseen: _losses(seen, unseen, plan))]


def fit_averaged(rows: Batch, plan: Plan, setting: Setting) -> State:
    """The partition that the setting gives, which keeps it."""
    state = _averaged(rows, plan, setting).to_state()
    return State({**state.params, SETTINGS: dict(setting.params)}, state.arrays, state.blobs)


def _averaged(rows: Batch, plan: Plan, setting: Setting) -> Partition:
    """The shared calibrator, the trees on all rows, and a calibrator in each of their cells."""
    shared = fit_by_score(plan.method, rows)
    coding, trees = Coding(()), list[Tree]()
    if setting.depth > 0:
        coding, trees = plan.grow(rows, shared, setting.least, setting.depth, plan.trees)
    if all(len(tree.left) == 1 for tree in trees):
        return Partition(False, shared, Coding(()), ())
    codes, bare = coding.encode(rows.features), rows.bare
    of_rows = information(shared.predict(Batch(rows.score)), rows.weights)
    fitted = []
    for tree in trees:
        leaf, count = tree.leaf_of(codes), int(tree.is_leaf.sum())
        own = fit_each(plan.method, bare, leaf, [shared] * count)
        fitted.append((tree, summarise(own, own_share(totals(leaf, of_rows, count), setting.tau), bare, leaf)))
    return Partition(False, shared, coding, tuple(fitted))


def _losses(seen: Batch, unseen: Batch, plan: Plan) -> FloatArray:
    """The losses of held-out rows, in a row for each setting of the plan."""
    shared = fit_by_score(plan.method, seen)
    without = shared.predict(Batch(unseen.score))
    losses = [log_loss(without, unseen.labels)]
    of_rows, score = information(shared.predict(Batch(seen.score)), seen.weights), scores(without)
    for least in plan.least:
        # One forest of the greatest depth serves all depths, and the calibrators of its cells all tau.
        coding, trees = plan.grow(seen, shared, least, max(plan.depths), min(plan.trees, TRIED))
        codes = [coding.encode(rows.features) for rows in (seen, unseen)]
        prob = np.zeros((len(plan.depths), len(plan.taus), *unseen.score.shape))
        for tree in trees:
            nodes, unseen_nodes = map(tree.path, codes)
            for depth, (at, own) in enumerate(_calibrators_by_depth(tree, nodes, seen.bare, shared, plan.depths)):
                cell = unseen_nodes[at]
                in_cell = totals(nodes[at], of_rows, len(tree.left))[cell]
                of_cell = own_scores(own, unseen.bare, cell)
                for index, tau in enumerate(plan.taus):
                    mixed = mix(of_cell, score, own_share(in_cell, tau))
                    prob[depth, index] += probabilities(mixed) / len(trees)
        losses += [log_loss(each, unseen.labels) for each in prob.reshape(-1, *unseen.score.shape)]
    return np.stack(losses)


def _calibrators_by_depth(
    tree: Tree, nodes: IntArray, rows: Batch, shared: FittedMethod, depths: Sequence[int]
) -> Iterator[tuple[int, list[FittedMethod]]]:
    """The calibrators of a tree cut off at each depth, and the place of its leaves in `nodes`, the path of each row."""
    own = [shared] * len(tree.left)
    for depth in range(1, max(depths) + 1):
        at = min(depth, len(nodes) - 1)
        new = tree.depth[nodes[at]] == depth  # rows whose node is new: leaves above have their calibrators
        own = fit_each(shared.spec, rows.take(new), nodes[at][new], own)
        if depth in depths:
            yield at, own


def _boosted(
    rows: Batch, coding: Coding, shared: FittedMethod, plan: Plan, setting: Setting
) -> Iterator[tuple[Tree, Cells]]:
    """A boosted sequence of trees and their cells, which ends where no split helps."""
    codes, weights, score = coding.encode(rows.features), rows.weights, scores(shared.predict(Batch(rows.score)))
    while True:
        # Grow a tree on the residuals.
        prob = probabilities(score)
        target = in_order(one_hot(rows) - as_table(prob), rows)
        tree = grow(coding, codes, target, weights, depth=setting.depth, least=setting.least)
        if len(tree.left) == 1:
            return
        # Calibrate the current scores in each of its cells.
        leaf, count = tree.leaf_of(codes), int(tree.is_leaf.sum())
        current = replace(rows.bare, score=score)
        own = fit_each(shared.spec, current, leaf, [shared] * count, rising=True)
        in_cell = totals(leaf, information(prob, weights), count)
        fitted = summarise(own, plan.rate * own_share(in_cell, setting.tau), current, leaf)
        score = fitted.calibrate(score, current, leaf)
        yield tree, fitted


def fit_boosted(rows: Batch, plan: Plan) -> Partition:
    """The shared calibrator and as many trees as cross-validation chooses."""
    shared, coding = fit_by_score(plan.method, rows), Coding.of(rows)
    count, setting = _chosen(rows, plan)
    return Partition(True, shared, coding, tuple(islice(_boosted(rows, coding, shared, plan, setting), count)))


def _chosen(rows: Batch, plan: Plan) -> tuple[int, Setting]:
    """The number of trees and their setting, by held-out loss."""
    settings = [Setting(*each) for each in product(plan.least, plan.depths, plan.taus)]
    splits = held_out_splits(rows)
    no_trees = 0, settings[0]
    if not splits:
        return no_trees
    tested = held_out_rows(rows, splits)
    losses: dict[tuple[int, Setting], FloatArray] = {}
    for setting in settings:
        for count, loss in enumerate(_losses_by_count(rows, splits, tested.weights, plan, setting)):
            losses.setdefault((count, setting) if count else no_trees, loss)
    return list(losses)[least_loss(list(losses.values()), tested.weights, tested.together)]


def _losses_by_count(
    rows: Batch, splits: Sequence[Split], weight: FloatArray, plan: Plan, setting: Setting
) -> Iterator[FloatArray]:
    """The losses of the held-out rows, which have this weight, with 0, 1, .. trees, until they no longer fall."""
    runs = [_losses_of_split(rows.take(split.train), rows.take(split.test), plan, setting) for split in splits]
    best, best_count = np.inf, 0
    for count in range(plan.trees + 1):
        loss = np.concatenate([next(run) for run in runs])
        yield loss
        mean = float(weight @ loss)
        if mean < best:
            best, best_count = mean, count
        elif count - best_count >= PATIENCE:
            return


def _losses_of_split(seen: Batch, unseen: Batch, plan: Plan, setting: Setting) -> Iterator[FloatArray]:
    """The losses of held-out rows with 0, 1, .. trees, without end."""
    shared, coding = fit_by_score(plan.method, seen), Coding.of(seen)
    codes, prob = coding.encode(unseen.features), shared.predict(Batch(unseen.score))
    score, loss = scores(prob), log_loss(prob, unseen.labels)
    yield loss
    for tree, fitted in _boosted(seen, coding, shared, plan, setting):
        score = fitted.calibrate(score, Batch(score), tree.leaf_of(codes))
        loss = log_loss(probabilities(score), unseen.labels)
        yield loss
    yield from repeat(loss)
