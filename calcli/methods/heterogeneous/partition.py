"""A fitted partition: trees with calibrators in their cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.methods import catalog
from calcli.methods.calibrator import FittedMethod
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.coding import Coding
from calcli.methods.heterogeneous.stacked_states import stack, unstack
from calcli.methods.heterogeneous.tree import Tree
from calcli.numeric.links import probabilities, scores
from calcli.state import Json, State, nest, unnest

_PARTS = ("shared", "coding", "trees", "cells", "own")
_TREE_ARRAYS = ("feature", "left", "mask", "depth")
_CELL_ARRAYS = ("share", "weight", "label", "said")


@dataclass(frozen=True)
class Partition:
    """All that heterogeneous calibration has learned.

    Attributes
    ----------
    nested
        Each tree starts from the scores that the one before it gave, the first from the shared calibrator; otherwise
        each calibrates the incoming scores, and the result is the mean of their probabilities.
    shared
        The calibrator of all rows.
    """

    nested: bool
    shared: FittedMethod
    coding: Coding
    trees: tuple[Tree, ...]
    cells: tuple[Cells, ...]

    def predict(self, batch: Batch) -> FloatArray:
        """Probabilities."""
        rows = Batch(batch.score)
        prob = self.shared.predict(rows)
        if not self.trees:
            return prob
        codes, score = self.coding.encode(batch.features), scores(prob)
        mean: FloatArray = np.zeros_like(score)
        for tree, cells in zip(self.trees, self.cells, strict=True):
            leaf = tree.leaf_of(codes)
            if self.nested:
                score = cells.calibrate(score, Batch(score), leaf)
            else:
                mean += probabilities(cells.calibrate(score, rows, leaf))
        return probabilities(score) if self.nested else mean / len(self.trees)

    def to_state(self) -> State:
        """Numbers and arrays, with those features only that some tree splits on."""
        used = np.unique(np.concatenate([tree.used for tree in self.trees] or [np.empty(0, dtype=np.int64)]))
        coding = self.coding.only([int(place) for place in used])
        trees = [tree.renumbered(np.searchsorted(used, tree.feature), coding.width) for tree in self.trees]
        own = [calibrator for cells in self.cells for calibrator in cells.own]
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
            "cells": _joined([(of.share, of.weight, of.label, of.predicted) for of in self.cells], _CELL_ARRAYS),
            "own": stack([calibrator.state for calibrator in own]),
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
            FittedMethod(spec, classes, int(str(rows)), own_state)
            for rows, own_state in zip(facts["rows"], unstack(parts["own"]), strict=True)
        )
        trees = tuple(Tree(*arrays) for arrays in _divided(parts["trees"], _TREE_ARRAYS))
        ends = np.cumsum([0, *(int(tree.is_leaf.sum()) for tree in trees)])
        cells = (
            Cells(own[start:end], *arrays)
            for (start, end), arrays in zip(pairwise(ends), _divided(parts["cells"], _CELL_ARRAYS), strict=True)
        )
        shared, coding = FittedMethod.from_state(spec.name, parts["shared"]), Coding.from_state(parts["coding"])
        partition = cls(bool(facts["nested"]), shared, coding, trees, tuple(cells))
        for tree, of_tree in zip(trees, partition.cells, strict=True):
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
