"""Trees one after the other: as they are applied and kept, as a formula, and as rules for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calcli import expressions as terms
from calcli.batch import FloatArray, spans
from calcli.expressions import Function, Inputs, Missing, Number, Switch, Term
from calcli.methods.base import Section, ranges
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.grow import Tree
from calcli.methods.mbct.kernels import Codes, Places
from calcli.methods.mbct.kernels.predict import STRIDE, Walk, apply_trees
from calcli.methods.mbct.level_passes import BLOCK
from calcli.methods.trees.coding import CodedFeature, importance_section, leaf_columns, rates
from calcli.numeric.links import logit, sigmoid
from calcli.numeric.pooled import limits
from calcli.numeric.side_by_side import on_threads
from calcli.state import Json

_TYPES: Mapping[str, type[np.generic]] = {
    **dict.fromkeys(("sizes", "rows"), np.int64),
    **dict.fromkeys(("feature", "first", "branches"), np.int32),
    "code": np.uint16,
    **dict.fromkeys(("pattern", "mass", "positive", "predicted", "local", "split", "overall", "bound"), np.float64),
}


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in the order in which they are applied; an entry for each node, tree after tree, level after level."""

    link: int
    """`kernels.ODDS` or `kernels.LINEAR`."""

    sizes: Places
    """The number of nodes of each tree."""

    feature: NDArray[np.int32]
    first: NDArray[np.int32]
    branches: NDArray[np.int32]
    code: Codes
    """`feature`, `first`, `branches`, `code`: as in `grow.Tree`, but with ``first`` counted over all trees."""

    pattern: FloatArray
    """b or k as it is applied: a fraction, the rate, of the step that `grow.Tree` has."""

    rows: NDArray[np.int64]
    mass: FloatArray
    positive: FloatArray
    predicted: FloatArray
    """`rows`, `mass`, `positive`, `predicted`: sums over the rows of the node when the tree was grown: their number,
    their weight, the weight of the positive ones, and weight times probability before the tree.
    """

    local: FloatArray
    split: FloatArray
    overall: FloatArray
    """`local`, `split`, `overall`: as in `grow.Tree`."""

    bound: FloatArray
    """For ``linear``: beyond it, which is what the rows of the node support (`calcli.numeric.pooled`), its factor takes
    no probability that did not lie there. 0 and 1 are exact.
    """

    @classmethod
    def of(cls, trees: Sequence[Tree], link: int, rate: float, *, average: float | None = None) -> Forest:
        """The trees as they are grown; given the `average` label of all rows, leaves are held to what rows support."""

        def joined(name: str) -> NDArray[Any]:
            return np.concatenate([getattr(tree, name) for tree in trees]) if trees else np.empty(0)

        sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
        facts = np.concatenate([np.empty((0, kernels.FACTS)), *(tree.facts for tree in trees)])
        mass, positive, first_sum = facts[:, kernels.MASS], facts[:, kernels.POSITIVE], facts[:, 0]
        nodes = {name: joined(name) for name in ("feature", "first", "branches", "code", "local", "split", "overall")}
        # Nodes are numbered over all trees.
        before = np.repeat(np.cumsum(sizes) - sizes, sizes)
        nodes["first"] = np.where(nodes["feature"] >= 0, nodes["first"] + before, 0)
        steps = applied(joined("pattern").astype(np.float64), link, rate)
        bound = _exact_bound(steps)
        if average is not None and link == kernels.LINEAR:
            bound = np.where(bound == 1.0, *limits(mass, average)[::-1])
        nodes |= {"rows": facts[:, kernels.COUNT], "mass": mass, "positive": positive, "pattern": steps, "bound": bound}
        nodes["predicted"] = first_sum + positive if link == kernels.ODDS else first_sum
        return cls(link, sizes, **{name: np.asarray(array, dtype=_TYPES[name]) for name, array in nodes.items()})

    def __len__(self) -> int:
        """The number of trees."""
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
        """The trees with only the features at `places` left, numbered anew."""
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
        child = ranges(self.first, branches)
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
        # The most conditions on the way to a leaf, for each tree.
        depth = np.zeros(len(branches), dtype=np.int64)
        while (depth[child] != depth[parent] + 1).any():
            depth[child] = depth[parent] + 1
        depths = np.maximum.reduceat(depth, self.roots)
        return Walk(self.roots.astype(np.uint32), depths, nodes, children, self.pattern, self.bound)

    def calibrate(self, codes: Codes, score: FloatArray, *, only: int | None = None) -> None:
        """Calibrate rows by all trees, or by one; `score` is z for ``odds`` and p for ``linear``, and is changed."""
        walk = self.walk
        if only is not None:
            walk = walk._replace(roots=walk.roots[only : only + 1], depths=walk.depths[only : only + 1])

        def work(block: slice) -> None:
            own = np.ascontiguousarray(codes[block])
            apply_trees(own, score[block], self.link, walk, np.empty(STRIDE, dtype=np.uint32))

        on_threads(work, spans(len(score), BLOCK))

    def first_leaf(self, codes: Codes) -> FloatArray:
        """The leaf of the first tree that each row falls into, by its place among the rules; 1 without trees."""
        if not len(self):
            return np.ones(len(codes))
        walk, node = self.walk, np.zeros(len(codes), dtype=np.int64)
        base, span = walk.nodes & np.uint64(2**32 - 1), walk.nodes >> np.uint64(32) & np.uint64(2**17 - 1)
        for _ in range(int(walk.depths[0])):
            code = codes[np.arange(len(codes)), np.maximum(self.feature[node], 0)]
            node = walk.children[(base[node] + np.minimum(code, span[node])).astype(np.int64)].astype(np.int64)
        return np.cumsum(self.feature < 0)[node].astype(np.float64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays for an artifact, without the link and the bound."""
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
        """Refuse indices that lead to no node or code: compiled loops do not check those of an artifact."""
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
    """Patterns as trees apply them: a fraction of the step from the pattern that changes nothing."""
    return rate * pattern if link == kernels.ODDS else 1.0 + rate * (pattern - 1.0)


def score_of(prob: FloatArray, link: int) -> FloatArray:
    """Probabilities as `Forest.calibrate` takes them."""
    return logit(prob) if link == kernels.ODDS else prob.copy()


def prob_of(score: FloatArray, link: int) -> FloatArray:
    """The inverse of `score_of`; may change its argument."""
    return sigmoid(score, out=score) if link == kernels.ODDS else score


def calibrated(coder: Coder, forest: Forest, score: Term, start: Term, features: Inputs) -> Term:
    """The probability of a row with this score; `start` is the log-odds that the first tree gets."""
    codes = [code_of(feature, score, features) for feature in coder.features]
    roots = forest.roots.tolist()
    if forest.link == kernels.ODDS:
        trees = [_of_leaf(forest, forest.pattern, root, codes) for root in roots]
        return terms.sigmoid(terms.total([start, *trees]))
    prob = terms.sigmoid(start)
    held = bool(((forest.bound > 0.0) & (forest.bound < 1.0)).any())
    for root in roots:
        product = prob * _of_leaf(forest, forest.pattern, root, codes)
        if held:
            low, high = Function("least", (prob, product)), Function("greatest", (prob, product))
            within = Function("least", (high, _of_leaf(forest, forest.bound, root, codes)))
            prob = Function("greatest", (low, within))
        else:
            prob = Function("least", (product, Number(1.0)))
    return prob


def code_of(feature: CodedFeature, score: Term, features: Inputs) -> Term:
    """The code that `Coder.encode` gives."""
    codes = np.arange(1 + feature.missing, feature.codes, dtype=np.float64)  # of the bins or levels
    if feature.kind == "score":
        return terms.steps(score, feature.cuts, codes, "left")
    column = features[feature.name]
    if feature.kind == "category":
        values = tuple(Number(value) for value in codes.tolist())
        known: Term = Switch(column, feature.levels, values, Number(0.0)) if values else Number(0.0)
    else:
        known = terms.steps(column, feature.cuts, codes, "left")
    return terms.choose(Missing(column), float(feature.missing), known)


def _of_leaf(forest: Forest, values: FloatArray, node: int, codes: Sequence[Term]) -> Term:
    """The value, one for each node, of the leaf below `node` that the codes lead to."""
    feature, first = int(forest.feature[node]), int(forest.first[node])
    if feature < 0:
        return Number(float(values[node]))
    children = range(first + 1, first + int(forest.branches[node]))
    known = tuple(_of_leaf(forest, values, child, codes) for child in children)
    rest = _of_leaf(forest, values, first, codes)
    return Switch(codes[feature], tuple(int(forest.code[child]) for child in children), known, rest)


def sections(coder: Coder, forest: Forest, *, start: str, alpha: float, loss: str) -> tuple[Section, ...]:
    """The features, the leaves as rules, and the losses before and after each split (Huang et al. 2022, Figure 7).

    `start` is a sentence on the score that the first tree starts from.
    """
    paths = [""] * len(forest.feature)  # the conditions that lead to each node
    depth = np.zeros(len(paths), dtype=np.int64)
    words = ["all rows"] * len(paths)
    inner = np.flatnonzero(forest.feature >= 0)
    for node in inner:
        feature, first = coder.features[forest.feature[node]], forest.first[node]
        for child in range(first, first + forest.branches[node]):
            words[child] = condition = code_words(feature, int(forest.code[child]))
            paths[child] = f"{paths[node]} and {condition}" if paths[node] else condition
            depth[child] = depth[node] + 1
    names = [coder.features[feature].name or "score" for feature in forest.feature[inner]]
    gain = forest.mass[inner] * (forest.local[inner] - forest.split[inner])
    what = f"what all splits take off the split loss ({loss})"
    features = importance_section(names, depth[inner], gain, what)
    tree = (_first_tree(forest, words),) if len(forest) else ()
    return (features, *tree, _rules(forest, paths, start, alpha), _splits(forest, paths, names, gain, loss))


DRAWN_LEVELS, DRAWN_BRANCHES = 2, 6
"""Text draws so many levels below the root, and of each node the branches of most weight; JSON has all."""


def _first_tree(forest: Forest, words: Sequence[str]) -> Section:
    """The first tree as an outline: each node below its parent, one step to the right."""

    def lines(node: int, depth: int, most: int | None) -> Iterator[tuple[Json, ...]]:
        rate, _ = rates(*(float(sums[node]) for sums in (forest.mass, forest.positive, forest.predicted)))
        leaf = forest.feature[node] < 0
        pattern = float(forest.pattern[node]) if leaf else None
        yield ("    " * depth + words[node], int(forest.rows[node]), rate, pattern)
        if leaf or (most is not None and depth == DRAWN_LEVELS):
            return
        children = int(forest.first[node]) + np.arange(forest.branches[node])
        shown = children[np.argsort(-forest.mass[children], kind="stable")][:most]
        for child in shown.tolist():
            yield from lines(child, depth + 1, most)
        if rest := len(children) - len(shown):
            yield (
                "    " * (depth + 1) + f"{rest} more",
                int(forest.rows[children].sum()) - int(forest.rows[shown].sum()),
                None,
                None,
            )

    note = "The branches of a node stand below it, those of most rows first; leaves have a pattern."
    columns = ("node", "rows", "label rate", "pattern")
    return Section("first tree", columns, tuple(lines(0, 0, None)), note, brief=tuple(lines(0, 0, DRAWN_BRANCHES)))


def code_words(feature: CodedFeature, code: int) -> str:
    """The condition that a feature has this code."""
    name = feature.name or "score"
    place = code - 1 - feature.missing
    if code == 0:
        return f"{name} is another value"
    if place < 0:
        return f"{name} is missing"
    if feature.kind == "category":
        return f"{name} is {feature.levels[place]}"
    if feature.kind == "boolean":
        return f"{name} is {'true' if place else 'false'}"
    return feature.range_words(place, place) or f"{name} is there"


def _rules(forest: Forest, paths: list[str], start: str, alpha: float) -> Section:
    leaves = np.flatnonzero(forest.feature < 0)
    tree = np.repeat(np.arange(len(forest)), forest.sizes)
    bins = np.bincount(tree[leaves], minlength=len(forest))
    rows: list[tuple[Json, ...]] = []
    for leaf in leaves:
        count = int(forest.rows[leaf])
        rate, pud = rates(*(float(sums[leaf]) for sums in (forest.mass, forest.positive, forest.predicted)))
        bound = None if rate is None else bound_of_theorem_1(rate, count, int(bins[tree[leaf]]), alpha)
        rows.append((int(tree[leaf]) + 1, paths[leaf], count, rate, pud, float(forest.pattern[leaf]), bound))
    steps = forest.pattern[leaves]
    if forest.link == kernels.ODDS:
        link, moves = "z' = z + pattern", forest.mass[leaves] * np.abs(steps)
    else:
        held = ((forest.bound[leaves] > 0.0) & (forest.bound[leaves] < 1.0)).any()
        most = "not beyond what the rows of the leaf support (at most 1)" if held else "at most 1"
        link, moves = f"p' = pattern * p, {most}", forest.predicted[leaves] * np.abs(steps - 1.0)
    note = (
        f"{start} Trees apply in order, each by the one rule that holds: {link}. Another value is one that no other "
        "rule of the split names. pud is the mean probability before the tree divided by the label rate; the true "
        f"label rates of all leaves of a tree lie within the bounds with probability {1 - alpha:g} (theorem 1)."
    )
    note = note if rows else f"{start} No trees."
    return Section("rules", leaf_columns("pattern", "bound"), tuple(rows), note, tuple(moves.tolist()))


def bound_of_theorem_1(rate: float, rows: int, bins: int, alpha: float) -> float:
    """The bound on the difference of a leaf's mean label from its expectation, for all `bins` leaves at once.

    sqrt(2 V ln(3 B / alpha) / c) + 3 ln(3 B / alpha) / c, with V = rate (1 - rate) and c rows (equation 3).
    """
    log = math.log(3.0 * bins / alpha)
    return math.sqrt(2.0 * rate * (1.0 - rate) * log / rows) + 3.0 * log / rows


def _splits(forest: Forest, paths: list[str], names: Sequence[str], gain: FloatArray, loss: str) -> Section:
    tree = np.repeat(np.arange(len(forest)), forest.sizes)
    rows: list[tuple[Json, ...]] = []
    for node, name in zip(np.flatnonzero(forest.feature >= 0), names, strict=True):
        losses = (float(value[node]) for value in (forest.local, forest.split, forest.overall))
        rows.append(
            (
                int(tree[node]) + 1,
                paths[node] or "all rows",
                name,
                int(forest.branches[node]),
                *(value if math.isfinite(value) else None for value in losses),
            )
        )
    what = "by how much at least the log-loss per row has changed" if loss == "nll" else f"the {loss}"
    columns = ("tree", "at", "split by", "branches", "before", "after", "all rows")
    note = f"Before, after: {what}, of the node's rows before and after the split; all rows: of all rows after it."
    return Section("splits", columns, tuple(rows), note, tuple(np.nan_to_num(gain).tolist()))
