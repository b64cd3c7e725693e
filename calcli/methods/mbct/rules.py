"""The leaves as rules, and the losses before and after each split (Huang et al. 2022, Figure 7)."""

from __future__ import annotations

import math

import numpy as np

from calcli.methods.base import Section
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.methods.trees.coding import CodedFeature
from calcli.methods.trees.rules import leaf_section, rates
from calcli.state import Json


def sections(coder: Coder, forest: Forest, *, start: str, alpha: float, loss: str) -> tuple[Section, ...]:
    """The leaves as rules, and the splits; `start` is a sentence on the score that the first tree starts from."""
    paths = _paths(coder, forest)
    return (_rules(forest, paths, start, alpha), _splits(coder, forest, paths, loss))


def _paths(coder: Coder, forest: Forest) -> list[str]:
    """The conditions that lead to each node."""
    paths = [""] * len(forest.feature)
    for node in np.flatnonzero(forest.feature >= 0):
        feature, first = coder.features[forest.feature[node]], forest.first[node]
        for child in range(first, first + forest.branches[node]):
            condition = code_words(feature, int(forest.code[child]))
            paths[child] = f"{paths[node]} and {condition}" if paths[node] else condition
    return paths


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
    link = (
        "z' = z + pattern"
        if forest.link == kernels.ODDS
        else "p' = pattern * p, not beyond what the rows of the leaf support (at most 1)"
    )
    note = (
        f"{start} Trees apply in order, each by the one rule that holds: {link}. Another value is one that no other "
        "rule of the split names. pud is the mean probability before the tree divided by the label rate; the true "
        f"label rates of all leaves of a tree lie within the bounds with probability {1 - alpha:g} (theorem 1)."
    )
    return leaf_section("rules", rows, ("pattern", "bound"), note if rows else f"{start} No trees.")


def bound_of_theorem_1(rate: float, rows: int, bins: int, alpha: float) -> float:
    """The bound on the difference of a leaf's mean label from its expectation, for all `bins` leaves at once.

    sqrt(2 V ln(3 B / alpha) / c) + 3 ln(3 B / alpha) / c, with V = rate (1 - rate) and c rows (equation 3).
    """
    log = math.log(3.0 * bins / alpha)
    return math.sqrt(2.0 * rate * (1.0 - rate) * log / rows) + 3.0 * log / rows


def _splits(coder: Coder, forest: Forest, paths: list[str], loss: str) -> Section:
    tree = np.repeat(np.arange(len(forest)), forest.sizes)
    rows: list[tuple[Json, ...]] = []
    for node in np.flatnonzero(forest.feature >= 0):
        losses = (float(value[node]) for value in (forest.local, forest.split, forest.overall))
        rows.append(
            (
                int(tree[node]) + 1,
                paths[node] or "all rows",
                coder.features[forest.feature[node]].name or "score",
                int(forest.branches[node]),
                *(value if math.isfinite(value) else None for value in losses),
            )
        )
    what = "how much the log-loss per row changes at least" if loss == "nll" else loss
    columns = ("tree", "at", "split by", "branches", "before", "after", "all rows")
    return Section(
        "splits", columns, tuple(rows), f"Losses of the node's rows before and after, and of all rows: {what}."
    )
