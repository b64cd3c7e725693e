"""Effects by empirical Bayes: each block of them is shrunk by a variance that the rows themselves give.

    z' = a z + b + sum_j u_j[x_j] + sum_{j<k} u_jk[x_j, x_k] + sum_j s_j[x_j] z~,    u ~ N(0, T) with a T for each block

A sweep is a Newton step of a and b, and then one for each block in turn, given the log-odds of all others:
u += clip(g / (h + 1/T), 1) with g = sum w v (y - p) - u/T and h = sum w v^2 p (1 - p), and then
T = mean of u^2 + 1/(h + 1/T) over the levels with rows, which is EM with Laplace's variance. Blocks whose T vanishes
leave. With more than two classes there are logits for each class, a T for each block and class, and steps are damped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray
from calcli.methods.base import tell
from calcli.methods.effects import kernels
from calcli.methods.effects.coding import Codes, Coding
from calcli.numeric.links import probabilities

NONE = np.empty(0)

FIRST_VARIANCE = 0.03
"""T of a single feature at first, whatever the rows say: its values are of very different weight."""

LOW, HIGH = 1e-3, 1.0
"""T of a pair is between these at first."""

LEAST_VARIANCE = 1e-4
"""A block with a smaller T leaves."""

DAMPED = 0.8
"""The share of a step that is made with more than two classes, whose steps are found each without the others."""

ALONE, TOGETHER = 12, 25
"""Sweeps without pairs, and with them."""


@dataclass(slots=True, eq=False)
class Block:
    """The effects of the values of a feature, or of a pair of them, or the slopes of a feature's values."""

    parts: tuple[int, ...]
    """The places of one or two codings."""

    slope: bool
    values: FloatArray
    """Of each code, shape (codes,), or (codes, K)."""

    variance: FloatArray
    """T, a number, or one for each class; NaN before a pair has seen any rows."""

    information: FloatArray
    """h, of the shape of `values`."""

    @classmethod
    def nothing(cls, parts: tuple[int, ...], codes: int, classes: int, *, slope: bool = False) -> Block:
        """No effects yet."""
        shape = (codes,) if classes == 2 else (codes, classes)
        variance = np.full(shape[1:], FIRST_VARIANCE if len(parts) == 1 else np.nan)
        return cls(parts, slope, np.zeros(shape), variance, np.zeros(shape))

    @property
    def error(self) -> FloatArray:
        """The standard deviation of each effect, given the rows."""
        spread: FloatArray = np.sqrt(1.0 / (self.information + 1.0 / self.variance))
        return spread


def joined(parts: tuple[int, ...], codes: Mapping[int, Codes] | Sequence[Codes], codings: Sequence[Coding]) -> Codes:
    """The code of each row under one coding, or under a pair of them."""
    if len(parts) == 1:
        return codes[parts[0]]
    one, other = parts
    return codes[one] * np.int32(codings[other].size) + codes[other]


def size_of(parts: tuple[int, ...], codings: Sequence[Coding]) -> int:
    """How many codes there are under one coding, or under a pair of them."""
    return math.prod(codings[place].size for place in parts)


def first_variance(sums: FloatArray) -> FloatArray:
    """T by the method of moments where all effects are 0: g has the variance h + h^2 T."""
    excess = (np.square(sums[..., 0]) - sums[..., 1]).sum(axis=0)
    return np.asarray(np.clip(excess / np.maximum(np.square(sums[..., 1]).sum(axis=0), 1e-300), LOW, HIGH))


@dataclass(slots=True, eq=False)
class Fit:
    """Rows with their log-odds so far, and the blocks that these are the sum of."""

    score: FloatArray
    """z, or centred logits."""

    label: IntArray
    weight: FloatArray
    slope: float
    intercept: FloatArray
    """b, a number or one for each class."""

    total: FloatArray
    """z' of each row."""

    along: FloatArray
    """z~, for slopes; empty where there are none."""

    codings: list[Coding]
    codes: list[Codes]
    blocks: list[Block]

    @property
    def classes(self) -> int:
        return 2 if self.score.ndim == 1 else self.score.shape[1]

    def sweep(self, count: int) -> None:
        """So many sweeps."""
        for number in range(count):
            tell(f"sweep {number + 1} of {count} over {len(self.blocks)} blocks of effects")
            self._scale()
            for block in self.blocks:
                self._step(block)
            self.blocks = [block for block in self.blocks if (block.variance >= LEAST_VARIANCE).any()]

    def _scale(self) -> None:
        """A Newton step of a and b, with a weak prior at 1 and 0."""
        prob = probabilities(self.total)
        if self.classes == 2:
            error, spread = self.weight * (self.label - prob), self.weight * prob * (1.0 - prob)
            design = np.stack([self.score, np.ones_like(self.score)])
            prior = np.array([self.slope - 1.0, float(self.intercept)])
            hessian = (design * spread) @ design.T + np.eye(2)
            step = np.clip(np.linalg.solve(hessian, design @ error - prior), -1.0, 1.0)
            self.slope += float(step[0])
            self.intercept = self.intercept + step[1]
            self.total += step[0] * self.score + step[1]
            return
        error = -prob * self.weight[:, None]
        error[np.arange(len(prob)), self.label] += self.weight
        mean = (prob * self.score).sum(axis=1)
        curved = float(self.weight @ ((prob * np.square(self.score)).sum(axis=1) - np.square(mean)))
        slope = float(np.clip(((error * self.score).sum() - (self.slope - 1.0)) / (curved + 1.0), -1.0, 1.0))
        spread = self.weight @ (prob * (1.0 - prob))
        step = DAMPED * np.clip((error.sum(axis=0) - self.intercept) / (spread + 1.0), -1.0, 1.0)
        self.slope += DAMPED * slope
        self.intercept = self.intercept + step
        self.total += DAMPED * slope * self.score + step

    def _sums(self, codes: Codes, count: int, along: FloatArray = NONE) -> FloatArray:
        """G without its prior, and h, last, for each of `count` codes, and each class of more than two."""
        if self.classes == 2:
            sums = np.zeros((count, 2))
            kernels.gather(self.total, self.label, self.weight, codes, along, sums)
        else:
            sums = np.zeros((count, self.classes, 2))
            kernels.gather_classes(self.total, self.label, self.weight, codes, sums)
        return sums

    def _step(self, block: Block) -> None:
        codes, along = joined(block.parts, self.codes, self.codings), self.along if block.slope else NONE
        sums = self._sums(codes, len(block.values), along)
        seen = sums[..., 1] > 0.0
        if not np.isfinite(block.variance).all():
            block.variance = first_variance(sums)
        variance = np.maximum(block.variance, 1e-12)
        precision = sums[..., 1] + 1.0 / variance
        damped = 1.0 if self.classes == 2 else DAMPED
        step = damped * np.clip((sums[..., 0] - block.values / variance) / precision, -1.0, 1.0)
        block.values = block.values + step
        block.information = sums[..., 1]
        expected = np.where(seen, np.square(block.values) + 1.0 / precision, 0.0)
        block.variance = np.asarray(expected.sum(axis=0) / np.maximum(seen.sum(axis=0), 1))
        if self.classes == 2:
            kernels.shift(self.total, codes, along, step)
        else:
            kernels.shift_classes(self.total, codes, step)

    def place_of(self, coding: Coding, batch: Batch, start: int) -> int:
        """The place of a coding, from `start` on: the same twice, as that of a category in pairs, has one."""
        for place in range(start, len(self.codings)):
            if self.codings[place].same(coding):
                return place
        self.codings.append(coding)
        self.codes.append(coding.of(batch, self.score))
        return len(self.codings) - 1

    def pairs(self, candidates: Sequence[Sequence[int]], most: int) -> list[tuple[int, int]]:
        """The pairs of codings whose cells say the most beyond what is fitted: the best of all groups of candidates.

        It is a score test: the sum over cells of g^2/h is compared with chi-square with as many degrees of freedom.
        """
        found = {
            pair: self._excess(pair) for group in candidates for pair in combinations(group, 2) if self._differ(*pair)
        }
        return sorted(found, key=lambda pair: (-found[pair], pair))[:most]

    def _differ(self, one: int, other: int) -> bool:
        first, second = self.codings[one], self.codings[other]
        return (first.name, first.kind) != (second.name, second.kind)

    def _excess(self, pair: tuple[int, int]) -> float:
        """By how many of its standard errors the statistic of a pair exceeds its expectation."""
        sums = self._sums(joined(pair, self.codes, self.codings), size_of(pair, self.codings))
        known = sums[..., 1] > 0.5
        cells = int(known.sum())
        if cells == 0:
            return -np.inf
        return float((np.square(sums[..., 0][known]) / sums[..., 1][known]).sum() - cells) / float(np.sqrt(2 * cells))


def blocks_of(places: Sequence[int], codings: Sequence[Coding], classes: int, *, slopes: bool) -> Iterator[Block]:
    """The blocks of single features, and of the slopes of their values."""
    for place in places:
        yield Block.nothing((place,), codings[place].size, classes)
    if slopes:
        for place in places:
            if codings[place].kind != "score":
                yield Block.nothing((place,), codings[place].size, classes, slope=True)
