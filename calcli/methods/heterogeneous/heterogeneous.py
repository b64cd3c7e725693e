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
from calcli.methods.heterogeneous import fitting, partition
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.spec import MethodSpec
from calcli.methods.trees.coding import unpacked_once
from calcli.methods.trees.held_out_choice import distinct
from calcli.state import State

AUTO = "auto"

PARTITION_DATA = "partition-data"

LEAST = (15.0, 50.0)
"""The least weights of a cell that are tried, times the number of classes. A forest takes the first."""


def fit(batch: Batch, sides: SideInputs, params: Params, seed: int) -> State:
    rows = _splittable(distinct(batch, seed), str(params["columns"]))
    if params["partition"] == "boosted":
        return fitting.fit_boosted(rows, _boosted_plan(params, sides, batch.classes)).to_state()
    plan = _averaged_plan(params, sides, batch.classes, seed)
    setting = fitting.choose(rows, plan)
    state = fitting.fit_averaged(rows, plan, setting).to_state()
    return State({**state.params, SETTINGS: setting.params}, state.arrays, state.blobs)


def predict(state: State, batch: Batch, sides: SideInputs) -> FloatArray:
    return _unpacked(state).predict(batch)


def explain(state: State) -> tuple[Section, ...]:
    return partition.sections(_unpacked(state))


def formula(state: State, score: Terms, features: Inputs) -> Terms:
    return partition.formula(_unpacked(state), score, features)


def _splittable(rows: Batch, prefix: str) -> Batch:
    """The rows with those features that a tree may split on."""
    features = {name: column for name, column in rows.features.items() if name.startswith(prefix)}
    if not features:
        names = ", ".join(list(rows.features)[:5])
        raise UsageError(f"columns={prefix}: no feature name begins with it", hint=f"features are {names}")
    return replace(rows, features=features)


def _averaged_plan(params: Params, sides: SideInputs, classes: int, seed: int) -> fitting.AveragedPlan:
    """Trees are grown on the residuals of the calibration rows by default, or on the labels of ``--partition-data``.

    The model may have been trained on those other rows, so that its residuals there would say little.
    """
    other = sides.batches.get(PARTITION_DATA)
    if other is not None and params["target"] == "residual":
        raise UsageError(
            f"target=residual needs the calibration rows, but --{PARTITION_DATA} names others", hint="try: target=label"
        )
    return fitting.AveragedPlan(
        method=_leaf_method(params, classes),
        trees=1 if params["partition"] == "tree" else _count(params, "trees", fitting.FOREST_TREES),
        least=_least(params, classes),
        depths=tuple(int(depth) for depth in candidates(params, "depth", fitting.DEPTHS)),
        taus=candidates(params, "tau", fitting.TAUS),
        on_labels=other is not None or params["target"] == "label",
        partition_rows=None if other is None else _splittable(distinct(other, seed), str(params["columns"])),
        seed=seed,
    )


def _boosted_plan(params: Params, sides: SideInputs, classes: int) -> fitting.BoostedPlan:
    if PARTITION_DATA in sides.batches or params["target"] == "label":
        what = f"--{PARTITION_DATA}" if PARTITION_DATA in sides.batches else "target=label"
        raise UsageError(
            f"boosted partitions are grown on what is left of the calibration rows' own labels: {what} is not used",
            hint="partition=tree and partition=forest can use it",
        )
    return fitting.BoostedPlan(
        method=_leaf_method(params, classes),
        trees=_count(params, "trees", fitting.BOOSTED_TREES),
        rate=number(params, "rate"),
        least=_least(params, classes),
        depth=_count(params, "depth", fitting.BOOSTED_DEPTH),
        taus=candidates(params, "tau", fitting.BOOSTED_TAUS),
    )


def _leaf_method(params: Params, classes: int) -> MethodSpec:
    """The method that calibrates cells; ``auto`` is `platt` for two classes and `sms` for more."""
    asked = str(params["leaf"])
    return catalog.find(("platt" if classes == 2 else "sms") if asked == AUTO else asked)


def _least(params: Params, classes: int) -> tuple[float, ...]:
    """The least weights of a cell to choose from."""
    weights = LEAST[:1] if params["partition"] == "forest" else LEAST
    return candidates(params, "min_rows", tuple(classes * weight for weight in weights))


def _count(params: Params, name: str, default: int) -> int:
    return default if params[name] == AUTO else int(number(params, name))


@unpacked_once("coding/category")
def _unpacked(state: State) -> Partition:
    return Partition.from_state(state)
