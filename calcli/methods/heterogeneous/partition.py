"""Fitted partitions: what heterogeneous calibration keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray
from calcli.methods import catalog
from calcli.methods.calibrator import Calibrator
from calcli.methods.heterogeneous.cell_calibrators import Cells
from calcli.methods.heterogeneous.coding import Coding
from calcli.methods.heterogeneous.stacked_states import stack, unstack
from calcli.methods.heterogeneous.tree import Tree
from calcli.numeric.links import probabilities, scores
from calcli.state import Json, State, nest, unnest

_PARTS = ("shared", "coding", "trees", "cells", "own")
_NUMBERS = ("share", "weight", "label", "said")


@dataclass(frozen=True)
class Partition:
    """The map that all rows share, and trees with calibrators in their cells.

    Attributes
    ----------
    nested
        Each tree starts from the scores that the one before it gave, the first from the shared map; otherwise each
        has calibrators of the scores that came in, and the result is the mean of their probabilities.
    shared
        The calibrator of all rows.
    """

    nested: bool
    shared: Calibrator
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
            leaf = tree.leaf_index[tree.path(codes)[-1]]
            if self.nested:
                score = cells.mixed(score, Batch(score), leaf)
            else:
                mean += probabilities(cells.mixed(score, rows, leaf))
        return probabilities(score) if self.nested else mean / len(self.trees)

    def to_state(self) -> State:
        """Numbers and arrays; of the features those that a tree asks for."""
        asked = np.unique(np.concatenate([tree.asked for tree in self.trees] or [np.empty(0, dtype=np.int64)]))
        coding = self.coding.only([int(place) for place in asked])
        trees = [tree.renumbered(np.searchsorted(asked, tree.feature), coding.width) for tree in self.trees]
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
            "trees": _joined(trees, [field.name for field in fields(Tree)]),
            "cells": _joined(self.cells, _NUMBERS),
            "own": stack([calibrator.state for calibrator in own]),
        }
        whole = nest(parts)
        return State({**whole.params, "facts": facts}, whole.arrays, whole.blobs)

    @classmethod
    def from_state(cls, state: State) -> Partition:
        """What `to_state` gave."""
        facts, parts = state.params["facts"], unnest(state, _PARTS)
        if not isinstance(facts, dict) or not isinstance(facts["rows"], list):
            raise TypeError("it does not say what its cells were fitted on")
        spec, classes = catalog.find(str(facts["method"])), int(str(facts["classes"]))
        own = tuple(
            Calibrator(spec, classes, int(str(rows)), each)
            for rows, each in zip(facts["rows"], unstack(parts["own"]), strict=True)
        )
        trees = tuple(Tree(*arrays) for arrays in _divided(parts["trees"], [field.name for field in fields(Tree)]))
        ends = np.cumsum([0, *(int(tree.is_leaf.sum()) for tree in trees)])
        cells = (
            Cells(own[start:end], *arrays)
            for (start, end), arrays in zip(pairwise(ends), _divided(parts["cells"], _NUMBERS), strict=True)
        )
        shared, coding = Calibrator.from_state(spec.name, parts["shared"]), Coding.from_state(parts["coding"])
        found = cls(bool(facts["nested"]), shared, coding, trees, tuple(cells))
        for tree, own_cells in zip(trees, found.cells, strict=True):
            tree.check(coding)
            own_cells.check(int(tree.is_leaf.sum()))
        return found


def _joined(parts: Sequence[object], names: Sequence[str]) -> State:
    """Arrays of equally many entries, of several things, one behind the other."""
    if not parts:
        return State()
    lengths = np.array([len(getattr(part, names[0])) for part in parts], dtype=np.int64)
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    return State(arrays={"lengths": lengths, **arrays})


def _divided(state: State, names: Sequence[str]) -> list[list[NDArray[Any]]]:
    """The arrays of each of the things that `_joined` put together."""
    if not state.arrays:
        return []
    ends = np.cumsum(state.arrays["lengths"])[:-1]
    return [list(arrays) for arrays in zip(*(np.split(state.arrays[name], ends) for name in names), strict=True)]
