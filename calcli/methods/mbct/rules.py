"""Trees as rules that people can read, and what each split did to the loss (Huang et al. 2022, Figure 7)."""

from __future__ import annotations

import math

import numpy as np

from calcli.methods.base import Section
from calcli.methods.mbct import kernels
from calcli.methods.mbct.coding import Coder
from calcli.methods.mbct.forest import Forest
from calcli.state import Json

_SEPARATOR = " and "


def sections(coder: Coder, forest: Forest, *, start: str, alpha: float, loss: str) -> tuple[Section, ...]:
    """The leaves as rules, and the splits.

    Parameters
    ----------
    coder, forest
        What was fitted.
    start
        What the first tree starts from, in words.
    alpha
        The bound of theorem 1 holds with probability 1 - alpha.
    loss
        The name of the split loss.
    """
    paths = _paths(coder, forest)
    return (_rules(forest, paths, start, alpha), _splits(coder, forest, paths, loss))


def _paths(coder: Coder, forest: Forest) -> list[str]:
    """The conditions that lead to each node."""
    paths = [""] * len(forest.feature)
    for node in np.flatnonzero(forest.feature >= 0):
        coding = coder.features[forest.feature[node]]
        first, above = forest.first[node], paths[node]
        for child in range(first, first + forest.branches[node]):
            said = coding.said(int(forest.code[child]))
            paths[child] = f"{above}{_SEPARATOR}{said}" if above else said
    return paths


def _rules(forest: Forest, paths: list[str], start: str, alpha: float) -> Section:
    leaves = np.flatnonzero(forest.feature < 0)
    tree = np.repeat(np.arange(len(forest)), forest.sizes)
    bins = np.bincount(tree[leaves], minlength=len(forest))
    rows: list[tuple[Json, ...]] = []
    for leaf in leaves:
        count, mass = int(forest.rows[leaf]), float(forest.mass[leaf])
        rate = float(forest.positive[leaf]) / mass if mass > 0 else None
        pud = float(forest.predicted[leaf] / forest.positive[leaf]) if forest.positive[leaf] > 0 else None
        bound = None if rate is None else bound_of_theorem_1(rate, count, int(bins[tree[leaf]]), alpha)
        rows.append((int(tree[leaf]) + 1, paths[leaf], count, rate, pud, float(forest.pattern[leaf]), bound))
    link = "z' = z + pattern" if forest.link == kernels.ODDS else "p' = pattern * p, at most 1"
    note = (
        f"{start} Then tree after tree, by the one rule that holds: {link}. A value that no other rule of a split "
        "names is another value. pud is the mean probability before the tree over the label rate; the true label "
        f"rates of all leaves of a tree lie within the bounds with probability {1 - alpha:g} (theorem 1)."
    )
    columns = ("tree", "if", "rows", "label rate", "pud", "pattern", "bound")
    return Section("rules", columns, tuple(rows), note if rows else f"{start} No trees.")


def bound_of_theorem_1(rate: float, rows: int, bins: int, alpha: float) -> float:
    """How far the mean label of a leaf may be from what is expected of it, for all `bins` leaves at once.

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
