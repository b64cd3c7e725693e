"""Trees one after the other, as they are applied and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, spans
from calcli.methods.mbct import kernels
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import Codes, Places
from calcli.methods.mbct.kernels.predict import Walk, apply_trees
from calcli.methods.mbct.level_passes import BLOCK
from calcli.methods.trees.compiled import on_threads
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.pooled import limits

_TYPES: Mapping[str, type[np.generic]] = {
    **dict.fromkeys(("sizes", "rows"), np.int64),
    **dict.fromkeys(("feature", "first", "branches"), np.int32),
    "code": np.uint16,
    **dict.fromkeys(("pattern", "mass", "positive", "predicted", "local", "split", "overall", "bound"), np.float64),
}


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in the order in which they are applied; an entry for each node, tree after tree, level after level.

    Attributes
    ----------
    link
        `kernels.ODDS` or `kernels.LINEAR`.
    sizes
        How many nodes each tree has.
    feature, first, branches, code
        As in `grow.Tree`, but with ``first`` counted over all trees.
    pattern
        b or k as it is applied: a fraction, the rate, of the step that `grow.Tree` has.
    rows, mass, positive, predicted
        Of the rows of the node when the tree was grown: their number, their weight, that of the positive ones, and the
        sum of weight times probability before the tree.
    local, split, overall
        As in `grow.Tree`.
    bound
        For ``linear``: beyond it, which is what the rows of the node support (`calcli.numeric.pooled`), its factor
        takes no probability that did not lie there. 0 and 1 are exact.
    """

    link: int
    sizes: Places
    feature: NDArray[np.int32]
    first: NDArray[np.int32]
    branches: NDArray[np.int32]
    code: Codes
    pattern: FloatArray
    rows: NDArray[np.int64]
    mass: FloatArray
    positive: FloatArray
    predicted: FloatArray
    local: FloatArray
    split: FloatArray
    overall: FloatArray
    bound: FloatArray

    @classmethod
    def of(cls, trees: Sequence[Tree], link: int, rate: float, *, average: float | None = None) -> Forest:
        """From trees as they are grown; with the label rate of all rows, leaves are held within what rows support."""

        def joined(name: str) -> NDArray[np.generic]:
            return np.concatenate([getattr(tree, name) for tree in trees]) if trees else np.empty(0)

        # Nodes are numbered over all trees; facts become the few that are reported.
        sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
        before = np.cumsum(sizes) - sizes
        facts = np.concatenate([np.empty((0, kernels.FACTS)), *(tree.facts for tree in trees)])
        mass, positive, first_sum = facts[:, kernels.MASS], facts[:, kernels.POSITIVE], facts[:, 0]
        feature, pattern = joined("feature").astype(np.int32), joined("pattern").astype(np.float64)
        steps = applied(pattern, link, rate)
        bound = _exact_bound(steps)
        if average is not None and link == kernels.LINEAR:
            bound = np.where(bound == 1.0, *limits(mass, average)[::-1])
        return cls(
            link=link,
            sizes=sizes,
            feature=feature,
            first=np.where(feature >= 0, joined("first") + np.repeat(before, sizes), 0).astype(np.int32),
            branches=joined("branches").astype(np.int32),
            code=joined("code").astype(np.uint16),
            pattern=steps,
            rows=facts[:, kernels.COUNT].astype(np.int64),
            mass=mass,
            positive=positive,
            predicted=first_sum + positive if link == kernels.ODDS else first_sum,
            local=joined("local").astype(np.float64),
            split=joined("split").astype(np.float64),
            overall=joined("overall").astype(np.float64),
            bound=bound,
        )

    def __len__(self) -> int:
        """How many trees there are."""
        return len(self.sizes)

    @property
    def roots(self) -> Places:
        """The root of each tree."""
        return np.cumsum(self.sizes) - self.sizes

    @property
    def used(self) -> list[int]:
        """The features that some node is split by."""
        return [int(feature) for feature in np.unique(self.feature) if feature >= 0]

    def renumbered(self, places: Sequence[int]) -> Forest:
        """The same where only the features at `places` are left, numbered anew."""
        new = np.full(max([*places, -1]) + 2, -1, dtype=np.int32)
        new[list(places)] = np.arange(len(places))
        return replace(self, feature=new[self.feature])

    @cached_property
    def walk(self) -> Walk:
        """The trees as `apply_trees` takes them."""
        # Each node but a root as the child of its parent; a parent's children are successive nodes.
        inner = self.feature >= 0
        branches = np.where(inner, self.branches, 0)
        parent = np.repeat(np.arange(len(branches)), branches)
        child = self.first[parent] + np.arange(len(parent)) - (np.cumsum(branches) - branches)[parent]
        # The entries of a node by code: as many as the greatest code, which is its last child's, asks for, and one for
        # all greater codes. First all lead to the rest, which is the first child; a leaf has one entry, itself.
        span = np.zeros(len(branches), dtype=np.int64)
        span[inner] = self.code[(self.first + branches - 1)[inner]].astype(np.int64) + 1
        base = np.cumsum(span + 1) - (span + 1)
        children = np.repeat(np.where(inner, self.first, np.arange(len(branches))), span + 1).astype(np.uint32)
        children[base[parent] + self.code[child]] = child
        # A node as one number.
        parts = (np.maximum(self.feature, 0), 49), (span, 32), (base, 0)  # as `apply_trees` takes them apart
        nodes = np.bitwise_or.reduce([part.astype(np.uint64) << np.uint64(bits) for part, bits in parts])
        return Walk(
            self.roots.astype(np.uint32),
            self._depths(parent, child),
            nodes,
            children,
            self.pattern,
            self.bound,
        )

    def _depths(self, parent: Places, child: Places) -> Places:
        """The most conditions on the way to a leaf, for each tree."""
        depth = np.zeros(len(self.feature), dtype=np.int64)
        while (depth[child] != depth[parent] + 1).any():
            depth[child] = depth[parent] + 1
        return np.maximum.reduceat(depth, self.roots)

    def calibrate(self, codes: Codes, score: FloatArray) -> None:
        """Calibrate rows by all trees; `score` is z for ``odds`` and p for ``linear``, and is changed."""

        def work(block: slice) -> None:
            apply_trees(codes[block], score[block], self.link, self.walk)

        on_threads(work, spans(len(score), BLOCK))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For an artifact, without the link and the bound."""
        return {name: getattr(self, name) for name in _TYPES if name != "bound"}

    @classmethod
    def from_arrays(
        cls, link: int, arrays: Mapping[str, NDArray[Any]], codes: Sequence[int], bound: FloatArray | None = None
    ) -> Forest:
        """The inverse of `to_arrays`, for features of so many codes; without a bound it is exact.

        A `ValueError` where these are no trees.
        """
        forest = cls(link, **arrays, bound=_exact_bound(arrays["pattern"]) if bound is None else bound)
        forest._check(np.array(codes, dtype=np.int64))
        return forest

    def _check(self, codes: Places) -> None:
        """Compiled loops do not check indices: those of an artifact must lead to nodes and codes that exist."""
        # Types and lengths.
        nodes = len(self.feature)
        for field in fields(self):
            array = getattr(self, field.name)
            if field.name != "link" and (array.dtype != _TYPES[field.name] or array.ndim != 1):
                raise ValueError(f"the trees' {field.name} are of another type or shape")
            if field.name not in ("link", "sizes") and len(array) != nodes:
                raise ValueError(f"there are {len(array)} {field.name} of {nodes} nodes")
        if (self.sizes < 1).any() or sum(self.sizes.tolist()) != nodes:
            raise ValueError("the trees have not the nodes that they say")
        # Every node's children come after it in its own tree, and every node but a root is the child of one.
        inner = np.flatnonzero(self.feature >= 0)
        first, last = self.first[inner].astype(np.int64), self.first[inner] + self.branches[inner].astype(np.int64) - 1
        end = np.repeat(np.cumsum(self.sizes), self.sizes)[inner]
        if (self.feature >= len(codes)).any():
            raise ValueError("the trees ask for features that do not exist")
        if (first <= inner).any() or (last < first).any() or (last >= end).any():
            raise ValueError("the trees' nodes lead nowhere")
        if int((last - first + 1).sum()) != nodes - len(self.sizes):
            raise ValueError("the trees' nodes are not each below one other")
        if (self.code[last] >= codes[self.feature[inner]]).any():
            raise ValueError("the trees ask for codes that do not exist")


def _exact_bound(steps: FloatArray) -> FloatArray:
    """1 for factors that raise probabilities, 0 for others."""
    bound: FloatArray = (steps >= 1.0).astype(np.float64)
    return bound


def applied(pattern: FloatArray, link: int, rate: float) -> FloatArray:
    """Patterns as they are applied: a fraction of the step from the pattern that changes nothing."""
    return rate * pattern if link == kernels.ODDS else 1.0 + rate * (pattern - 1.0)


def score_of(prob: FloatArray, link: int) -> FloatArray:
    """Probabilities as `Forest.calibrate` takes them."""
    return logit(prob) if link == kernels.ODDS else prob.copy()


def prob_of(score: FloatArray, link: int) -> FloatArray:
    """The inverse of `score_of`; may change its argument."""
    return sigmoid(score, out=score) if link == kernels.ODDS else score
