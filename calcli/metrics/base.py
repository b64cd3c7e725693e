"""The input and the output of a metric.

A metric is a function ``metric(scored, options) -> Measured``. It gets plain arrays and never imports a method. What
several metrics need (the order of the predictions, the top label) is computed once, by `Scored`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray, LabelArray, Rows, spans, taken
from calcli.errors import UsageError, check_choices, unknown_name
from calcli.metrics.tied import SortedRows, TiedScores
from calcli.numeric.bins import BINS, BinCount, bins_of_rows, check_bins, rising

Direction = Literal["lower", "higher", "target"]

CONVENTIONS = (
    "sklearn", "kumar", "guo", "pycalib", "netcal", "torchmetrics", "mcgrad", "probcal", "relplot", "mapie", "calzone",
    "google",
)  # fmt: skip
"""The conventions of libraries for the bins of the ECE family; see `calcli.metrics.catalog`."""


_MOST = {"views": 1_000_000, "bin_size": 10**15, "norm": 1000}
"""The greatest values of the options that are numbers."""


@dataclass(frozen=True)
class Options:
    """How metrics are computed, where there is a choice.

    Attributes
    ----------
    bins, binning
        For the ECE family: how many bins, and whether they are of equal width on [0, 1] or hold equal numbers of rows
        (equal weight, if rows have weights). ``auto`` is the cube root of the number of rows; see `of_rows`.
    mvce
        ``closed``: what infinitely many views would give, sampled only where the closed form does not hold.
        ``sampled``: always by shuffling.
    views
        How many times MVCE shuffles when it is sampled.
    bin_size
        Rows in a bin of MVCE; None is 1000, or a 32nd of the rows where there are fewer than 32,000.
    rarer
        For MVCE: how many rows of the rarer label there are; None is to count them. Scores that stand side by side
        are measured in one way, and of more than two classes the label is whether the predicted one was right.
    norm
        The exponent of the mean over the views of MVCE; the ECE family has one name for each norm.
    seed
        Of everything that draws random numbers.
    convention
        Whose bins the ECE family has: on which side of an edge a value falls, and what becomes of 0 and 1.
    in_sample
        Whether the score was fitted on these very rows: tests then allow for a fitted intercept and slope, or have no
        p-value, and there is no verdict on all gaps.
    auto_bins
        Whether `bins` follows from the number of rows.
    """

    bins: BinCount = BINS
    binning: Literal["width", "mass"] = "width"
    mvce: Literal["closed", "sampled"] = "closed"
    views: int = 100
    bin_size: float | None = None
    rarer: float | None = None
    norm: float = 2.0
    seed: int = 0
    convention: str = "sklearn"
    in_sample: bool = False
    auto_bins: bool = False

    def __post_init__(self) -> None:
        check_choices(self)
        check_bins(self.bins)
        numbers = {"views": self.views, "bin_size": self.bin_size, "norm": self.norm}
        for name, value in numbers.items():
            if value is not None and not 1 <= value <= _MOST[name]:
                raise UsageError(f"{name} is {value}; it must be a number from 1 to {_MOST[name]:,}")
        if self.convention not in CONVENTIONS:
            raise UsageError(unknown_name("convention", self.convention, CONVENTIONS))

    def of_rows(self, rows: int) -> Options:
        """Options with a number of bins: ``auto`` becomes that of so many rows of positive weight."""
        return replace(self, bins=bins_of_rows(rows), auto_bins=True) if self.bins == "auto" else self

    @property
    def bin_count(self) -> int:
        """The number of bins, which is known."""
        if self.bins == "auto":
            raise ValueError("the number of bins follows from that of the rows: call of_rows")
        return self.bins


@dataclass(frozen=True, slots=True)
class Definition:
    """The exact definition of a metric. Fields that do not apply are None.

    `auto_bins` says that `bins` follows from the number of rows.
    """

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
    auto_bins: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """One number with its definition."""

    value: float | None
    """None where it is not defined."""

    definition: Definition
    floor: float | None = None
    """The expected value for a calibrated score on these rows, for metrics that are never zero."""

    p: float | None = None
    """The p-value of a test, for metrics that are one."""

    reason: str | None = None
    """Why there is no value, or which classes it leaves out."""

    per_class: tuple[float | None, ...] | None = None
    """The metric of each class against the rest, by class index; only where there are more than two classes."""

    lo: float | None = None
    hi: float | None = None
    """`lo`, `hi`: the ends of a 95 % confidence interval; gaps have none."""

    null_hi: float | None = None
    """The value that 95 % of calibrated scores stay below on these rows, for gaps."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which cluster each row belongs to."""

    cluster_of: IntArray
    """The cluster of each row, 0 .. `count` - 1."""

    count: int
    source: str
    """Where they came from, in words."""

    sha256: str | None = None
    """The hash of the artifact that decides about clusters, where there is one."""

    take = taken

    @property
    def facts(self) -> Mapping[str, object]:
        """The clusters as the definition of a metric states them."""
        return {"source": self.source, "k": self.count, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class Folds:
    """The held-out fold of each row, 0 .. `count` - 1.

    The rows of each are predicted by a calibrator of its own, so that scores rank rows within a fold only.
    """

    fold_of: IntArray
    count: int

    take = taken


@dataclass(frozen=True)
class Scored:
    """Rows with labels and predicted probabilities."""

    label: LabelArray
    """Class index, 0 .. K-1; binary: 1 is the positive class."""

    prob: FloatArray
    """P(positive), shape (n,), or a row per class, shape (n, K)."""

    weight: FloatArray | None = None
    """Non-negative, or None for all ones."""

    clusters: Clusters | None = None
    """The clusters of the rows, for metrics whose bins they are."""

    edges: IntArray | None = None
    """Pairs of rows that are linked, each once, for metrics that look at them; or the group of each row, 0 or more, of
    which all rows are linked.
    """

    odds: FloatArray | None = None
    """The numbers that rank rows where probabilities have rounded to 1: shaped as `prob`, and rising with it."""

    folds: Folds | None = None
    """The folds of the rows, where several calibrators have predicted them: rows are then ranked fold by fold."""

    units: IntArray | None = None
    """The unit that each row belongs to, where rows of a unit may share what is not in their scores: intervals and
    p-values then count units.
    """

    squares: FloatArray | None = None
    """The part of each row in the sum of squared weights, by which many rows are worth fewer; None for w^2. The part of
    either half of a row with a soft label is its weight times that of the row.
    """

    @classmethod
    def empty(cls, classes: int) -> Scored:
        """A score of no rows."""
        return cls(np.zeros(0, np.int64), np.zeros((0,) if classes == 2 else (0, classes)))

    def __len__(self) -> int:
        return len(self.label)

    @property
    def classes(self) -> int:
        return 2 if self.prob.ndim == 1 else self.prob.shape[1]

    @property
    def binary(self) -> bool:
        return self.prob.ndim == 1

    @property
    def weights(self) -> FloatArray:
        return np.ones(len(self)) if self.weight is None else self.weight

    @cached_property
    def total_weight(self) -> float:
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    @property
    def undefined_reason(self) -> str | None:
        """Why nothing can be measured on these rows, if nothing can."""
        if len(self) == 0:
            return "there are no rows"
        if self.total_weight <= 0:
            return "the weights add up to zero"
        return None

    def take(self, rows: Rows) -> Scored:
        """The rows of an index array, a mask or a slice; no edges, which are between all of the rows."""
        return taken(replace(self, edges=None), rows)

    @property
    def ranked(self) -> Scored:
        """The rows for metrics that ask for the order alone: with `odds`, if there are any, as `prob`."""
        return self if self.odds is None else replace(self, prob=self.odds, odds=None)

    def mean_of(self, rows: Callable[[Scored], FloatArray]) -> float:
        """The weighted mean of `rows`, computed chunk by chunk."""
        return self.sum_of(rows) / self.total_weight

    def sum_of(self, rows: Callable[[Scored], FloatArray]) -> float:
        """The weighted sum of `rows`, computed chunk by chunk."""
        sums = (rows(part).sum() if part.weight is None else (part.weight * rows(part)).sum() for part in self.parts())
        return math.fsum(map(float, sums))

    def parts(self) -> Iterator[Scored]:
        """The rows in chunks and in order, with labels as int64."""
        for rows in spans(len(self)):
            part = self.take(rows)
            yield replace(part, label=part.label.astype(np.int64, copy=False))

    @property
    def halved(self) -> Scored:
        """The rows as the halves of rows with soft labels, each of which is two rows, one after the other."""
        whole = np.repeat(self.weights.reshape(-1, 2).sum(axis=1), 2)
        return replace(self, squares=self.weights * whole)

    @property
    def weight_squares(self) -> FloatArray:
        """The part of each row in the sum of squared weights."""
        return self.weights**2 if self.squares is None else self.squares

    @property
    def with_scaled_weights(self) -> Scored:
        """The rows with weights whose squares would overflow or underflow scaled to a maximum of one."""
        largest = 1.0 if self.weight is None or len(self) == 0 else float(self.weight.max())
        if self.weight is None or largest == 0.0 or 1e-100 < largest < 1e100:
            return self
        return replace(self, weight=self.weight / largest)

    @property
    def rows(self) -> int:
        """The number of rows of positive weight."""
        return len(self) if self.weight is None else int(np.count_nonzero(self.weight))

    @property
    def with_positive_weight(self) -> Scored:
        """The rows of positive weight."""
        if self.weight is None or self.weight.all():
            return self
        return self.take(self.weight > 0)

    def each_fold(self) -> Iterator[Scored]:
        """The rows of each fold; all of them where there are no folds."""
        if self.folds is None:
            yield self
            return
        for index in range(self.folds.count):
            yield replace(self.take(self.folds.fold_of == index), folds=None)

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """Rows by rising probability, equal ones in their own order; binary only."""
        return rising(self.prob)

    @cached_property
    def sorted(self) -> SortedRows:
        """The rows of positive weight by rising probability; binary only."""
        return SortedRows.of(self.order, self.prob, self.label, self.weight)

    @cached_property
    def ties(self) -> TiedScores:
        """The rows of positive weight pooled by their probability; binary only."""
        return self.sorted.pool()

    @property
    def top(self) -> Scored:
        """K > 2: the probability of the predicted class, and whether it was right, as a binary problem."""
        return self if self.binary else self._top  # what kept itself would outlive its last use

    @cached_property
    def _top(self) -> Scored:
        best = self.prob.argmax(axis=1)
        confidence = np.take_along_axis(self.prob, best[:, None], axis=1)[:, 0]
        return replace(self, label=(best == self.label).astype(np.int8), prob=confidence, odds=None)

    @cached_property
    def confidence(self) -> Scored:
        """The probability of the predicted class, also of two, and whether it was right, as a binary problem."""
        if not self.binary:
            return self.top
        right = (self.prob > 0.5) == (self.label == 1)
        prob = np.maximum(self.prob, 1.0 - self.prob)
        return Scored(right.astype(np.int8), prob, self.weight, folds=self.folds, units=self.units)

    def from_class(self, index: int) -> Scored:
        """Class `index` and those after it against those before, as a binary problem; of more than two classes."""
        prob = np.clip(self.prob[:, index:].sum(axis=1), 0.0, 1.0)
        return replace(self, label=(self.label >= index).astype(np.int8), prob=prob, odds=None)

    def one_vs_rest(self, index: int) -> Scored:
        """Class `index` against all others, as a binary problem."""
        if self.binary:
            return self if index == 1 else replace(self, label=1 - self.label, prob=1.0 - self.prob, odds=None)
        label = (self.label == index).astype(np.int8)
        odds = None if self.odds is None else np.ascontiguousarray(self.odds[:, index])
        return replace(self, label=label, prob=np.ascontiguousarray(self.prob[:, index]), odds=odds)
