"""Which rows to label: how many give an interval of some width, and a draw of those that tell most.

A row tells as much as its label is uncertain given the score: the standard deviation of its label about its stand-in.
Rows are drawn with probabilities in proportion to it (Neyman 1934), a fifth of which is spread over all rows alike, so
that a score which is sure of itself and wrong is found out. Each row's probability is known, and the estimate that
weighs by it is right whatever the score is.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from calcli.batch import FloatArray, IntArray
from calcli.errors import DataError, UsageError
from calcli.metrics.paired import Z975
from calcli.metrics.powered import Powered, powered
from calcli.models.held_out import Mask
from calcli.numeric.binomial import score_interval
from calcli.numeric.bins import totals
from calcli.numeric.seeded import stream
from calcli.reports.groups import as_numbers
from calcli.state import Json
from calcli.tables.passes import LocalTable
from calcli.tables.sink import write
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import Rows, score_columns
from calcli.verbs.judged_sums import Judged, System

COLUMN = "label_prob"
"""The column that `choose` adds."""

_ALIKE = 0.2
"""The share of the draws that is spread over all rows alike."""


class Variances(NamedTuple):
    """The facts that are known about the labels of a class."""

    rate: float | None
    """The rate; None for amounts."""

    each: FloatArray
    """The variance of each row's label about its stand-in."""

    spread: float
    """The variance of a label."""

    @classmethod
    def of(cls, stand_in: FloatArray, found: Powered, *, rate: bool) -> Variances:
        """From labels: as the scores say, so scaled that they are right on average."""
        each = stand_in * (1.0 - stand_in) if rate else np.zeros(len(stand_in))
        mean = float(each.mean())
        each = each * (found.residual / mean) if mean > 0.0 else np.full(len(stand_in), found.residual)
        return cls(found.value if rate else None, each, found.spread)

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
    some = size > 0
    prob, left = np.zeros(len(size)), min(count, float(some.sum()))
    above = some
    while some.any() and left > 0 and above.any():
        prob[some] = size[some] * (left / size[some].sum())
        above = some & (prob >= 1.0)
        prob[above] = 1.0
        some &= ~above
        left -= float(above.sum())
    return np.minimum(prob, 1.0)


def draw(prob: FloatArray, rng: np.random.Generator) -> IntArray:
    """Places drawn with these probabilities, as many as they add up to: systematically in random order (Madow 1949)."""
    order = rng.permutation(len(prob))
    ends = np.cumsum(prob[order]) + rng.random()
    before = np.concatenate([[ends[0] - prob[order[0]]], ends[:-1]])
    return np.sort(order[np.floor(ends + 1e-9) > np.floor(before + 1e-9)])


def sizes(each: FloatArray, weight: FloatArray | None, free: Mask) -> FloatArray:
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
    rows, every = len(known.each), np.ones(len(known.each))
    least, left = known.width(every), rows - round(float(before.sum()))

    def more(size: FloatArray) -> int | None:
        def enough(labels: int) -> bool:
            return known.width(_both(before, inclusion(size, labels * rows / left))) <= width

        return bisect_left(range(left), True, key=enough) if left > 0 and least <= width else None

    by_plan = sizes(known.each, weight, every > 0)
    return {"width": width, "reachable": least, "more": more(every), "more_planned": more(by_plan)}


def _both(before: FloatArray, then: FloatArray) -> FloatArray:
    """The probability of a label before or then."""
    return np.clip(before + (1.0 - before) * np.minimum(then, 1.0), 1e-12, 1.0)


def plan(request: EstimateRequest, system: System, judged: Judged | None) -> dict[str, Json] | None:
    """The report's `plan`: how many labels more, and the draw of some; None where neither is asked for.

    `judged` has the labels of the system; without any the scores are taken for calibrated.
    """
    rows = system.rows
    if rows is None or (request.width, request.choose) == (None, None):
        return None
    found: dict[str, Json] = {"assumes": "calibrated scores" if judged is None else "labels"}
    if judged is None:
        known = [Variances.promised(column) for column in score_columns(rows.prob)]
    else:
        pairs = zip(judged.stand_ins.of(rows.odds), judged.samples, strict=True)
        known = [Variances.of(stand_in, powered(sample), rate=sample.rate) for stand_in, sample in pairs]
    before = labelled_before(rows, request)
    if request.width is not None:
        each = [planned(request.width, one, before, rows.weights) for one in known]
        found |= max(each, key=lambda one: math.inf if one["more"] is None else float(str(one["more"])))
    if request.choose is not None:
        found |= choose(request.choose, request, system, rows, np.sum([one.each for one in known], axis=0), before)
    return found


def labelled_before(rows: Rows, request: EstimateRequest) -> FloatArray:
    """The probability with which each row already has a label."""
    labelled = rows.labelled
    if request.label_prob is not None and labelled.any():
        drawn = as_numbers(rows.others[request.label_prob], "--label-prob")
        if not ((drawn >= 0.0) & (drawn <= 1.0)).all():
            raise DataError(
                f"--label-prob: {request.label_prob!r} is not known for all rows",
                hint="--choose needs it for the rows without a label too",
            )
        return drawn
    if request.strata is None or not labelled.any():
        return np.full(len(rows), labelled.mean())
    strata: IntArray = rows.others[request.strata].rank("dense").to_numpy().astype(np.int64) - 1
    count = int(strata.max()) + 1
    share: FloatArray = totals(strata[labelled], None, count) / totals(strata, None, count)
    return share[strata]


def choose(
    count: int, request: EstimateRequest, system: System, rows: Rows, each: FloatArray, before: FloatArray
) -> dict[str, Json]:
    """Draw the rows to label next, and write them with the rows that have labels, each with its probability."""
    assert request.output is not None
    assert isinstance(system.table, LocalTable)
    source, binding, labelled = system.source, system.reader.binding, rows.labelled
    if binding.weight is not None and binding.weight_kind == "counts":
        raise UsageError("--choose draws rows, and --weight-kind counts has several in one", hint="leave out --weight")
    if count > (~labelled).sum():
        raise UsageError(f"--choose {count:,}: {(~labelled).sum():,} rows have no label", hint="choose fewer")
    if COLUMN in source.columns and request.label_prob != COLUMN:
        raise UsageError(
            f"--choose adds the column {COLUMN!r}, which is there", hint="rename it, or: --ignore it first"
        )
    target = Path(request.output)
    if source.inputs.have(target):
        raise UsageError(
            f"--choose writes some rows only, and {target} is the table that has all", hint="name another file"
        )
    prob = inclusion(sizes(each, rows.weights, ~labelled), float(count))
    chosen = draw(prob, stream(request.seed, "labels"))
    # A row with a label would have been drawn now with the probability of one like it that has none.
    like = inclusion(sizes(each, rows.weights, np.ones(len(rows), dtype=np.bool_)), count / float((~labelled).mean()))
    drawn = _both(before, np.where(labelled, like, prob))
    kept = np.sort(np.concatenate([chosen, np.flatnonzero(labelled)]))
    numbers = system.table.tally.row_numbers
    row = kept if numbers is None else numbers[kept]
    key = "_" * (1 + max(map(len, source.stored)))  # longer than any name
    added = pl.LazyFrame({key: row.astype(np.uint32), COLUMN: drawn[kept]})
    raw = source.raw.select(name for name in source.stored if name != COLUMN).with_row_index(key)
    found = raw.join(added, on=key, how="inner", maintain_order="left").drop(key)
    write(found, request.output, arrow_types=source.arrow_types, dialect=source.dialect)
    return {"chosen": len(chosen), "column": COLUMN, "output": str(request.output)}
