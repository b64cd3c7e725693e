"""Tables of rows whose true probability is known, drawn from populations of the kinds that the papers are about.

Each population is fixed by its own seed; rows for calibration and for tests are drawn from the same one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import brentq
from scipy.special import xlogy

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.metrics import catalog as metrics
from calcli.metrics.base import Clusters, Options, Scored
from calcli.metrics.multi_view import ErrorSums, closed_of
from calcli.numeric.links import logit, sigmoid


@dataclass(frozen=True)
class Rows:
    """Rows, and the probability by which each label was drawn."""

    batch: Batch
    truth: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator, truth: FloatArray, score: FloatArray, features: dict[str, Column]) -> Rows:
        label = (rng.random(len(truth)) < truth).astype(np.int64)
        return cls(Batch(score, label, None, features), truth)

    def divergence(self, prob: FloatArray) -> float:
        """The mean divergence (Kullback and Leibler) of predictions from the truth: what the log-loss has too much."""
        p, q = np.clip(prob, 1e-12, 1 - 1e-12), self.truth
        return float(np.mean(xlogy(q, q / p) + xlogy(1 - q, (1 - q) / (1 - p))))

    def error(self, prob: FloatArray) -> float:
        """The theoretical calibration error of MBCT's equation 1, norm 2: the root of the mean squared distance."""
        return float(np.sqrt(np.mean((prob - self.truth) ** 2)))

    def measured(
        self, prob: FloatArray, names: Sequence[str], options: Options, cluster: IntArray | None = None
    ) -> dict[str, float]:
        """Metrics, as all labels that could be drawn give them together: each row counts as both labels."""
        label, weight = np.repeat([1, 0], len(prob)), np.concatenate([self.truth, 1 - self.truth])
        places = None if cluster is None else Clusters(np.tile(cluster, 2), int(cluster.max()) + 1, "test")
        both = Scored(label, np.tile(prob, 2), weight, places)
        found = {
            name: one.value for name, one in metrics.measure([metrics.find(n) for n in names], both, options).items()
        }
        if "mvce" in found:  # its noise is that of labels: the sums of p - y and of its square, as they are expected
            p, q = prob, self.truth
            error, square = float(np.sum(p - q)), float(np.sum(p**2 - 2 * p * q + q))
            found["mvce"] = closed_of(
                ErrorSums(len(p), error, square, positive=q.sum(), negative=(1 - q).sum()), options
            )
        return {name: float("nan") if value is None else value for name, value in found.items()}


def category(values: np.ndarray, levels: int) -> Column:
    return Column("category", values.astype(np.int32), tuple(map(str, range(levels))))


def number(values: FloatArray) -> Column:
    return Column("number", values)


@dataclass(frozen=True)
class Clicks:
    """Impressions of adverts: six categories of few and of many values, some frequent and most rare.

    The truth, on log-odds, is a sum of effects of each category and of pairs of them. The base model knows the
    effects of single categories, the less exactly the rarer a value, and nothing of pairs; it is too steep, and
    predicts too many clicks.
    """

    rate: float
    effect: float = 0.45
    together: float = 0.6
    slope: float = 1.15
    shift: float = 0.25
    seed: int = 0

    SIZES: ClassVar = {"hour": 24, "device": 5, "position": 7, "city": 300, "site": 2000, "advert": 5000}
    SKEWS: ClassVar = {"hour": 0.3, "device": 1.5, "position": 1.2, "city": 0.8, "site": 1.1, "advert": 1.1}
    """A value of rank r has a share proportional to r^-skew."""
    PAIRS = (("device", "position"), ("device", "hour"), ("position", "hour"), ("device", "city"), ("position", "site"))
    TRAINED = 2_000_000
    """Rows that the base model has seen."""

    def shares(self, name: str) -> FloatArray:
        share = np.arange(1, self.SIZES[name] + 1) ** -self.SKEWS[name]
        return share / share.sum()

    @cached_property
    def effects(self) -> tuple[dict[str, FloatArray], dict[str, FloatArray], dict[tuple[str, str], list[FloatArray]]]:
        """The effects of single categories, what the base model has of them, and those of pairs as products."""
        rng = np.random.default_rng([self.seed, 1])
        single, known, pairs = {}, {}, {}
        for name, size in self.SIZES.items():
            single[name] = rng.normal(0, self.effect, size)
            # As of a logistic regression with a ridge: an effect is known up to its standard error, and shrunk.
            seen = self.TRAINED * self.shares(name) * self.rate
            trust = seen / (seen + 1 / self.effect**2)
            known[name] = trust * (single[name] + rng.normal(0, 1, size) / np.sqrt(seen))
        for pair in self.PAIRS:
            pairs[pair] = [self._hidden(rng, name) for name in pair]
        return single, known, pairs

    def _hidden(self, rng: np.random.Generator, name: str) -> FloatArray:
        """Three coordinates of each value of a category, whose products with another's are the effect of a pair."""
        place = rng.normal(0, 1, (self.SIZES[name], 3))
        return place - self.shares(name) @ place  # so that pairs have no effect of single categories

    @cached_property
    def intercept(self) -> tuple[float, float]:
        """Those at which the truth and the base model, before its errors, have the rate."""
        values = self._values(np.random.default_rng([self.seed, 2]), 200_000)
        return tuple(
            brentq(lambda start, part=part: sigmoid(part + start).mean() - self.rate, -30, 30)
            for part in self._sums(values)
        )

    def _values(self, rng: np.random.Generator, rows: int) -> dict[str, np.ndarray]:
        return {
            name: np.searchsorted(np.cumsum(self.shares(name))[:-1], rng.random(rows), side="right").astype(np.int32)
            for name in self.SIZES
        }

    def _sums(self, values: dict[str, np.ndarray]) -> tuple[FloatArray, FloatArray]:
        """The log-odds of the truth and of the base model, both without intercept."""
        single, known, pairs = self.effects
        truth = sum(single[name][codes] for name, codes in values.items())
        base = sum(known[name][codes] for name, codes in values.items())
        for (one, other), (left, right) in pairs.items():
            for axis in range(left.shape[1]):
                truth += self.together / np.sqrt(3) * left[values[one], axis] * right[values[other], axis]
        return truth, base

    def rows(self, count: int, seed: int) -> Rows:
        rng = np.random.default_rng([self.seed, 3, seed])
        values = self._values(rng, count)
        (truth, base), (right, known) = self._sums(values), self.intercept
        features = {name: category(codes, self.SIZES[name]) for name, codes in values.items()}
        return Rows.draw(
            rng,
            sigmoid(truth + right),
            self.slope * (base + known - logit(self.rate)) + logit(self.rate) + self.shift,
            features,
        )


@dataclass(frozen=True)
class Related:
    """Rows in places on a map of 64 regions, whose errors follow the region as strongly as `strength` says.

    Regions have levels of their own, which the base model knows. Besides, it is too steep by a quarter everywhere.
    How it errs by region:

    ``confidence``
        Its log-odds are multiplied by exp(strength u), u ~ N(0, 1).
    ``level``
        It misses an effect strength u, u ~ N(0, 1).
    ``noise``
        It errs by noise of its own in each row, but all else is the level of the region by the share `strength`, so
        that the mean score of the related rows says more than the row's own.
    """

    strength: float
    errs: Literal["confidence", "level", "noise"]
    seed: int = 0

    SIDE: ClassVar = 8
    STEEP: ClassVar = 1.25

    def rows(self, count: int, seed: int) -> Rows:
        regions, rng = np.random.default_rng([self.seed, 1]), np.random.default_rng([self.seed, 2, seed])
        level, error = regions.normal(0, 1, (2, self.SIDE**2))
        across, along = rng.random((2, count))
        region = (across * self.SIDE).astype(int) * self.SIDE + (along * self.SIDE).astype(int)
        own, wrong = rng.normal(0, 1, count), self.strength * error[region]
        truth = score = level[region] + own
        if self.errs == "confidence":
            score = truth * np.exp(wrong)
        elif self.errs == "level":
            truth = truth + wrong
        else:
            truth = 1.5 * (np.sqrt(self.strength) * level[region] + np.sqrt(1 - self.strength) * own)
            score = truth + rng.normal(0, 1, count)
        features = {"region": category(region, self.SIDE**2), "across": number(across), "along": number(along)}
        return Rows.draw(rng, sigmoid(truth), self.STEEP * score, features)


@dataclass(frozen=True)
class Clustered:
    """Rows of 12 sub-populations, each with a calibration of its own.

    Sub-populations are far apart in four features; within them the truth is linear. The base model knows it, but
    its log-odds are stretched and shifted in each sub-population: by exp(strength u / 2) and strength v, with u and v
    from N(0, 1).
    """

    strength: float
    seed: int = 0

    KINDS: ClassVar = 12

    def rows(self, count: int, seed: int) -> tuple[Rows, IntArray]:
        kinds, rng = np.random.default_rng([self.seed, 1]), np.random.default_rng([self.seed, 2, seed])
        centre, slope = kinds.normal(0, 2, (self.KINDS, 4)), kinds.normal(0, 0.5, 4)
        stretch, shift = self.strength * kinds.normal(0, 1, (2, self.KINDS))
        kind = rng.integers(0, self.KINDS, count)
        point = centre[kind] + rng.normal(0, 0.6, (count, 4))
        truth = point @ slope + rng.normal(0, 1, count)  # what the model knows besides these features
        features = {f"x{place}": number(column) for place, column in enumerate(point.T)}
        return Rows.draw(rng, sigmoid(truth), np.exp(stretch[kind] / 2) * truth + shift[kind], features), kind


@dataclass(frozen=True)
class Overlooked:
    """Numbers that a dense network has learned, and a category of 20 values of which it makes too little.

    The truth is smooth in three numbers; each value of the category adds an effect of its own in each half of the
    first number, from N(0, strength). The network, over-confident by the factor `steep`, has learned the share
    `learned` of these effects: section 3 of the paper says that over-confident networks use simple patterns too little.
    """

    strength: float
    steep: float = 2.0
    learned: float = 0.3
    seed: int = 0

    VALUES: ClassVar = 20

    def rows(self, count: int, seed: int) -> Rows:
        values, rng = np.random.default_rng([self.seed, 1]), np.random.default_rng([self.seed, 2, seed])
        effect = values.normal(0, self.strength, (2, self.VALUES))
        point, value = rng.normal(0, 1, (count, 3)), rng.integers(0, self.VALUES, count)
        smooth = np.sin(point[:, 0]) + 0.8 * point[:, 1] + 0.4 * point[:, 1] * point[:, 2] - 1
        extra = effect[(point[:, 0] > 0).astype(int), value]
        features = {f"x{place}": number(column) for place, column in enumerate(point.T)}
        features["kind"] = category(value, self.VALUES)
        return Rows.draw(rng, sigmoid(smooth + extra), self.steep * (smooth + self.learned * extra), features)
