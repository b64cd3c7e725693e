"""Effects by empirical Bayes: each block of them is shrunk by a variance that the rows themselves give.

    z' = a z + b + sum_j u_j[x_j] + sum_{j<k} u_jk[x_j, x_k] + sum_j s_j[x_j] z~,    u ~ N(0, T) with a T for each block

A sweep is a Newton step of a and b, and then one for each block in turn, given the log-odds of all others:
u += clip(g / (h + 1/T), 1) with g = sum w v (y - p) - u/T and h = sum w v^2 p (1 - p), and then
T = (sum of u^2 + 1/(h + 1/T) over the L levels with rows, + 2 T0) / (L + 2), which is EM with Laplace's variance, T0
being the mean of a kind of blocks. Blocks whose T vanishes leave. With more than two classes there are logits for each
class, a T for each block and class, and steps are damped.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from calcli.batch import Batch, FloatArray, spans
from calcli.methods.base import tell
from calcli.methods.effects import kernels
from calcli.methods.effects.coding import Codes, Coding

NONE, NO_CODES = np.empty(0), np.empty(0, dtype=np.uint8)

FIRST_VARIANCE = 0.03
"""T of a single feature at first, whatever the rows say: its values are of very different weight."""

LEAST_VARIANCE = 1e-4
"""A block with a smaller T leaves."""

STILL, FEW = 1e-5, 100_000
"""Sweeps over more than `FEW` rows end with one whose steps, squared and weighted by h, add up to less for each row."""


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

    way: FloatArray = field(init=False)
    pace: FloatArray = field(init=False)
    """`way`, `pace`: the last step of log T, and how many times that of EM the next may be."""

    def __post_init__(self) -> None:
        self.way, self.pace = np.zeros(self.variance.size), np.ones(self.variance.size)

    @classmethod
    def nothing(cls, parts: tuple[int, ...], codes: int, classes: int, *, slope: bool = False) -> Block:
        """No effects yet."""
        shape = (codes,) if classes == 2 else (codes, classes)
        variance = np.full(shape[1:], FIRST_VARIANCE if len(parts) == 1 else np.nan)
        return cls(parts, slope, np.zeros(shape), variance, np.zeros(shape))

    @property
    def kind(self) -> tuple[int, bool]:
        """How many features it is of, and whether it has slopes."""
        return len(self.parts), self.slope

    @property
    def arrays(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
        """The arrays that a step changes, with an axis of classes, of length one where there are two."""
        wide = (len(self.values), -1)
        return (
            self.values.reshape(wide),
            self.information.reshape(wide),
            self.variance.reshape(-1),
            self.way,
            self.pace,
        )

    @property
    def error(self) -> FloatArray:
        """The standard deviation of each effect, given the rows."""
        return np.sqrt(1.0 / (self.information + 1.0 / self.variance))


def joined(parts: tuple[int, ...], codes: Mapping[int, Codes] | Sequence[Codes], codings: Sequence[Coding]) -> Codes:
    """The code of each row under one coding, or under a pair of them."""
    if len(parts) == 1:
        return codes[parts[0]]
    one, other = parts
    return codes[one].astype(np.uint16) * np.uint16(codings[other].codes) + codes[other]


def size_of(parts: tuple[int, ...], codings: Sequence[Coding]) -> int:
    """How many codes there are under one coding, or under a pair of them."""
    return math.prod(codings[place].codes for place in parts)


@dataclass(slots=True, eq=False)
class Rows:
    """Rows with their log-odds so far, and what is left of their labels to explain."""

    score: FloatArray
    """z, or centred logits."""

    label: kernels.Labels
    weight: FloatArray
    along: FloatArray
    """z~, for slopes; empty where there are none."""

    total: FloatArray = field(init=False)
    """z' of each row."""

    error: FloatArray = field(init=False)
    """w (y - p)."""

    curved: FloatArray = field(init=False)
    """w p (1 - p), or p of each class of more than two."""

    def __post_init__(self) -> None:
        self.total, self.error, self.curved = self.score.copy(), np.empty_like(self.score), np.empty_like(self.score)

    @property
    def classes(self) -> int:
        return 2 if self.score.ndim == 1 else self.score.shape[1]

    def begin(self) -> None:
        """Begin a sweep: with errors and curvature where the log-odds now are."""
        start = kernels.begin if self.classes == 2 else kernels.begin_classes
        start(self.total, self.label, self.weight, self.error, self.curved)


@dataclass(slots=True, eq=False)
class Fit:
    """The blocks of which the log-odds of rows are the sum."""

    rows: Rows
    slope: float
    intercept: FloatArray
    """b, a number or one for each class."""

    codings: list[Coding]
    codes: list[Codes]
    blocks: list[Block]
    means: dict[tuple[int, bool], float] = field(default_factory=dict)
    """The mean T of each kind of blocks, of the last sweep."""

    left: Counter[tuple[int, bool]] = field(default_factory=Counter)
    """How many T of each kind have vanished with their blocks."""

    places: dict[tuple[str, str], list[int]] = field(init=False)
    """The places of the codings of each feature, or score."""

    def __post_init__(self) -> None:
        self.places = {}
        for place, coding in enumerate(self.codings):
            self.places.setdefault((coding.kind, coding.name), []).append(place)

    @property
    def mass(self) -> float:
        """The weight of all rows."""
        return float(self.rows.weight.sum())

    def sweep(self, most: int) -> None:
        """So many sweeps, or fewer where one has moved next to nothing."""
        few = self.mass <= FEW
        for number in range(most):
            tell(f"sweep {number + 1} of {most} at most over {len(self.blocks)} blocks of effects")
            self.rows.begin()
            moved = self._scale() + sum([self._step(block) for block in self.blocks])
            self._pool()
            blocks, self.blocks = self.blocks, []
            for block in blocks:
                if (block.variance >= LEAST_VARIANCE).any():
                    self.blocks.append(block)
                else:
                    self.left[block.kind] += block.variance.size
            if moved < STILL * self.mass and not few:
                break

    def leave_out(self, features: int) -> None:
        """Count so many features beside those of the blocks as ones whose effects have vanished."""
        for block in {block.kind: block for block in self.blocks}.values():
            self.left[block.kind] += features * block.variance.size

    def _pool(self) -> None:
        """The geometric mean of the T of all blocks of a kind, of those too that have left."""
        for kind in {block.kind for block in self.blocks}:
            known = [block.variance.ravel() for block in self.blocks if block.kind == kind]
            known.append(np.full(self.left[kind], LEAST_VARIANCE))
            self.means[kind] = float(np.exp(np.log(np.maximum(np.concatenate(known), LEAST_VARIANCE)).mean()))

    def _scale(self) -> float:
        """A Newton step of a and b, with a weak prior at 1 and 0; returns what it has moved, as a block's step does."""
        rows = self.rows
        error, score, weight = rows.error, rows.score, rows.weight
        if rows.classes == 2:
            sums = np.zeros(5)
            for some in spans(len(score)):
                z, felt = score[some], rows.curved[some] * score[some]
                sums += error[some] @ z, error[some].sum(), felt @ z, felt.sum(), rows.curved[some].sum()
            curvature = sums[[2, 3, 3, 4]].reshape(2, 2)
            gradient = sums[:2] - [self.slope - 1.0, float(self.intercept)]
            step = np.clip(np.linalg.solve(curvature + np.eye(2), gradient), -1.0, 1.0)
            moved = float(step @ curvature @ step)
            slope, shift = float(step[0]), np.asarray(step[1])
        else:
            prob = rows.curved
            mean = (prob * score).sum(axis=1)
            curved = float(weight @ ((prob * np.square(score)).sum(axis=1) - np.square(mean)))
            slope = float(np.clip(((error * score).sum() - (self.slope - 1.0)) / (curved + 1.0), -1.0, 1.0))
            spread = weight @ (prob * (1.0 - prob))
            shift = kernels.DAMPED * np.clip((error.sum(axis=0) - self.intercept) / (spread + 1.0), -1.0, 1.0)
            slope *= kernels.DAMPED
            moved = slope**2 * curved + float(np.square(shift) @ spread)
        self.slope += slope
        self.intercept = self.intercept + shift
        for some in spans(len(score)):
            rows.total[some] += slope * score[some] + shift
        rows.begin()
        return moved

    def _codes(self, parts: tuple[int, ...]) -> tuple[Codes, Codes, int]:
        """The codes of all rows under one coding or two, and how many the second has."""
        first = self.codes[parts[0]]
        return (first, NO_CODES, 1) if len(parts) == 1 else (first, self.codes[parts[1]], self.codings[parts[1]].codes)

    def _step(self, block: Block) -> float:
        """A step of a block; returns the sum of h times the square of the steps, twice what the likelihood moves by."""
        rows, mean, codes = self.rows, self.means.get(block.kind, 0.0), self._codes(block.parts)
        held = (rows.total, rows.error, rows.curved)
        if rows.classes == 2:
            return kernels.step(*held, *codes, rows.along if block.slope else NONE, *block.arrays, mean)
        return kernels.step_classes(*held, rows.weight, *codes, *block.arrays, mean)

    def place_of(self, coding: Coding, batch: Batch) -> int:
        """The place of a coding; the same twice, as that of a category in pairs, has one."""
        known = self.places.setdefault((coding.kind, coding.name), [])
        for place in known:
            if self.codings[place].same(coding):
                return place
        known.append(len(self.codings))
        self.codings.append(coding)
        self.codes.append(coding.of(batch, self.rows.score))
        return len(self.codings) - 1

    def telling(self, singles: int, most: int) -> list[int]:
        """The places of the score and of the features whose own effects and slopes move the log-odds the most."""
        moved = np.zeros(singles)
        for block in self.blocks:
            if block.parts[0] < singles:
                moved[block.parts[0]] += (block.information * np.square(block.values)).sum()
        score = [coding.kind == "score" for coding in self.codings[:singles]]
        first: list[int] = np.lexsort((-moved, np.logical_not(score)))[:most].tolist()
        return sorted(first)

    def pairs(self, candidates: Sequence[Sequence[int]], most: int) -> list[tuple[int, int]]:
        """The pairs of codings whose cells say the most beyond what is fitted: the best of all groups of candidates.

        It is a score test: the sum over cells of g^2/h is compared with chi-square with as many degrees of freedom. Of
        many rows, a pair must promise more than what sweeps end with.
        """
        least = STILL * self.mass if self.mass > FEW else -np.inf
        found: dict[tuple[int, int], float] = {}
        for group in candidates:
            for pair in combinations(group, 2):
                if pair not in found and self._differ(*pair):
                    excess, cells = self._excess(pair)
                    if excess > least:
                        found[pair] = excess / math.sqrt(2.0 * cells)
        return sorted(found, key=lambda pair: (-found[pair], pair))[:most]

    def _differ(self, one: int, other: int) -> bool:
        first, second = self.codings[one], self.codings[other]
        return (first.name, first.kind) != (second.name, second.kind)

    def _excess(self, pair: tuple[int, int]) -> tuple[float, int]:
        """By how much the statistic of a pair exceeds its expectation, which is the number of its cells."""
        rows, codes = self.rows, self._codes(pair)
        sums = np.zeros((size_of(pair, self.codings), rows.score[:1].size, 2))
        if rows.classes == 2:
            kernels.gather(rows.error, rows.curved, *codes, NONE, sums)
        else:
            kernels.gather_classes(rows.error, rows.curved, rows.weight, *codes, sums)
        beyond, cells = kernels.surplus(sums)
        return (beyond, cells) if cells else (-np.inf, 1)


def blocks_of(places: Sequence[int], codings: Sequence[Coding], classes: int, *, slopes: bool) -> Iterator[Block]:
    """The blocks of single features, and of the slopes of their values."""
    for place in places:
        yield Block.nothing((place,), codings[place].codes, classes)
    if slopes:
        for place in places:
            if codings[place].kind != "score":
                yield Block.nothing((place,), codings[place].codes, classes, slope=True)
