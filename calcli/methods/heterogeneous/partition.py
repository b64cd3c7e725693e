"""A fitted partition, trees with calibrators in their cells: applied, kept, as a formula, and as rules for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import Batch, FloatArray
from calcli.expressions import Inputs, Number, Term, Terms
from calcli.methods import catalog
from calcli.methods.base import Section
from calcli.methods.calibrator import FittedMethod, formula_of, score_formula_of
from calcli.methods.heterogeneous.cells import Cells
from calcli.methods.heterogeneous.coding import MOST_NAMED, CodeSet, Coding, Mask
from calcli.methods.heterogeneous.tree import Tree
from calcli.methods.trees.coding import importance_section, leaf_columns, rates
from calcli.numeric.links import probabilities, scores
from calcli.state import Json, State, nest, unnest

_PARTS = ("shared", "coding", "trees", "cells", "own")
_TREE_ARRAYS = ("feature", "left", "mask", "depth")
_CELL_ARRAYS = ("share", "weight", "label", "said")


@dataclass(frozen=True)
class Partition:
    """All that heterogeneous calibration has learned."""

    nested: bool
    """Each tree starts from the scores that the one before it gave, the first from the shared calibrator; otherwise
    each calibrates the incoming scores, and the result is the mean of their probabilities.
    """

    shared: FittedMethod
    """The calibrator of all rows."""

    coding: Coding
    trees: tuple[tuple[Tree, Cells], ...]

    def predict(self, batch: Batch) -> FloatArray:
        rows = Batch(batch.score)
        prob = self.shared.predict(rows)
        if not self.trees:
            return prob
        codes, score = self.coding.encode(batch.features), scores(prob)
        mean: FloatArray = np.zeros_like(score)
        for tree, cells in self.trees:
            leaf = tree.leaf_of(codes)
            if self.nested:
                score = cells.calibrate(score, Batch(score), leaf)
            else:
                mean += probabilities(cells.calibrate(score, rows, leaf))
        return probabilities(score) if self.nested else mean / len(self.trees)

    def to_state(self) -> State:
        """Numbers and arrays, with those features only that some tree splits on."""
        used = np.unique(np.concatenate([tree.used for tree, _ in self.trees] or [np.empty(0, dtype=np.int64)]))
        coding = self.coding.only([int(place) for place in used])
        trees = [tree.renumbered(np.searchsorted(used, tree.feature), coding.width) for tree, _ in self.trees]
        own = [calibrator for _, cells in self.trees for calibrator in cells.own]
        facts: dict[str, Json] = {
            "nested": self.nested,
            "method": self.shared.spec.name,
            "classes": self.shared.classes,
            "rows": [calibrator.rows for calibrator in own],
        }
        parts = {
            "shared": self.shared.to_state(),
            "coding": coding.to_state(),
            "trees": _joined([(tree.feature, tree.left, tree.mask, tree.depth) for tree in trees], _TREE_ARRAYS),
            "cells": _joined([(of.share, of.weight, of.label, of.predicted) for _, of in self.trees], _CELL_ARRAYS),
            "own": _stack([calibrator.state for calibrator in own]),
        }
        whole = nest(parts)
        return State({**whole.params, "facts": facts}, whole.arrays, whole.blobs)

    @classmethod
    def from_state(cls, state: State) -> Partition:
        """The inverse of `to_state`, with checks."""
        facts, parts = state.params["facts"], unnest(state, _PARTS)
        if not isinstance(facts, dict) or not isinstance(facts["rows"], list):
            raise TypeError("it does not say what its cells were fitted on")
        spec, classes = catalog.find(str(facts["method"])), int(str(facts["classes"]))
        own = tuple(
            FittedMethod(spec, classes, int(str(rows)), own_state).checked()
            for rows, own_state in zip(facts["rows"], _unstack(parts["own"]), strict=True)
        )
        trees = [Tree(*arrays) for arrays in _divided(parts["trees"], _TREE_ARRAYS)]
        ends = np.cumsum([0, *(int(tree.is_leaf.sum()) for tree in trees)])
        cells = [
            Cells(own[start:end], *arrays)
            for (start, end), arrays in zip(pairwise(ends), _divided(parts["cells"], _CELL_ARRAYS), strict=True)
        ]
        shared, coding = FittedMethod.from_state(spec.name, parts["shared"]), Coding.from_state(parts["coding"])
        partition = cls(bool(facts["nested"]), shared, coding, tuple(zip(trees, cells, strict=True)))
        for tree, of_tree in partition.trees:
            tree.check(coding)
            of_tree.check(int(tree.is_leaf.sum()))
        return partition


def _joined(parts: Sequence[Sequence[NDArray[Any]]], names: Sequence[str]) -> State:
    """The arrays of all trees, those of one name concatenated."""
    if not parts:
        return State()
    lengths = np.array([len(arrays[0]) for arrays in parts], dtype=np.int64)
    joined = {name: np.concatenate(arrays) for name, arrays in zip(names, zip(*parts, strict=True), strict=True)}
    return State(arrays={"lengths": lengths, **joined})


def _divided(state: State, names: Sequence[str]) -> list[list[NDArray[Any]]]:
    """The arrays of each tree that `_joined` concatenated."""
    if not state.arrays:
        return []
    ends = np.cumsum(state.arrays["lengths"])[:-1]
    return [list(arrays) for arrays in zip(*(np.split(state.arrays[name], ends) for name in names), strict=True)]


def _stack(states: Sequence[State]) -> State:
    """Many states of one method as one. Their arrays have the same names, and may differ in shape."""
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in states[0].arrays if states else ():
        of_states = [np.asarray(state.arrays[name]) for state in states]
        arrays[f"{name}/values"] = np.concatenate([array.ravel() for array in of_states])
        arrays[f"{name}/shapes"] = np.array([array.shape for array in of_states], dtype=np.int64)
    return State({"states": [dict(state.params) for state in states]}, arrays)


def _unstack(whole: State) -> list[State]:
    """The states that `_stack` put together."""
    params = cast("list[dict[str, Json]]", whole.params["states"])
    arrays: list[dict[str, NDArray[np.generic]]] = [{} for _ in params]
    for key, values in whole.arrays.items():
        name, _, suffix = key.rpartition("/")
        if suffix != "values":
            continue
        start = 0
        for of_state, shape in zip(arrays, np.asarray(whole.arrays[f"{name}/shapes"]), strict=True):
            end = start + int(np.prod(shape))
            of_state[name] = values[start:end].reshape([int(side) for side in shape])
            start = end
    return [State(of_state, own_arrays) for of_state, own_arrays in zip(params, arrays, strict=True)]


def formula(fitted: Partition, score: Terms, features: Inputs) -> Terms:
    """`Partition.predict` as terms."""
    prob = formula_of(fitted.shared, score, {})
    if not fitted.trees:
        return prob
    shared = terms.scores(prob)
    if fitted.nested:  # each tree calibrates the score of the one before
        for tree, cells in fitted.trees:
            shared = _in_cells(fitted, tree, cells, shared, shared, features)
        return terms.probabilities(shared)
    by_tree = [
        terms.probabilities(_in_cells(fitted, tree, cells, score, shared, features)) for tree, cells in fitted.trees
    ]
    return tuple(terms.total(of_class) / float(len(by_tree)) for of_class in zip(*by_tree, strict=True))


def _in_cells(fitted: Partition, tree: Tree, cells: Cells, score: Terms, without: Terms, features: Inputs) -> Terms:
    """The score by the calibrator of a row's cell, shrunk to the score `without` it."""
    each = [
        (*score_formula_of(calibrator, score), Number(share))
        for calibrator, share in zip(cells.own, cells.share.tolist(), strict=True)
    ]
    *own, share = terms.at_place(_cell(fitted, tree, features), each)
    return tuple(base + share * (of_cell - base) for of_cell, base in zip(own, without, strict=True))


def _cell(fitted: Partition, tree: Tree, features: Inputs) -> Term:
    """The number of the cell that a row lies in, as nested conditions."""

    def below(node: int) -> Term:
        if tree.left[node] == node:
            return Number(float(tree.leaf_index[node]))
        feature = fitted.coding.features[int(tree.feature[node])]
        condition, goes_left = CodeSet(feature, tree.mask[node]).condition(features[feature.name])
        left, right = below(int(tree.left[node])), below(int(tree.left[node]) + 1)
        return terms.choose(condition, left, right) if goes_left else terms.choose(condition, right, left)

    return below(0)


def sections(fitted: Partition) -> tuple[Section, ...]:
    """The features that trees split by, and the cells of all trees with a note on how they are to be read."""
    binary = fitted.shared.classes == 2
    start = f"All rows: {_calibrator_words(fitted.shared)}."
    if not fitted.trees:
        return (Section("cells", (), (), f"{start} No cells."),)
    rows: list[tuple[Json, ...]] = []
    brief: list[tuple[Json, ...]] = []
    moves: list[float] = []
    for number, (tree, cells) in enumerate(fitted.trees, start=1):
        moves += (cells.share * np.abs(cells.label - cells.predicted).sum(axis=1)).tolist()
        paths = _paths(fitted, tree, None), _paths(fitted, tree, MOST_NAMED)
        for place, (whole, short) in enumerate(zip(*paths, strict=True)):
            weight = float(cells.weight[place])
            known = rates(weight, float(cells.label[place, 0]), float(cells.predicted[place, 0])) if binary else ()
            facts = (weight, *known, _calibrator_words(cells.own[place]), float(cells.share[place]))
            rows.append((number, whole, *facts))
            brief.append((number, short, *facts))
    order = "Tree after tree" if fitted.nested else "The mean over trees" if len(fitted.trees) > 1 else "In each cell"
    note = (
        f"{start} {order}: z' = (1 - share) z_without + share z_own on log-odds, where z_own is the output of the "
        + ("cell's calibrator for the score so far, and " if fitted.nested else "cell's calibrator, and ")
        + ("z_without is that score." if fitted.nested else "z_without that of the calibrator of all rows.")
    )
    if binary:
        note += " pud is the mean probability before the cell divided by the label rate."
    columns = leaf_columns("calibrator", "share", with_rates=binary)
    return (_features(fitted), Section("cells", columns, tuple(rows), note, tuple(moves), tuple(brief)))


def _features(fitted: Partition) -> Section:
    names, depth, gain = list[str](), list[int](), list[float]()
    for tree, cells in fitted.trees:
        # The sums of each node's rows, from those of the leaves below it.
        sums = np.zeros((len(tree.left), 1 + cells.label.shape[1]))
        sums[tree.is_leaf] = np.column_stack([cells.weight, cells.label - cells.predicted])
        inner = np.flatnonzero(~tree.is_leaf)
        left = tree.left[inner]
        for node, child in zip(inner[::-1], left[::-1], strict=True):
            sums[node] = sums[child] + sums[child + 1]
        mass = sums[:, 0]
        explained = np.divide((sums[:, 1:] ** 2).sum(axis=1), mass, out=np.zeros(len(mass)), where=mass > 0)
        names += [fitted.coding.features[feature].name for feature in tree.feature[inner]]
        depth += tree.depth[inner].tolist()
        gain += (explained[left] + explained[left + 1] - explained[inner]).tolist()
    what = "the squared errors before a tree that the means of its nodes explain"
    return importance_section(names, np.array(depth, dtype=np.int64), np.array(gain), what)


def _calibrator_words(calibrator: FittedMethod) -> str:
    """The name of a calibrator; of Platt scaling its formula."""
    if calibrator.spec.name != "platt" or calibrator.classes > 2:
        return calibrator.spec.name
    state = calibrator.state
    return f"{state.number('a'):.6g} z {state.number('b'):+.6g}"


def _paths(fitted: Partition, tree: Tree, most: int | None) -> list[str]:
    """The conditions of each leaf, one for each feature that was split on; a list names at most so many levels."""
    features = fitted.coding.features
    allowed: list[dict[int, Mask]] = [{} for _ in tree.left]
    for node in np.flatnonzero(~tree.is_leaf):
        feature, left = int(tree.feature[node]), int(tree.left[node])
        for child, mask in ((left, tree.mask[node]), (left + 1, ~tree.mask[node])):
            above = allowed[node].get(feature)
            allowed[child] = {**allowed[node], feature: mask if above is None else above & mask}
    return [
        " and ".join(CodeSet(features[feature], mask).words(most) for feature, mask in allowed[leaf].items())
        or "all rows"
        for leaf in np.flatnonzero(tree.is_leaf)
    ]
