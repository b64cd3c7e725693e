"""Partitions as rules that people can read."""

from __future__ import annotations

import numpy as np

from calcli.methods.base import Section
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous.conditions import CodeSet
from calcli.methods.heterogeneous.partition import Partition
from calcli.methods.heterogeneous.tree import Mask, Tree
from calcli.methods.trees.rules import leaf_section, rates
from calcli.state import Json


def sections(fitted: Partition) -> tuple[Section, ...]:
    """The cells of all trees."""
    binary = fitted.shared.classes == 2
    start = f"All rows: {_calibrator_words(fitted.shared)}."
    if not fitted.trees:
        return (Section("cells", (), (), f"{start} No cells."),)
    # A row for each cell of each tree.
    rows: list[tuple[Json, ...]] = []
    for number, (tree, cells) in enumerate(zip(fitted.trees, fitted.cells, strict=True), start=1):
        for place, path in enumerate(_paths(fitted, tree)):
            weight = float(cells.weight[place])
            known = rates(weight, float(cells.label[place, 0]), float(cells.predicted[place, 0])) if binary else ()
            rows.append((number, path, weight, *known, _calibrator_words(cells.own[place]), float(cells.share[place])))
    # How they are to be read.
    order = "Tree after tree" if fitted.nested else "The mean over trees"
    note = (
        f"{start} {order}: z' = (1 - share) z_without + share z_own on log-odds, where z_own is the output of the "
        + ("cell's calibrator for the score so far, and " if fitted.nested else "cell's calibrator, and ")
        + ("z_without is that score." if fitted.nested else "z_without that of the calibrator of all rows.")
    )
    if binary:
        note += " pud is the mean probability before the cell divided by the label rate."
    return (leaf_section("cells", rows, ("calibrator", "share"), note, with_rates=binary),)


def _calibrator_words(calibrator: FittedMethod) -> str:
    """The name of a calibrator; of Platt scaling its formula."""
    if calibrator.spec.name != "platt" or calibrator.classes > 2:
        return calibrator.spec.name
    state = calibrator.state
    return f"{state.number('a'):.6g} z {state.number('b'):+.6g}"


def _paths(fitted: Partition, tree: Tree) -> list[str]:
    """The conditions of each leaf, one for each feature that was split on."""
    allowed: list[dict[int, Mask]] = [{} for _ in tree.left]
    for node in np.flatnonzero(~tree.is_leaf):
        feature, left = int(tree.feature[node]), int(tree.left[node])
        for child, mask in ((left, tree.mask[node]), (left + 1, ~tree.mask[node])):
            above = allowed[node].get(feature)
            allowed[child] = {**allowed[node], feature: mask if above is None else above & mask}
    return [
        " and ".join(str(CodeSet(fitted.coding.features[feature], mask)) for feature, mask in allowed[leaf].items())
        or "all rows"
        for leaf in np.flatnonzero(tree.is_leaf)
    ]
