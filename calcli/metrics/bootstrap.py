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
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from calcli.batch import FloatArray, IntArray
from calcli.metrics import multi_view
from calcli.metrics.base import Measured, Options, Scored
from calcli.metrics.catalog import MetricSpec
from calcli.metrics.clustered import ClusterGap, ClusterSums
from calcli.metrics.forms import Metric, ProblemMetric, Reduction, Skill, combined, problems
from calcli.metrics.joint_test import drawn_rows
from calcli.metrics.paired import chance_widened, unit_sums
from calcli.metrics.tied import SortedRows, TiedScores, dot
from calcli.numeric.bins import totals
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

    resampled: Mapping[str, FloatArray]
    """By smooth metric, shape (scores, replicates): the value on resampled rows, NaN where it is not defined."""

    calibrated: Mapping[str, FloatArray]
    """By gap metric, the same shape: the value with labels drawn from the score itself."""

    in_sample: bool = False
    """Whether the score was fitted on these rows: how often a calibrated one shows as much says nothing then."""

    def complete(self, score: int, metric: str, measured: Measured) -> Measured:
        """The measurement with the results of the replicates.

        Smooth metrics get `lo` and `hi`, the 95 % percentile interval, unless they have an interval of their own, which
        is better with few positives. Gap metrics get the 95 % quantile of the metric of a calibrated score as
        `null_hi`, and, unless they have a closed form, its mean as `floor`, and how often it is at least as large as
        `p`.
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
        values = _defined(self.resampled[metric][score]) if metric in self.resampled else None
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
    """Replicates of every metric that has any, for scores on the same rows, which are in the same order.

    With `groups`, the group of each row, these and not rows are drawn. As many `threads` work at once as ``--threads``
    or the processors allow, up to 8, if they are None; their number changes no result.
    """
    scores = [Resampler(one.with_scaled_weights, chosen, options) for one in scored]
    known = [metric for metric in chosen if any(metric.name in score.names for score in scores)]
    drawn, gaps = ([metric.name for metric in known if metric.kind == kind] for kind in ("smooth", "gap"))
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

    if known and scored[0].undefined_reason is None:
        with ThreadPoolExecutor(threads or min(8, threads_allowed())) as pool:
            list(pool.map(work, range(0, replicates, CHUNK)))
    return Bootstrap(resampled, calibrated, options.in_sample)


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
        taken = totals(rng.integers(0, units, units), None, units)
        if groups is None and units == len(rows):
            return taken
        counts = np.zeros(len(rows))
        counts[weighted] = taken[of_row] if groups is not None else taken
        return counts

    return draw


_Pooling: TypeAlias = tuple[Reduction, bool]
"""The binary problems whose rows are pooled into ties, and whether by what they are ranked by."""


class Resampler:
    """The metrics of one score, prepared for many replicates: sorting and row contributions are computed once.

    `names` are the metrics that can be resampled: all but tests and sampled MVCE.
    """

    def __init__(self, scored: Scored, chosen: Sequence[MetricSpec], options: Options) -> None:
        self.scored, self.options = scored, options
        self._weight = scored.weights
        self._forms: dict[str, Metric] = {}
        self._rows: dict[str, FloatArray] = {}
        self._sorted: dict[_Pooling, tuple[SortedRows, ...]] = {}
        self._errors, self._if_negative, self._if_positive = np.empty((0, 0)), np.empty(0), np.empty((0, 0))
        self._widened, self._chance = 1.0, None
        if scored.undefined_reason is None:
            if (top := scored.top).units is not None:
                (gaps,) = unit_sums(top.units, self._weight * (top.label - top.prob))
                self._widened = chance_widened(gaps)
            elif scored.binary and scored.weight is not None:
                self._chance = drawn_rows(scored)
            for metric in chosen:
                if metric.kind != "test" and self._prepare(metric.name, metric.load()):
                    self._forms[metric.name] = metric.load()
        self.names = self._forms.keys()

    def _prepare(self, name: str, form: Metric) -> bool:
        """Keep what is the same in all replicates of a metric, and tell whether it can be resampled."""
        if form.rows is not None:
            self._rows[name] = self._weight * form.rows(self.scored)
        elif isinstance(form, Skill):
            self._rows[name] = self._weight * form.loss.loss(self.scored)
        elif isinstance(form, ProblemMetric):
            reduction, ranked = pooling = self._pooling(form)
            if pooling not in self._sorted:
                parts = problems(self.scored.ranked if ranked else self.scored, reduction, self.options)
                self._sorted[pooling] = tuple(part.sorted for part in parts)
        elif isinstance(form, ClusterGap):
            return self.scored.clusters is not None
        else:
            if form(self.scored, self.options).definition.views is not None:
                return False
            # Closed-form MVCE is a function of sums over rows, linear in the counts, and in the labels.
            top = self.scored.top
            negative, positive = (multi_view.error_columns(top, np.full(len(top), label)) for label in (0.0, 1.0))
            self._errors = multi_view.error_columns(top, top.label.astype(np.float64))
            self._if_negative, self._if_positive = negative.sum(axis=1), positive - negative
        return True

    def _pooling(self, form: ProblemMetric) -> _Pooling:
        return form.reduction, form.ranked and self.scored.odds is not None

    def resampled(self, counts: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics of the rows, each taken `counts` times."""
        total = dot(counts, self._weight)
        means = {
            name: dot(counts, self._rows[name]) / total if total > 0 else math.nan
            for name in wanted
            if name in self._rows
        }
        for name, loss in means.items():
            form = self._forms[name]
            if isinstance(form, Skill):
                classes = np.bincount(self.scored.label, counts * self._weight, minlength=self.scored.classes)
                value = form.number(loss, classes.astype(np.float64))
                means[name] = math.nan if value is None else value
        return means | self._numbers(
            wanted,
            lambda pooling: [part.pool(counts) for part in self._sorted[pooling]],
            lambda: [dot(column, counts) for column in self._errors],
            replace(self.scored, weight=counts * self._weight),
        )

    def by_chance(self, uniform: FloatArray, wanted: Sequence[str]) -> dict[str, float]:
        """The metrics with gaps as chance would have them, one uniform number for each row.

        Labels are drawn from the score, and the weights of rows with them, if they depend on labels. Where rows belong
        to units, the gaps y - p of each unit stay or change their sign, all together, and grow where chance does
        (`chance_widened`); metrics over clusters then have none.
        """
        rows, units = self.scored, self.scored.units
        sign = None if units is None else np.where(uniform[units] < 0.5, -self._widened, self._widened)
        gap: FloatArray | None = None
        if sign is None and self._chance is not None:
            chance, greater = self._chance
            rows = replace(rows, label=_labels(chance, uniform))
            gap = np.divide(
                greater * (rows.label - chance), self._weight, out=np.zeros(len(rows)), where=self._weight > 0
            )
        elif sign is None:
            rows = replace(rows, label=_labels(rows.prob, uniform))

        def label_of(part: Scored) -> FloatArray:
            # In place of gaps that are signed, or of rows that would weigh otherwise, labels may be outside of 0 and 1.
            if sign is not None:
                return part.prob + sign * (part.label - part.prob)
            if gap is None:
                return part.label.astype(np.float64)
            return part.prob + np.where(part.label == rows.label, gap, -gap)

        def pool(pooling: _Pooling) -> list[TiedScores]:
            parts = zip(self._sorted[pooling], problems(rows, pooling[0], self.options), strict=True)
            return [one.pool(label=label_of(part)) for one, part in parts]

        def errors() -> list[float]:
            label = label_of(rows.top)
            sums: list[float] = (self._if_negative + [dot(column, label) for column in self._if_positive]).tolist()
            return sums

        return self._numbers(wanted, pool, errors, rows if sign is None else None)

    def _numbers(
        self,
        wanted: Sequence[str],
        pool: Callable[[_Pooling], list[TiedScores]],
        errors: Callable[[], list[float]],
        clustered: Scored | None,
    ) -> dict[str, float]:
        """The metrics that are no means over rows, from tied rows, from the sums of MVCE, or from rows in clusters."""
        pool = cache(pool)
        values: dict[str, float | None] = {}
        sums = None
        for name in wanted:
            form = self._forms.get(name)
            if isinstance(form, ProblemMetric):
                pooled = pool(self._pooling(form))
                of_each = [form.pooled(ties, self.options) if ties.total > 0 else None for ties in pooled]
                values[name] = combined(of_each, form.reduction)
            elif isinstance(form, ClusterGap):
                if clustered is not None:
                    sums = sums or ClusterSums.of(clustered)
                    values[name] = form.number(sums)
            elif form is not None and name not in self._rows:
                found = multi_view.ErrorSums(*errors())
                values[name] = multi_view.closed_of(found, self.options) if found.weight > 0 else None
        return {name: math.nan if value is None else value for name, value in values.items()}


def _labels(prob: FloatArray, uniform: FloatArray) -> IntArray:
    """Labels drawn from the probabilities."""
    if prob.ndim == 1:
        return (uniform < prob).astype(np.int64)
    passed = np.cumsum(prob, axis=1)[:, :-1] <= uniform[:, None]
    return np.asarray(passed.sum(axis=1), dtype=np.int64)
