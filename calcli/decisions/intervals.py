"""Intervals of predicted amounts: chosen on labelled rows, and measured on others."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from calcli.batch import Batch, FloatArray, IntArray, SamplingUnits, taken
from calcli.decisions.conformal import PredictionIntervals
from calcli.decisions.goal import Choice, DecisionGoal, Option, decision_splits, with_confidence
from calcli.decisions.measure import Number, Promised, Rows, coverage, share_of
from calcli.decisions.policy import IntervalRule, group_name
from calcli.decisions.targets import Mask


@dataclass(frozen=True, slots=True)
class Amounts:
    """Rows with amounts that came true, and what was predicted."""

    truth: FloatArray
    lower: FloatArray
    upper: FloatArray
    """`lower`, `upper`: two predicted quantiles, or twice the prediction."""

    spread: FloatArray | None = None
    """The predicted standard deviation, where intervals are scaled by it."""

    weight: FloatArray | None = None
    units: SamplingUnits | None = None
    group: IntArray | None = None
    """The group of each row, if groups have thresholds of their own; -1 for an unknown one."""

    @classmethod
    def of(
        cls, batch: Batch, lower: str, upper: str, spread: str | None, *, squared: bool, group: IntArray | None = None
    ) -> Amounts:
        """The rows of a batch, from the columns of these names; `squared` says that the spread holds variances."""

        def column(name: str) -> FloatArray:
            return batch.features[name].values.astype(np.float64)

        with np.errstate(invalid="ignore"):  # no spread, like a negative variance, is not known
            scale = None if spread is None else np.sqrt(column(spread)) if squared else column(spread)
        truth = np.zeros(len(batch)) if batch.target is None else batch.target
        return cls(truth, column(lower), column(upper), scale, batch.weight, batch.units, group)

    @property
    def known(self) -> Mask:
        """The rows with a prediction, and a spread of 0 or more where there is one."""
        known: Mask = np.isfinite(self.lower) & np.isfinite(self.upper)
        return known if self.spread is None else known & np.isfinite(self.spread) & (self.spread >= 0.0)

    @property
    def as_rows(self) -> Rows:
        """The rows without their amounts, for rates."""
        none = np.zeros(len(self.truth))
        return Rows(none, none.astype(np.int64), self.weight, self.units, group=self.group)

    taken = taken


def choose_intervals(goal: DecisionGoal, rows: Amounts, groups: tuple[str, ...], seed: int) -> Choice:
    """Conformal intervals of the goal's level, and how they do on rows that did not choose them, by cross-fitting."""
    assert goal.intervals is not None
    level = goal.intervals

    def fitted(some: Amounts) -> PredictionIntervals:
        return PredictionIntervals.fit(
            some.truth,
            some.lower,
            some.upper,
            level,
            spread=some.spread,
            side=goal.side,
            **some.as_rows.held_out(goal.confidence),
        )

    plain = "absolute" if goal.quantiles is None else "quantiles"
    kinds = {} if rows.spread is None else {"scaled": rows}
    kinds[plain] = replace(rows, spread=None)
    options = []
    for name, each in kinds.items():
        lo, hi = np.empty_like(rows.truth), np.empty_like(rows.truth)
        for train, test in decision_splits(rows.units, len(rows.truth), goal.folds, seed):
            some = each.taken(test)
            lo[test], hi[test] = fitted(each.taken(train)).predict(
                some.lower, some.upper, spread=some.spread, group=some.group
            )
        options.append(Option(name, None, interval_numbers(rows, lo, hi)))
        if rows.group is not None and len(options) == 1:
            for place, group in enumerate(groups):
                part = rows.group == place
                numbers = interval_numbers(rows.taken(part), lo[part], hi[part])
                options.append(Option(f"  {goal.by} {group_name(group)}", None, numbers))
    rule = IntervalRule(
        fitted(rows), *goal.predicted, goal.spread or goal.variance, goal.variance is not None, goal.by, groups
    )
    where = "" if goal.by is None else f" of each {goal.by}"
    why = f"intervals hold the amount of at least {level:.4g} of new rows{where} {with_confidence(goal.confidence)}"
    why += rule.intervals.thresholds.shortage("they have no end")
    return Choice(None, options[0].name, why, tuple(options), intervals=rule)


def measure_intervals(rule: IntervalRule, rows: Amounts) -> tuple[dict[str, Number], Promised]:
    """Coverage and width on rows that did not choose the intervals, and the promise of the intervals."""
    lo, hi = rule.intervals.predict(rows.lower, rows.upper, spread=rows.spread, group=rows.group)
    held = (lo <= rows.truth) & (rows.truth <= hi)
    return interval_numbers(rows, lo, hi), coverage(rule.intervals.thresholds, rows.as_rows, held)


def interval_numbers(rows: Amounts, lo: FloatArray, hi: FloatArray) -> dict[str, Number]:
    """How often the intervals hold the truth, and how wide they are on average; None where some have no end."""
    held = (lo <= rows.truth) & (rows.truth <= hi)
    width = float(np.average(hi - lo, weights=rows.weight)) if len(lo) else math.nan
    return {
        "coverage": share_of(rows.as_rows, held),
        "width": Number(width if math.isfinite(width) else None),
    }
