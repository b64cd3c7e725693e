"""Which rows to label: how many give an interval of some width, and a draw of those that tell most.

A row tells as much as its label is uncertain given the score: the standard deviation of its label about its stand-in.
Rows are drawn with probabilities in proportion to it (Neyman 1934), a fifth of which is spread over all rows alike, so
that a score which is sure of itself and wrong is found out. Each row's probability is known, and the estimate that
weighs by it is right whatever the score is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import polars as pl

from calcli.batch import FloatArray, IntArray
from calcli.errors import DataError, UsageError
from calcli.metrics.paired import Z975
from calcli.metrics.powered import Powered, Sample
from calcli.numeric.binomial import score_interval
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream
from calcli.reports.groups import numbers
from calcli.state import Json
from calcli.tables.sink import write
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import JudgedRows

COLUMN = "label_prob"
"""The column that `choose` adds."""

_ALIKE = 0.2
"""The share of the draws that is spread over all rows alike."""


class Variances(NamedTuple):
    """What is known of the labels of a class."""

    rate: float | None
    """The rate; None for amounts."""

    each: FloatArray
    """The variance of each row's label about its stand-in."""

    spread: float
    """The variance of a label."""

    @classmethod
    def of(cls, sample: Sample, found: Powered) -> Variances:
        """From labels: as the scores say, so scaled that they are right on average."""
        each = sample.stand_in * (1.0 - sample.stand_in) if sample.rate else np.zeros(len(sample))
        mean = float(each.mean())
        each = each * (found.residual / mean) if mean > 0.0 else np.full(len(sample), found.residual)
        return cls(found.value if sample.rate else None, each, found.spread)

    @classmethod
    def promised(cls, prob: FloatArray) -> Variances:
        """As the scores say, if they are calibrated; verdicts, which admit no doubt, count for nothing."""
        rate = float(prob.mean())
        each, spread = prob * (1.0 - prob), rate * (1.0 - rate)
        return cls(rate, each if each.any() else np.full(len(prob), spread), spread)

    def width(self, drawn: FloatArray) -> float:
        """The width of the interval, if each row is labelled with its probability in `drawn`."""
        rows = len(self.each)
        variance = float(self.each @ (1.0 / drawn - 1.0)) / rows**2 + self.spread / rows
        if self.rate is None or variance <= 0.0:
            return 2.0 * Z975 * math.sqrt(variance)
        lo, hi = score_interval(self.rate, self.rate * (1.0 - self.rate) / variance, Z975)
        return hi - lo


def inclusion(size: FloatArray, count: float) -> FloatArray:
    """Probabilities in proportion to `size`, none above 1, that add up to `count`."""
    prob = np.zeros(len(size))
    open_ = size > 0
    left = min(count, float(open_.sum()))
    while open_.any() and left > 0:
        prob[open_] = size[open_] * (left / size[open_].sum())
        above = open_ & (prob >= 1.0)
        if not above.any():
            break
        prob[above] = 1.0
        open_ &= ~above
        left = min(count, float((size > 0).sum())) - float((prob[~open_] >= 1.0).sum())
    return np.minimum(prob, 1.0)


def draw(prob: FloatArray, rng: np.random.Generator) -> IntArray:
    """Places drawn with these probabilities, as many as they add up to: systematically in random order (Madow 1949)."""
    order = rng.permutation(len(prob))
    ends = np.cumsum(prob[order]) + rng.random()
    before = np.concatenate([[ends[0] - prob[order[0]]], ends[:-1]])
    return np.sort(order[np.floor(ends + 1e-9) > np.floor(before + 1e-9)])


def sizes(each: FloatArray, weight: FloatArray | None, free: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> FloatArray:
    """How likely each row without a label should be drawn, beside the others."""
    tells = np.sqrt(each) * (1.0 if weight is None else weight) * free
    total = float(tells.sum())
    alike = free / free.sum()
    size: FloatArray = alike if total <= 0.0 else (1.0 - _ALIKE) * tells / total + _ALIKE * alike
    return size


def planned(width: float, known: Variances, before: FloatArray, weight: FloatArray | None) -> dict[str, Json]:
    """How many more labels give this width, drawn at random and by `sizes`; None where no number does.

    `before` is the probability with which each row already has a label.
    """
    rows = len(known.each)
    free = np.ones(rows, dtype=np.bool_)
    size = sizes(known.each, weight, free)
    left = rows - round(float(before.sum()))

    def at_random(more: int) -> FloatArray:
        return _both(before, np.full(rows, more / left))

    def by_plan(more: int) -> FloatArray:
        return _both(before, inclusion(size, more * rows / left))

    if left <= 0:
        return {"width": width, "reachable": known.width(np.ones(rows)), "more": None, "more_planned": None}
    least = known.width(np.ones(rows))
    reached = least <= width
    return {
        "width": width,
        "reachable": least,
        "more": _fewest(lambda more: known.width(at_random(more)), width, left) if reached else None,
        "more_planned": _fewest(lambda more: known.width(by_plan(more)), width, left) if reached else None,
    }


def _both(before: FloatArray, then: FloatArray) -> FloatArray:
    """The probability of a label before or then."""
    return np.clip(before + (1.0 - before) * np.minimum(then, 1.0), 1e-12, 1.0)


def _fewest(width: Callable[[int], float], wanted: float, most: int) -> int:
    """The smallest number of labels whose interval is at most as wide as `wanted`."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if width(middle) <= wanted:
            high = middle
        else:
            low = middle + 1
    return high


def labelled_before(rows: JudgedRows, request: EstimateRequest) -> FloatArray:
    """The probability with which each row already has a label."""
    count = len(rows.prob)
    if request.label_prob is not None and len(rows.labelled):
        drawn = numbers(rows.loaded, request.label_prob, "--label-prob")
        if not ((drawn >= 0.0) & (drawn <= 1.0)).all():
            raise DataError(
                f"--label-prob: {request.label_prob!r} is not known for all rows",
                hint="--choose needs it for the rows without a label too",
            )
        return drawn
    if rows.strata is None:
        return np.full(count, len(rows.labelled) / count)
    strata = int(rows.strata.max()) + 1
    share = totals(rows.strata[rows.labelled], None, strata) / totals(rows.strata, None, strata)
    return share[rows.strata]


def choose(rows: JudgedRows, request: EstimateRequest, each: FloatArray) -> dict[str, Json]:
    """Draw the rows to label next, and write them with the rows that have labels, each with its probability."""
    assert request.choose is not None
    assert request.output is not None
    source, batch = rows.loaded.source, rows.loaded.batch
    free = np.ones(len(rows.prob), dtype=np.bool_)
    free[rows.labelled] = False
    if rows.binding.weight is not None and rows.binding.weight_kind == "counts":
        raise UsageError("--choose draws rows, and --weight-kind counts has several in one", hint="leave out --weight")
    if request.choose > free.sum():
        raise UsageError(f"--choose {request.choose:,}: {free.sum():,} rows have no label", hint="choose fewer")
    if COLUMN in source.columns and request.label_prob != COLUMN:
        raise UsageError(
            f"--choose adds the column {COLUMN!r}, which is there", hint="rename it, or: --ignore it first"
        )
    prob = inclusion(sizes(each, batch.weight, free), float(request.choose))
    chosen = draw(prob, stream(request.seed, "labels"))
    # A row with a label would have been drawn now with the probability of one like it that has none.
    then = inclusion(
        sizes(each, batch.weight, np.ones(len(prob), dtype=np.bool_)), request.choose * len(prob) / free.sum()
    )
    then[free] = prob[free]
    drawn = _both(labelled_before(rows, request), then)
    kept = np.sort(np.concatenate([chosen, rows.labelled]))
    row = kept if rows.loaded.row_numbers is None else rows.loaded.row_numbers[kept]
    table = pl.LazyFrame(
        {"__row": row.astype(np.uint32), COLUMN: drawn[kept]}, schema={"__row": pl.UInt32, COLUMN: pl.Float64}
    )
    raw = source.raw.select(name for name in source.stored if name != COLUMN).with_row_index("__row")
    found = raw.join(table, on="__row", how="inner", maintain_order="left").drop("__row")
    write(found, request.output, arrow_types=source.arrow_types, dialect=source.dialect)
    return {"chosen": len(chosen), "column": COLUMN, "output": str(request.output)}
