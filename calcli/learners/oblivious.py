"""The trees of a CatBoost model as plain numbers.

A CatBoost tree is oblivious: all rows meet the same splits, and the answers together are the number of the leaf. What
the splits are is seen from the leaves of rows that differ in one feature: a split of a category compares an encoding of
it, of which the model keeps hashes only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from calcli.batch import Column, FloatArray
from calcli.learners import catboost
from calcli.learners.catboost import MISSING

if TYPE_CHECKING:
    from catboost import CatBoost

Answers: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Above:
    """Rows pass whose number is above the cut; of rows without one all, or none."""

    feature: str
    cut: float
    missing: bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """Whether categories pass that were not in the fit, the levels for which it is the other way, and missing ones."""

    feature: str
    unseen: bool
    different: frozenset[str]
    missing: bool

    def passes(self, value: str | bool) -> bool:
        """Whether a level does; True stands for all that were not in the fit, False for missing ones."""
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
    """The trees, and one without splits for the bias; `levels` are those of each category in the fit."""
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
    """Rows that differ from the first, of which nothing is known, in one feature; and the leaves that they fall into.

    Attributes
    ----------
    leaf
        Of each row and tree.
    cuts
        Of each number: after a row below all of them there is one above each.
    levels
        Of each category: after a row without it there is one for each.
    """

    leaf: np.ndarray[Any, np.dtype[np.int64]]
    cuts: Mapping[str, FloatArray]
    levels: Mapping[str, Sequence[str]]

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
            columns[name] = Column("category", codes, (*texts, _unlike(texts)))
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


def _unlike(levels: Sequence[str]) -> str:
    """A text that is none of these."""
    return max(levels, key=len) + "_"
