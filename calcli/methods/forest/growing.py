"""How a forest is grown: each tree without some folds of the rows, so that these can judge it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods.effects.coding import Coding, learned
from calcli.methods.forest import kernels
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream
from calcli.numeric.side_by_side import on_threads

MOST_BYTES = 4_800_000
"""The size of the largest forest: a node takes twelve bytes, and four for each number of its leaf."""

MOST_ROWS = 10_000
"""A tree is grown on at most so many of the rows that it may see: the bound on its size leaves no use for more."""

DEEPEST = 14
"""A tree of at most so many levels is applied quickly."""

SHARE = 0.4
"""The share of the folds that a tree does not see: about as many rows as a bootstrap sample leaves out."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows of a fit as trees see them, classes in the order of `class_order`."""

    codes: kernels.Codes
    """A line for each feature."""

    label: IntArray
    weight: FloatArray
    fold: IntArray
    """The fold of each row; -1 for rows that every tree may see."""

    classes: int


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A tree, the folds that it has not seen, the rates of classes in its nodes, and what its features have gained."""

    nodes: kernels.Codes
    unseen: tuple[int, ...]
    rates: FloatArray
    gains: FloatArray


def ordered_codings(batch: Batch, score: FloatArray, bins: int) -> list[Coding]:
    """The codings of the scores and features, with the levels of a category in the order of their mean scores.

    A cut between levels then parts those that the model thinks high of from others. No label is looked at, so that rows
    which are held out have no part in the order.
    """
    first = score if score.ndim == 1 else score[:, 0]
    return [_sorted_levels(coding, batch, first) for coding, *_ in learned(batch, score, bins, bins, ())]


def _sorted_levels(coding: Coding, batch: Batch, score: FloatArray) -> Coding:
    if coding.kind != "category":
        return coding
    column = batch.features[coding.name]
    known = column.values >= 0
    code, weight, count = column.values[known].astype(np.int64), batch.weights[known], len(column.levels)
    mass = np.maximum(totals(code, weight, count), np.finfo(np.float64).tiny)
    mean = dict(zip(column.levels, (totals(code, weight * score[known], count) / mass).tolist(), strict=True))
    return replace(coding, levels=tuple(sorted(coding.levels, key=lambda level: (mean[level], level))))


def grown(rows: Rows, *, trees: int, tries: int, least: float, seed: int) -> list[Tree]:
    """So many trees, each on rows of some folds."""
    numbers = 1 if rows.classes == 2 else rows.classes
    most = max(1, MOST_BYTES // trees // (12 + 4 * numbers))
    unseen = _unseen(int(rows.fold.max()) + 1, trees, seed)

    def work(number: int) -> Tree:
        rng = stream(seed, "tree", number)
        seen = np.flatnonzero(~np.isin(rows.fold, unseen[number]))
        if len(seen) > MOST_ROWS:
            seen = rng.choice(seen, MOST_ROWS, replace=False, shuffle=False)
        nodes, rates, gains = np.zeros((most, 3), np.int32), np.zeros((most, rows.classes)), np.zeros(len(rows.codes))
        bounds = (tries, least, DEEPEST)
        drawn = int(rng.integers(2**63))
        count = kernels.grow(rows.codes, rows.label, rows.weight, seen, drawn, bounds, nodes, rates, gains)
        return Tree(nodes[:count].copy(), unseen[number], rates[:count].copy(), gains)

    return on_threads(work, range(trees))


def _unseen(folds: int, trees: int, seed: int) -> list[tuple[int, ...]]:
    """The folds that each tree does not see, each fold as often as others; a single one is seen by every other tree."""
    if folds == 1:
        return [(0,) if number % 2 == 0 else () for number in range(trees)]
    every = list(combinations(range(folds), max(1, round(SHARE * folds))))
    order = stream(seed, "folds of trees").permutation(len(every))
    return [every[order[number % len(every)]] for number in range(trees)]


def judged(rows: Rows, trees: Sequence[Tree], some: IntArray) -> FloatArray:
    """The mean rates of these rows, by the trees that have not seen them."""
    mean, count = np.zeros((len(some), rows.classes)), np.zeros(len(some))
    for tree in trees:
        mine = np.flatnonzero(np.isin(rows.fold[some], tree.unseen))
        leaf = np.empty(len(mine), dtype=np.int32)
        kernels.leaves(rows.codes, tree.nodes, some[mine], leaf)
        mean[mine] += tree.rates[leaf]
        count[mine] += 1.0
    return mean / np.maximum(count, 1.0)[:, None]
