"""What a metric gets and what it gives.

A metric is a function ``metric(scored, options) -> Measured``. It gets plain arrays and never imports a method. What
several metrics need (the order of the predictions, the top label) is computed once, by `Scored`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray

Direction = Literal["lower", "higher", "target"]


@dataclass(frozen=True)
class Options:
    """How metrics are computed, where there is a choice."""

    bins: int = 15
    binning: Literal["width", "mass"] = "width"
    mvce: Literal["closed", "sampled"] = "closed"
    views: int = 100
    bin_size: float | None = None
    norm: float = 2.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """Which of the many numbers of this name it is. Fields that do not apply are None."""

    direction: Direction
    bins: int | None = None
    binning: str | None = None
    edge: str | None = None
    reduction: str | None = None
    norm: float | None = None
    views: int | None = None
    bin_size: float | None = None
    clusters: Mapping[str, object] | None = None
    approximation: str | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One number with its definition.

    Attributes
    ----------
    value
        None where it is not defined; `reason` then says why.
    floor
        What a perfectly calibrated score would show on as many rows, for metrics that are never zero.
    per_class
        The same metric one-vs-rest, by class index.
    """

    value: float | None
    definition: Definition
    floor: float | None = None
    p: float | None = None
    reason: str | None = None
    per_class: tuple[float | None, ...] | None = field(default=None)


@dataclass(frozen=True)
class Scored:
    """Rows with labels and predicted probabilities.

    Attributes
    ----------
    label
        Class index, 0 .. K-1; binary: 1 is the positive class.
    prob
        P(positive), shape (n,), or a row per class, shape (n, K).
    weight
        Non-negative, or None for all ones.
    """

    label: IntArray
    prob: FloatArray
    weight: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.label)

    @property
    def classes(self) -> int:
        return 2 if self.prob.ndim == 1 else self.prob.shape[1]

    @property
    def binary(self) -> bool:
        return self.prob.ndim == 1

    @cached_property
    def total_weight(self) -> float:
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    def mean(self, values: FloatArray) -> float:
        """The weighted mean over rows."""
        if self.weight is None:
            return float(values.mean())
        return float(np.dot(self.weight, values) / self.total_weight)

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Rows by rising probability; binary only."""
        return np.argsort(self.prob, kind="stable")

    @cached_property
    def top(self) -> Scored:
        """K > 2: the probability of the predicted class, and whether it was right, as a binary problem."""
        if self.binary:
            return self
        best = self.prob.argmax(axis=1)
        confidence = np.take_along_axis(self.prob, best[:, None], axis=1)[:, 0]
        return Scored((best == self.label).astype(np.int64), confidence, self.weight)

    def one_vs_rest(self, index: int) -> Scored:
        """Class `index` against all others, as a binary problem."""
        if self.binary:
            return self if index == 1 else Scored(1 - self.label, 1.0 - self.prob, self.weight)
        return Scored((self.label == index).astype(np.int64), np.ascontiguousarray(self.prob[:, index]), self.weight)
