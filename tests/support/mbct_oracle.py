"""Reference implementation of MBCT for a few rows: recursion over lists of row numbers, from the definitions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np

from calcli.methods.mbct.level_passes import Rows

NORMAL = NormalDist()  # a hundred times as fast as scipy's for a single number


@dataclass
class Node:
    rows: np.ndarray
    pattern: float
    feature: int = -1
    children: dict[int, Node] = field(default_factory=dict)


def closed_mvce(error: np.ndarray, weight: np.ndarray, bin_size: float) -> float:
    """The expectation over shuffles, by the folded normal; `error` holds p - y."""
    n = len(error)
    return closed_mvce_of_sums(n, weight.sum(), (weight * error).sum(), (weight**2 * error**2).sum(), bin_size)


def closed_mvce_of_sums(n: float, w: float, we: float, wwee: float, bin_size: float) -> float:
    t = max(1, math.floor(n / bin_size))
    mean = we / w
    variance = (wwee * (n / w) ** 2 - n * mean**2) / (n - 1) if n > 1 else 0.0
    v = max(variance, 0.0) * t / n * (1 - 1 / t)
    if v == 0:
        return abs(mean)
    s = math.sqrt(v)
    d = mean / s
    m = 2 * s * NORMAL.pdf(d) + mean * (2 * NORMAL.cdf(d) - 1)
    rest = mean**2 + v - m**2 - v * (2 * NORMAL.cdf(d) - 1) ** 2 + 2 * v * NORMAL.pdf(d) ** 2 / (t - 1)
    return math.sqrt(m**2 + max(0.0, rest) / t)


def mbct_rows(codes: np.ndarray, prob: np.ndarray, label: np.ndarray, weight: np.ndarray | None = None) -> Rows:
    """Rows as `Buffers` takes them."""
    rows = Rows.empty(*codes.shape, weighted=weight is not None)
    rows.codes[:] = codes
    rows.put(slice(None), prob, label)
    if weight is not None:
        rows.weight[:] = weight
    return rows


@dataclass
class Oracle:
    codes: np.ndarray
    prob: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    link: str
    loss: str
    depth: int
    least: float
    shrink: float

    def fit_pattern(self, rows: np.ndarray, parent: float) -> float:
        p, y, w = self.prob[rows], self.label[rows], self.weight[rows]
        if self.link == "linear":
            below = (w * p).sum() + self.shrink
            return ((w * y).sum() + self.shrink * parent) / below if below > 0 else parent
        below = (w * p * (1 - p)).sum() + self.shrink
        if below <= 0:
            return parent
        s = (self.shrink * parent - (w * (p - y)).sum()) / below
        return math.copysign(math.log(1 + abs(s)), s)

    def error_after(self, rows: np.ndarray, pattern: float) -> np.ndarray:
        """p' - y, to first order in b."""
        p, y = self.prob[rows], self.label[rows]
        return pattern * p - y if self.link == "linear" else p - y + pattern * p * (1 - p)

    def bound(self, rows: np.ndarray, pattern: float, penalty: float = 0.0) -> float:
        """How much the log-loss can rise at most under a pattern (for linear: that of counts)."""
        p, y, w = self.prob[rows], self.label[rows], self.weight[rows]
        if self.link == "linear":
            return -((w * y).sum() * math.log(pattern) if (w * y).sum() > 0 else 0.0) + (pattern - 1) * (w * p).sum()
        size = math.exp(abs(pattern)) - abs(pattern) - 1
        return pattern * (w * (p - y)).sum() + ((w * p * (1 - p)).sum() + penalty) * size

    def own_bound(self, rows: np.ndarray, pattern: float, parent: float) -> float:
        """The same for a pattern that was just fitted, with the pull to the parent's in it."""
        if self.link == "linear":
            return self.bound(rows, pattern)
        pull = self.shrink
        return self.bound(rows, pattern, pull) - pull * parent * pattern + pull * parent**2 / 2

    def node_loss(self, parts: list[tuple[np.ndarray, float]], bounds: list[float]) -> float:
        rows = np.concatenate([part for part, _ in parts])
        if self.loss == "nll":
            return sum(bounds) / self.weight[rows].sum()
        errors = np.concatenate([self.error_after(part, pattern) for part, pattern in parts])
        return closed_mvce(errors, self.weight[rows], self.least / 2)

    def branches(self, rows: np.ndarray, feature: int) -> dict[int, np.ndarray]:
        """The rows of each branch; 0 is the rest."""
        found: dict[int, np.ndarray] = {}
        rest = []
        for code in np.unique(self.codes[rows, feature]):
            inside = rows[self.codes[rows, feature] == code]
            if code > 0 and self.weight[inside].sum() >= self.least:
                found[int(code)] = inside
            else:
                rest.append(inside)
        found[0] = np.concatenate([np.zeros(0, dtype=int), *rest])
        return found

    def grow(self) -> Node:
        rows = np.arange(len(self.prob))
        root = Node(rows, self.fit_pattern(rows, 1.0 if self.link == "linear" else 0.0))
        self.split(root, 0)
        return root

    def split(self, node: Node, level: int) -> None:
        if level == self.depth or self.weight[node.rows].sum() < self.least:
            return
        own = self.node_loss([(node.rows, node.pattern)], [self.bound(node.rows, node.pattern)])
        best = None
        for feature in range(self.codes.shape[1]):
            found = self.branches(node.rows, feature)
            if sum(len(rows) > 0 for rows in found.values()) < 2:
                continue
            parts, bounds = [], []
            for code, rows in found.items():
                fitted = code > 0 or self.weight[rows].sum() >= self.least
                pattern = self.fit_pattern(rows, node.pattern) if fitted else node.pattern
                parts.append((rows, pattern))
                bounds.append(self.own_bound(rows, pattern, node.pattern) if fitted else self.bound(rows, pattern))
            loss = self.node_loss(parts, bounds)
            if best is None or loss < best[0]:
                best = (loss, feature, dict(zip(found, parts, strict=True)))
        if best is None or not best[0] < own:
            return
        _, node.feature, chosen = best
        for code, (rows, pattern) in chosen.items():
            node.children[code] = Node(rows, pattern)
            self.split(node.children[code], level + 1)
