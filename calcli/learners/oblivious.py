"""CatBoost's oblivious trees: their splits as plain numbers, and their SHAP values in tables by leaf.

All rows meet the same splits, and the answers together are the number of the leaf. A split shows in the leaves of rows
that differ in one feature; a split of a category compares an encoding of it, of which the model keeps hashes only.

SHAP values are those of Lundberg et al. 2020 (the values of trees that follow paths). CatBoost goes through a tree anew
for each row. But all rows of a leaf have the same values, so a tree is a table here, and the values of a row are the
sum of one row of each table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from calcli.batch import Column, FloatArray, IntArray
from calcli.learners import catboost, cbm
from calcli.learners.catboost import MISSING

if TYPE_CHECKING:
    from catboost import CatBoost

_MOST = 1 << 29
"""How many products of numbers the tables of `LeafShap` may take to compute."""


Answers: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Above:
    """Rows pass whose number is above the cut; rows without a number pass if `missing`."""

    feature: str
    cut: float
    missing: bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether categories pass that were not in the fit (`unseen`), the levels that differ from it, and missing ones."""

    feature: str
    unseen: bool
    different: frozenset[str]
    missing: bool

    def passes(self, value: str | bool) -> bool:
        """Whether a level passes; True stands for levels that were not in the fit, False for missing ones."""
        if isinstance(value, bool):
            return self.unseen if value else self.missing
        return (value in self.different) != self.unseen


Split: TypeAlias = Above | OneOf | bool
"""A condition; or the one answer that all rows have."""


@dataclass(frozen=True, slots=True)
class Tree:
    """The splits, and the values of the leaves, shape (leaves, outputs): a split that is passed adds 2^place."""

    splits: tuple[Split, ...]
    values: FloatArray


def trees(model: CatBoost, levels: Mapping[str, Sequence[str]]) -> list[Tree]:
    """The trees, and one without splits for the bias; `levels` has the levels of each category in the fit."""
    params = json.loads(model.get_metadata()["params"])["flat_params"]
    if levels and params.get("max_ctr_complexity") != 1:
        raise ValueError("the model may combine categories, for which its trees have no conditions")
    probes = _Probes.of(model, {name: sorted({*known, MISSING}) for name, known in levels.items()})
    counts = model.get_tree_leaf_counts()
    scale, bias = model.get_scale_and_bias()
    of_leaves = np.split(scale * model.get_leaf_values().reshape(sum(counts), -1), np.cumsum(counts)[:-1])
    made = [Tree((), np.reshape(np.array(bias, dtype=np.float64), (1, -1)))]
    for place, values in enumerate(of_leaves):
        depth = len(values).bit_length() - 1
        passed = (probes.leaf[:, place, None] >> np.arange(depth) & 1).astype(np.bool_)
        made.append(Tree(tuple(map(probes.split, passed.T)), values))
    return made


def exact_cut(border: float) -> float:
    """The largest number that as a float32, which CatBoost compares, is not above the border."""
    low = np.float32(border)
    high = _next(low)
    beyond = 2.0**128  # numbers on the way there become infinite
    middle = (max(float(low), -beyond) + min(float(high), beyond)) / 2.0
    even = int(low.view(np.uint32)) % 2 == 0  # a number in the middle becomes the one whose last bit is 0
    return middle if even else float(np.nextafter(middle, -np.inf))


def _next(number: np.float32) -> np.float32:
    """The next larger float32."""
    with np.errstate(over="ignore"):
        return np.float32(np.nextafter(number, np.float32(np.inf)))


@dataclass(frozen=True, slots=True)
class _Probes:
    """Rows that differ in one feature from the first, of which nothing is known, and the leaves that they fall into."""

    leaf: np.ndarray[Any, np.dtype[np.int64]]
    """The leaf of each row in each tree."""

    cuts: Mapping[str, FloatArray]
    """The cuts of each number: after a row below all of them there is one above each."""

    levels: Mapping[str, Sequence[str]]
    """The levels of each category: after a row without one there is one for each."""

    @classmethod
    def of(cls, model: CatBoost, levels: Mapping[str, Sequence[str]]) -> _Probes:
        names, borders = model.feature_names_, model.get_borders()
        cuts = {name: np.sort(borders[place]) for place, name in enumerate(names) if name not in levels}
        rows = 1 + sum(1 + len(each) for each in (*cuts.values(), *levels.values()))
        columns: dict[str, Column] = {}
        start = 1
        for name, known in cuts.items():
            values = np.full(rows, np.nan)
            values[start : start + 1 + len(known)] = [-np.inf, *map(_next, known.astype(np.float32))]
            columns[name] = Column("number", values)
            start += 1 + len(known)
        for name, texts in levels.items():
            codes = np.full(rows, len(texts), dtype=np.int32)
            codes[start : start + 1 + len(texts)] = np.arange(-1, len(texts))
            unlike = max(texts, key=len) + "_"  # a text that is none of the levels
            columns[name] = Column("category", codes, (*texts, unlike))
            start += 1 + len(texts)
        with catboost.refusals("say what its trees are"):
            data = catboost.pool({name: columns[name] for name in names})
            return cls(np.asarray(model.calc_leaf_indexes(data), dtype=np.int64).reshape(rows, -1), cuts, levels)

    def split(self, passed: Answers) -> Split:
        """The condition that gives these answers: it depends on one feature, if on any."""
        unknown, start = bool(passed[0]), 1
        for name, cuts in self.cuts.items():
            below, *above = passed[start : start + 1 + len(cuts)]
            if above and above[-1] != below:
                return Above(name, exact_cut(cuts[above.index(True)]), unknown)
            start += 1 + len(cuts)
        for name, levels in self.levels.items():
            missing, *of_levels = passed[start : start + 1 + len(levels)]
            different = frozenset(level for level, passes in zip(levels, of_levels, strict=True) if passes != unknown)
            if different or missing != unknown:
                return OneOf(name, unknown, different, bool(missing))
            start += 1 + len(levels)
        return unknown


@dataclass(frozen=True, slots=True)
class LeafShap:
    """A table for each tree: the `columns` of the result that it adds to, and the `values` of its leaves for each."""

    columns: Sequence[IntArray]
    values: Sequence[FloatArray]
    width: int

    @classmethod
    def of(cls, model: CatBoost) -> LeafShap | None:
        """The tables; None if trees are not oblivious, combine features, saw rows without weight, or are too deep."""
        trees = cbm.oblivious_trees(catboost.to_bytes(model))
        leaves = model.get_tree_leaf_counts()
        if not trees or sum(int(count) ** 3 for count in leaves) > _MOST:
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
        """The values of all features, output by output, for rows that fall into these leaves, shape (n, trees)."""
        found = np.zeros((self.width, len(leaves)))
        for leaf, columns, values in zip(np.ascontiguousarray(leaves.T), self.columns, self.values, strict=True):
            for column, of_leaf in zip(columns, values, strict=True):
                found[column] += of_leaf[leaf]
        return found.T


def _shapley(splits: IntArray, features: int, values: FloatArray, weight: FloatArray) -> FloatArray:
    """The part of each feature in each leaf, shape (outputs * features, leaves), of a tree with these splits.

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
