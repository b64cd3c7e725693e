"""The bootstrap of metrics, without copying rows.

A replicate is a vector of counts: how often each row, or each group of rows, is drawn. Means over rows are then dot
products of these counts with the contributions of the rows; metrics that depend on the order of the predictions are
computed from sums over ties of equal predictions, which are sorted once. Both are exact: the metric is that of a
table of the drawn rows (Efron & Tibshirani 1993, chapter 6).

Metrics of gaps are above zero even for a calibrated score, and resampling adds its own noise to theirs, so that a
percentile interval lies too high, and that of a difference covers it in 75 % of cases at 200 rows: they have none. They
are compared with a calibrated score instead: labels are drawn anew from the
probabilities (consistency resampling, Broecker & Smith 2007). Where rows belong to units, whose labels depend on each
other, the gaps of each unit get a sign by chance in their place (`calcli.metrics.paired`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.metrics import multi_view
from calcli.metrics.base import Measured, Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.clustered import ClusterGap, ClusterSums
from calcli.metrics.forms import ProblemMetric, Reduction, Skill, combined, problems
from calcli.metrics.paired import chance_widened, unit_sums
from calcli.metrics.tied import SortedRows, TiedScores, dot
from calcli.numeric.seeded import stream
from calcli.numeric.threads import threads as threads_allowed

CHUNK = 20
"""Replicates that share a stream of random numbers, so that results do not depend on the number of threads."""

TIED = 1e-9
"""Values that differ by less are the same, rounded: which of them is greater would depend on the unit of weights."""

MOSTLY = 0.9
"""The share of replicates in which a metric must be defined for anything to be said about it."""


@dataclass(frozen=True)
class Bootstrap:
    """The replicates of every score."""

    kinds: Mapping[str, str]
    """``smooth``, ``gap`` or ``test``, by metric."""

    resampled: Mapping[str, FloatArray]
    """By smooth metric, shape (scores, replicates): the value on resampled rows, NaN where it is not defined."""

    calibrated: Mapping[str, FloatArray]
    """By gap metric, the same shape: the value with labels drawn from the score itself."""

    in_sample: bool = False
    """Whether the score was fitted on these rows: how often a calibrated one shows as much says nothing then."""

    def complete(self, score: int, metric: str, measured: Measured) -> Measured:
        """The measurement with the results of the replicates.

        Smooth metrics get `lo` and `hi`, the 95 % percentile interval, unless they have an interval of their own, which
        is better with few positives. Gap metrics get the 95 % quantile of the metric
        of a calibrated score as `null_hi`, and, unless they have a closed form, its mean as `floor`, and how often it
        is at least as large as `p`.
        """
        if measured.value is None:
            return measured
        if metric in self.calibrated:
            values = _defined(self.calibrated[metric][score])
            if values is None:
                return measured
            tied = measured.value * (1.0 - TIED)
            above = (1.0 + float(np.count_nonzero(values >= tied))) / (1.0 + len(values))
            return replace(
                measured,
                floor=float(values.mean()) if measured.floor is None else measured.floor,
                null_hi=float(np.quantile(values, 0.95)),
                p=above if measured.p is None and not self.in_sample else measured.p,
            )
        if measured.lo is not None:
            return measured
        values = _defined(self.resampled[metric][score]) if self.kinds.get(metric) == "smooth" else None
        if values is None:
            return measured
        lo, hi = np.quantile(values, (0.025, 0.975))
        return replace(measured, lo=float(lo), hi=float(hi))

    def difference(self, score: int, versus: int, metric: str) -> tuple[float | None, float | None, float | None]:
        """`lo`, `hi` and `p` of one score less another, drawn with the same counts; nothing for gaps."""
        if metric not in self.resampled:
            return None, None, None
        values = _defined(self.resampled[metric][score] - self.resampled[metric][versus])
        if values is None:
            return None, None, None
        lo, hi = (float(end) for end in np.quantile(values, (0.025, 0.975)))
        tail = min(np.count_nonzero(values <= 0), np.count_nonzero(values >= 0))
        return lo, hi, min(1.0, 2.0 * (1.0 + float(tail)) / (1.0 + len(values)))


def _defined(values: FloatArray) -> FloatArray | None:
    """The replicates in which the metric is defined, if these are nearly all."""
    defined = values[np.isfinite(values)]
    return defined if len(defined) and len(defined) >= MOSTLY * len(values) else None


def bootstrap(
    scored: Sequence[Scored],
    chosen: Sequence[MetricSpec],
    options: Options,
    replicates: int,
    *,
    seed: int = 0,
    groups: NDArray[np.generic] | None = None,
    threads: int | None = None,
) -> Bootstrap:
    """Replicates of every metric that has any, for scores on the same rows.

    Parameters
    ----------
    scored
        The scores: same labels and weights, in the same order.
    chosen, options
        The metrics, and how they are computed.
    replicates, seed
        How many draws, and which.
    groups
        The group of each row, if groups and not rows are drawn.
    threads
        How many work at once; None is as many as ``--threads`` or the processors allow, up to 8. It changes no number.
    """
    scores = [Resampler(one.with_scaled_weights, chosen, options) for one in scored]
    kinds = {metric.name: metric.kind for metric in chosen if any(metric.name in score.names for score in scores)}
    drawn = [name for name, kind in kinds.items() if kind == "smooth"]
    gaps = [name for name, kind in kinds.items() if kind == "gap"]
    draw = drawing(scored[0], groups)
    # NaN stays where a metric is undefined in a replicate. Threads write to different columns.
    resampled = {name: np.full((len(scores), replicates), np.nan) for name in drawn}
    calibrated = {name: np.full((len(scores), replicates), np.nan) for name in gaps}

    def work(start: int) -> None:
        rng = stream(seed, "bootstrap", start)
        for replicate in range(start, min(start + CHUNK, replicates)):
            # All scores get the same counts and the same uniform numbers, so that their differences are paired.
            counts = draw(rng)
            uniform = rng.random(len(scored[0])) if gaps else None
            for index, score in enumerate(scores):
                for name, value in score.resampled(counts, drawn).items():
                    resampled[name][index, replicate] = value
                for name, value in score.by_chance(uniform, gaps).items() if uniform is not None else ():
                    calibrated[name][index, replicate] = value

    if kinds and scored[0].undefined_reason is None:
        with ThreadPoolExecutor(threads or min(8, threads_allowed())) as pool:
            list(pool.map(work, range(0, replicates, CHUNK)))
    return Bootstrap(kinds, resampled, calibrated, options.in_sample)


def drawing(rows: Scored, groups: NDArray[np.generic] | None = None) -> Callable[[np.random.Generator], FloatArray]:
    """A function that draws the counts of the rows: as many rows (or groups) as there are, with replacement.

    Rows of weight zero are never drawn.
    """
    weighted = np.arange(len(rows)) if rows.weight is None else np.flatnonzero(rows.weight > 0)
    units, of_row = len(weighted), weighted
    if groups is not None:
        groups_present, of_held = np.unique(groups[weighted], return_inverse=True)
        units, of_row = len(groups_present), of_held

    def draw(rng: np.random.Generator) -> FloatArray:
        taken = np.bincount(rng.integers(0, units, units), minlength=units).astype(np.float64)
        if groups is None and units == len(rows):
            return taken
        counts = np.zeros(len(rows))
        counts[weighted] = taken[of_row] if groups is not None else taken
        return counts

    return draw


class _Pooling(NamedTuple):
    """The binary problems whose rows are pooled into ties, and whether by what they are ranked by."""

    reduction: Reduction
    ranked: bool


class Resampler:
    """The metrics of one score, prepared for many replicates: sorting and row contributions are computed once.

    `names` are the metrics that can be resampled: all but tests and sampled MVCE.
    """

    def __init__(self, scored: Scored, chosen: Sequence[MetricSpec], options: Options) -> None:
        self.scored, self.options = scored, options
        self._weight = np.ones(len(scored)) if scored.weight is None else scored.weight
        self._rows: dict[str, FloatArray] = {}
        self._skills: dict[str, tuple[FloatArray, Skill]] = {}
        self._tied: dict[str, tuple[_Pooling, ProblemMetric]] = {}
        self._sorted: dict[_Pooling, tuple[SortedRows, ...]] = {}
        self._clusters: dict[str, ClusterGap] = {}
        self._errors: FloatArray | None = None
        self._if_negative: FloatArray = np.empty(0)
        self._if_positive: FloatArray = np.empty((0, 0))
        self._widened = 1.0
        if scored.undefined_reason is None:
            if (top := scored.top).units is not None:
                (gaps,) = unit_sums(top.units, self._weight * (top.label - top.prob))
                self._widened = chance_widened(gaps)
            for metric in chosen:
                self._prepare(metric)
        self.names = {
            *self._rows,
            *self._skills,
            *self._tied,
            *self._clusters,
            *(("mvce",) if self._errors is not None else ()),
        }

    def _prepare(self, metric: MetricSpec) -> None:
        """Everything about a metric that is the same in all replicates, by the form in which it can be computed."""
        if metric.kind == "test":
            return
        form = metric.load()
        if form.rows is not None:
            self._rows[metric.name] = self._weight * form.rows(self.scored)
        elif isinstance(form, Skill):
            self._skills[metric.name] = self._weight * form.loss.loss(self.scored), form
        elif isinstance(form, ProblemMetric):
            pooling = _Pooling(form.reduction, form.ranked and self.scored.odds is not None)
            self._tied[metric.name] = pooling, form
            if pooling not in self._sorted:
                rows = self.scored.ranked if pooling.ranked else self.scored
                parts = problems(rows, form.reduction, self.options)
                self._sorted[pooling] = tuple(part.sorted for part in parts)
        elif isinstance(form, ClusterGap):
            if self.scored.clusters is not None:
                self._clusters[metric.name] = form
        elif metric.name == "mvce" and multi_view.mvce(self.scored, self.options).definition.views is None:
            # Closed-form MVCE is a function of sums over rows, linear in the counts, and in the labels.
            top = self.scored.top
            negative, positive = (multi_view.error_columns(top, np.full(len(top), label)) for label in (0.0, 1.0))
            self._errors = multi_view.error_columns(top, top.label.astype(np.float64))
            self._if_negative, self._if_positive = negative.sum(axis=1), positive - negative

    def resampled(self, counts: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics of the rows, each taken `counts` times."""
        pooled: dict[_Pooling, list[TiedScores]] = {}
        replicate: dict[str, float] = {}
        total = dot(counts, self._weight)
        for name in wanted:
            if name in self._rows:
                replicate[name] = dot(counts, self._rows[name]) / total if total > 0 else math.nan
            elif name in self._skills:
                loss, skill = self._skills[name]
                classes = np.bincount(self.scored.label, counts * self._weight, minlength=self.scored.classes)
                value = skill.number(dot(counts, loss) / total, classes) if total > 0 else None
                replicate[name] = math.nan if value is None else value
            elif name in self._tied:
                pooling = self._tied[name][0]
                if pooling not in pooled:
                    pooled[pooling] = [part.pool(counts) for part in self._sorted[pooling]]
                replicate[name] = self._of_ties(name, pooled[pooling])
            elif self._errors is not None and name == "mvce":
                replicate[name] = self._mvce([dot(column, counts) for column in self._errors])
        return replicate | self._of_clusters(replace(self.scored, weight=counts * self._weight), wanted)

    def by_chance(self, uniform: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics with gaps as chance would have them, one uniform number for each row."""
        return self.calibrated(uniform, wanted) if self.scored.units is None else self.signed(uniform, wanted)

    def calibrated(self, uniform: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics with labels drawn from the score, one uniform number for each row."""
        drawn = replace(self.scored, label=_labels(self.scored.prob, uniform))
        replicate = self._relabelled(drawn, lambda part: part.label.astype(np.float64), wanted)
        return replicate | self._of_clusters(drawn, wanted)

    def signed(self, uniform: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics where rows belong to units: the gaps y - p of each unit stay or change their sign, all together,
        and grow where chance does (`chance_widened`).

        Metrics over clusters of rows have none.
        """
        assert self.scored.units is not None
        sign = np.where(uniform[self.scored.units] < 0.5, -self._widened, self._widened)
        return self._relabelled(self.scored, lambda part: _turned(part, sign), wanted)

    def _relabelled(
        self, scored: Scored, label_of: Callable[[Scored], FloatArray], wanted: Sequence[str]
    ) -> dict[str, float]:
        """The metrics over sorted rows and MVCE, each binary problem with these labels."""
        pooled: dict[_Pooling, list[TiedScores]] = {}
        replicate: dict[str, float] = {}
        for name in wanted:
            if name in self._tied:
                pooling = self._tied[name][0]
                if pooling not in pooled:
                    parts = zip(self._sorted[pooling], problems(scored, pooling.reduction, self.options), strict=True)
                    pooled[pooling] = [one.pool(label=label_of(part)) for one, part in parts]
                replicate[name] = self._of_ties(name, pooled[pooling])
            elif self._errors is not None and name == "mvce":
                label = label_of(scored.top)
                more = [dot(column, label) for column in self._if_positive]
                replicate[name] = self._mvce((self._if_negative + more).tolist())
        return replicate

    def _of_clusters(self, rows: Scored, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics that have clusters as bins, of the same rows with other weights or labels."""
        names = [name for name in wanted if name in self._clusters]
        if not names:
            return {}
        sums = ClusterSums.of(rows)
        values = {name: self._clusters[name].number(sums) for name in names}
        return {name: math.nan if value is None else value for name, value in values.items()}

    def _of_ties(self, name: str, pooled: list[TiedScores]) -> float:
        pooling, metric = self._tied[name]
        values = [metric.pooled(ties, self.options) if ties.total > 0 else None for ties in pooled]
        value = combined(values, pooling.reduction)
        return math.nan if value is None else value

    def _mvce(self, added: Sequence[float]) -> float:
        sums = multi_view.ErrorSums(*added)
        return multi_view.closed_of(sums, self.options) if sums.weight > 0 else math.nan


def _turned(rows: Scored, sign: FloatArray) -> FloatArray:
    """Labels in whose place the gaps have these signs and sizes; they may lie outside of 0 and 1."""
    turned: FloatArray = rows.prob + sign * (rows.label - rows.prob)
    return turned


def _labels(prob: FloatArray, uniform: FloatArray) -> IntArray:
    """Labels drawn from the probabilities."""
    if prob.ndim == 1:
        return (uniform < prob).astype(np.int64)
    passed = np.cumsum(prob, axis=1)[:, :-1] <= uniform[:, None]
    return np.asarray(passed.sum(axis=1), dtype=np.int64)
