"""SHAP values of CatBoost's oblivious trees, in tables by leaf.

They are those of Lundberg et al. 2020 (the values of trees that follow paths), as CatBoost computes them, which goes
through a tree anew for each row. But all rows of a leaf have the same values: those of a tree are a table, and those of
a row the sum of one row of each table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from calcli.batch import FloatArray, IntArray
from calcli.learners import catboost, cbm

if TYPE_CHECKING:
    from catboost import CatBoost

_MOST = 1 << 29
"""Products of numbers that tables may take to compute."""


@dataclass(frozen=True, slots=True)
class LeafShap:
    """The tables: of each tree the columns of the result that it adds to, and for each of these the value of a leaf."""

    columns: Sequence[IntArray]
    values: Sequence[FloatArray]
    width: int

    @classmethod
    def of(cls, model: CatBoost) -> LeafShap | None:
        """None where trees are not oblivious, combine features, have learned rows without weight, or are too deep."""
        trees = cbm.oblivious_trees(catboost.to_bytes(model))
        leaves = model.get_tree_leaf_counts()
        if not trees or sum(map(_cost, leaves)) > _MOST:
            return None
        scale, _ = model.get_scale_and_bias()
        of_leaves = scale * model.get_leaf_values().reshape(sum(leaves), -1)
        outputs, features = of_leaves.shape[1], len(model.feature_names_)
        weights = np.concatenate([weight for _, weight in trees])
        if of_leaves[weights == 0].any():  # rows without weight went there, of which CatBoost makes something else
            return None
        columns, values = [], []
        for (splits, weight), of_tree in zip(trees, np.split(of_leaves, np.cumsum(leaves)[:-1]), strict=True):
            tested = np.unique(splits)
            columns.append((np.arange(outputs)[:, None] * features + tested).ravel())
            values.append(_shapley(np.searchsorted(tested, splits), len(tested), of_tree, weight))
        return cls(columns, values, outputs * features)

    def sums(self, leaves: IntArray) -> FloatArray:
        """Of rows that fall into these leaves, shape (n, trees): the values of all features, output by output."""
        found = np.zeros((self.width, len(leaves)))
        for leaf, columns, values in zip(np.ascontiguousarray(leaves.T), self.columns, self.values, strict=True):
            for column, of_leaf in zip(columns, values, strict=True):
                found[column] += of_leaf[leaf]
        return found.T


def _cost(leaves: int) -> int:
    return int(leaves) ** 3


def _shapley(splits: IntArray, features: int, values: FloatArray, weight: FloatArray) -> FloatArray:
    """What each feature adds in each leaf, shape (outputs * features, leaves), of a tree with these splits.

    E_S of a leaf, the mean over the rows that agree with it in the features S, follows the splits from the last, which
    is at the root: where one is of S, to the side of the leaf, else to both, in proportion to the weights of the rows
    that went there.
    """
    leaf = np.arange(len(values))
    share = np.ones((features, len(values)))
    for place, feature in enumerate(splits):
        below, above = (np.bincount(leaf >> level, weight)[leaf >> level] for level in (place, place + 1))
        share[feature] *= np.divide(below, above, out=np.zeros(len(values)), where=above > 0)
    bits = [sum(1 << place for place, one in enumerate(splits) if one == feature) for feature in range(features)]
    differs = leaf[:, None] ^ leaf
    means: dict[tuple[int, ...], FloatArray] = {}
    for known in _subsets(range(features)):
        averaged = np.prod(np.delete(share, known, axis=0), axis=0)
        agrees = (differs & sum(bits[feature] for feature in known)) == 0
        means[known] = agrees @ (averaged[:, None] * values)
    added = np.zeros((len(values), values.shape[1], features))
    for feature in range(features):
        others = [other for other in range(features) if other != feature]
        for known in _subsets(others):
            chance = 1.0 / (features * math.comb(features - 1, len(known)))
            added[:, :, feature] += chance * (means[tuple(sorted((*known, feature)))] - means[known])
    return np.ascontiguousarray(added.reshape(len(values), -1).T)


def _subsets(features: Iterable[int]) -> list[tuple[int, ...]]:
    known = list(features)
    return [each for size in range(len(known) + 1) for each in combinations(known, size)]
