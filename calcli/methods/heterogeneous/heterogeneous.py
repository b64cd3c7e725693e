"""Heterogeneous calibration (Durfee et al. 2022): a partition of the feature space, and a calibrator in each cell.

Scores that are calibrated overall can be too high in one region and too low in another, which also costs ranking: on a
partition, calibrating each cell gives the largest AUC that the scores and the partition allow (lemma 4.4 of the paper).
Cells come from one tree, from several whose probabilities are averaged, or from a boosted sequence of trees. Each cell
is shrunk to the calibrator of all rows, so that a few rows change little.

Parameters that are not given are chosen by cross-validation of the log-loss, no partition among the candidates.
"""

from __future__ import annotations

from dataclasses import replace

from calcli.batch import Batch, FloatArray, SideInputs
from calcli.errors import UsageError
from calcli.expressions import Inputs, Terms
from calcli.methods import catalog
from calcli.methods.base import SETTINGS, Params, Section, candidates, number
from calcli.methods.heterogeneous import averaged_trees as averaged
from calcli.methods.heterogeneous import boosted_trees as boosted
from calcli.methods.heterogeneous import formula as closed
from calcli.methods.heterogeneous import rules
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.distinct_rows import distinct
from calcli.methods.trees.unpacked import unpacked_once
from calcli.state import State

AUTO = "auto"

PARTITION_DATA = "partition-data"

LEAST = (15.0, 50.0)
"""The least weights of a cell that are tried, times the number of classes. A forest takes the first."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows = _splittable(distinct(batch, seed), str(params["columns"]))
    method = _leaf_method(str(params["leaf"]), batch.classes)
    if params["partition"] == "boosted":
        return boosted.fit(rows, method, _boosted_plan(params, sides, batch.classes)).to_state()
    grower = _grower(params, sides, seed)
    chosen = averaged.choose(rows, method, _plan(params, batch.classes), grower)
    state = averaged.fit(rows, method, chosen, grower).to_state()
    return State({**state.params, SETTINGS: chosen.settings}, state.arrays, state.blobs)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return _unpacked(state).predict(batch)


def explain(state: State) -> tuple[Section, ...]:
    """The cells, with the conditions that lead to them."""
    return rules.sections(_unpacked(state))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return closed.formula(_unpacked(state), score, features)


def _splittable(rows: Batch, prefix: str) -> Batch:
    """The rows with those features that a tree may split on."""
    features = {name: column for name, column in rows.features.items() if name.startswith(prefix)}
    if not features:
        names = ", ".join(list(rows.features)[:5])
        raise UsageError(f"columns={prefix}: no feature name begins with it", hint=f"features are {names}")
    return replace(rows, features=features)


def _leaf_method(asked: str, classes: int) -> MethodSpec:
    """The method that calibrates cells; ``auto`` is `platt` for two classes and `sms` for more."""
    return catalog.find(("platt" if classes == 2 else "sms") if asked == AUTO else asked)


def _least(params: Params, classes: int) -> tuple[float, ...]:
    """The least weights of a cell to choose from."""
    weights = LEAST[:1] if params["partition"] == "forest" else LEAST
    return candidates(params, "min_rows", tuple(classes * weight for weight in weights))


def _plan(params: Params, classes: int) -> averaged.Plan:
    return averaged.Plan(
        trees=1 if params["partition"] == "tree" else _count(params, "trees", averaged.TREES),
        least=_least(params, classes),
        depths=tuple(int(depth) for depth in candidates(params, "depth", averaged.DEPTHS)),
        taus=candidates(params, "tau", averaged.TAUS),
    )


def _boosted_plan(params: Params, sides: SideInputs, classes: int) -> boosted.Plan:
    if PARTITION_DATA in sides.batches or params["target"] == "label":
        what = f"--{PARTITION_DATA}" if PARTITION_DATA in sides.batches else "target=label"
        raise UsageError(
            f"boosted partitions are grown on what is left of the calibration rows' own labels: {what} is not used",
            hint="partition=tree and partition=forest can use it",
        )
    return boosted.Plan(
        trees=_count(params, "trees", boosted.TREES),
        rate=number(params, "rate"),
        least=_least(params, classes),
        depth=_count(params, "depth", boosted.DEPTH),
        taus=candidates(params, "tau", boosted.TAUS),
    )


def _count(params: Params, name: str, default: int) -> int:
    return default if params[name] == AUTO else int(number(params, name))


def _grower(params: Params, sides: SideInputs, seed: int) -> averaged.Grower:
    """The target of the trees: residuals of the calibration rows by default, labels of ``--partition-data``.

    The model may have been trained on those other rows, so that its residuals there would say little.
    """
    other = sides.batches.get(PARTITION_DATA)
    if other is None:
        return averaged.by_labels(None, seed) if params["target"] == "label" else averaged.by_residuals(seed)
    if params["target"] == "residual":
        raise UsageError(
            f"target=residual needs the calibration rows, but --{PARTITION_DATA} names others", hint="try: target=label"
        )
    return averaged.by_labels(_splittable(distinct(other, seed), str(params["columns"])), seed)


@unpacked_once("coding/category")
def _unpacked(state: State) -> Partition:
    return Partition.from_state(state)
