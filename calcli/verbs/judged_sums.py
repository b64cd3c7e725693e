"""The samples of a table from two passes over it: its labelled rows, and sums over all others.

The first pass collects the labelled rows, on which calibrators are fitted. The second one maps every other row through
them, and adds up products of powers of its weight and of its stand-in: estimates and intervals need no more of rows
without a label. Sums are kept apart by group, stratum and unit. Units are known by a hash; where there are too many,
those without a label share buckets at random, which changes no variance (see `calcli.metrics.gathered`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any, Self, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray, IntArray
from calcli.errors import UsageError
from calcli.metrics.gathered import UNITS
from calcli.metrics.powered import ORDERS, Moments, Sample
from calcli.models.calibrator import CalibratorModel
from calcli.numeric.bins import totals
from calcli.reports.groups import as_numbers, comparable, distinct_groups, group_codes, group_names
from calcli.reports.measuring import facts_of
from calcli.state import Json
from calcli.tables.binding_types import Binding
from calcli.tables.passes import ClusterTable, LocalTable, Pass, Reading
from calcli.tables.paths import reading
from calcli.tables.scales import Scale
from calcli.tables.source import Source
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import (
    Judged,
    LabelledRows,
    StandIns,
    bound,
    check_drawn,
    check_strata,
    is_labelled,
    judgement,
    samples_of,
    score_columns,
    shares,
    values_of_labels,
)

MOST_LABELS = 20_000_000
"""At most so many labelled rows are held."""

MOST_UNITS = 1 << 18
"""Up to so many sums are kept apart by unit; of more, those of rows without labels share buckets."""

FEWEST_BUCKETS = 1 << 10
"""Each group has so many buckets at least."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits: numbers of the same size, times this, lie far apart."""


def judged_sums(
    table: LocalTable | ClusterTable, request: EstimateRequest, model: CalibratorModel | None
) -> Judged | None:
    """The samples of a table, and the facts about it; None where no row has a label."""
    example = table.example(request.flags, None if model is None else model.binding, request.by)
    binding = table.with_weight_scale(bound(example, request, model))
    if binding.label is None:
        return None
    rows = _Rows(example.name, binding, model, request, {one: _distinct(example, one) for one in request.by})
    for name, flag in rows.asked:
        comparable(example, name, flag)
    units: dict[str, Json] | None = None
    if (column := request.resample_by) is not None:
        units = {"column": column, "count": table.count_units(column, "--resample-by"), "in_order": False}
    # The labelled rows, and what stands in for their labels.
    passed = table.run(LabelPass(rows))
    if not passed.total.parts:
        return None
    labelled = passed.total.labelled(rows)
    known = labelled.known
    stand_ins = known.stand_ins(request.seed, rate=not binding.regression)
    every = stand_ins.of(known.odds)
    # Sums over all other rows.
    centres = [float(one.mean()) for one in every]
    cells = table.run(CellPass(rows, stand_ins, centres, labelled.strata, labelled.unit_values)).total.compact()
    if (stratum := request.strata) is not None and (cells.keys[:, len(request.by)] < 0).any():
        check_strata(stratum, table.count_units(stratum, "--strata"), known.strata)
    samples, means, keys = _together(rows, labelled, stand_ins, every, centres, cells)
    facts = facts_of(example, binding, passed.count.facts, shares(known.value, known.weights, binding))
    facts = replace(facts, weight_sum=float(samples[0].weights.sum()), units=units)
    by = {name: (group_names(one), keys[place]) for place, (name, one) in enumerate(rows.distinct.items())}
    return Judged(example.name, binding, facts, samples, None if rows.ranks else means, by)


def _together(
    rows: _Rows,
    labelled: _Labelled,
    stand_ins: StandIns,
    every: Sequence[FloatArray],
    centres: Sequence[float],
    cells: Cells,
) -> tuple[tuple[Sample, ...], list[FloatArray], list[IntArray]]:
    """The sample for each class with its mean scores, and the columns of the entries' keys.

    `every` are the stand-ins of the labelled rows as they are of others.
    """
    known, request = labelled.known, rows.request
    keys = [np.concatenate(pair) for pair in zip(labelled.key, cells.keys.T, strict=True)]
    entries = [
        _Entries.of(known.weights, prob, stand_in, sums, centre, cells.orders)
        for prob, stand_in, sums, centre in zip(
            score_columns(labelled.prob), every, np.split(cells.sums[1:], len(every)), centres, strict=True
        )
    ]
    shared: dict[str, Any] = {
        "labelled": np.arange(len(known.value)),
        "weight": entries[0].weight,
        "label_prob": known.label_prob,
        "strata": None if known.strata is None else keys[len(request.by)],
        "units": None if known.units is None else np.unique(keys[-1], return_inverse=True)[1],
        "counts": np.concatenate([np.ones(len(known.value)), cells.sums[0]]),
        "alike": rows.binding.weight is None or rows.binding.weight_kind == "counts",
    }
    samples = samples_of(known, stand_ins, [one.stand_in for one in entries], shared)
    if known.units is None:
        samples = tuple(replace(one, moments=more.moments) for one, more in zip(samples, entries, strict=True))
    return samples, [one.mean for one in entries], keys


def _distinct(source: Source, column: str) -> pl.Series:
    """The groups of a column in their order."""
    with reading(source.name):
        values = comparable(source, column, "--by").unique().collect(engine="streaming").to_series()
    return distinct_groups(values, column)


@dataclass(frozen=True)
class _Rows:
    """How the rows of a table are read, and to which sums they belong."""

    name: str
    binding: Binding
    model: CalibratorModel | None
    request: EstimateRequest
    distinct: Mapping[str, pl.Series]
    """The groups of each column."""

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The columns that flags name, beside those of groups, and the flags."""
        asked = self.request
        named = ((asked.strata, "--strata"), (asked.resample_by, "--resample-by"), (asked.label_prob, "--label-prob"))
        return [(column, flag) for column, flag in named if column is not None]

    @property
    def ranks(self) -> bool:
        """Whether scores only rank."""
        return self.model is None and self.binding.score.kind == "rank"

    def reading(self, scale: Scale | None, *, judged: bool) -> Reading:
        others = list(dict.fromkeys([*self.request.by, *(column for column, _ in self.asked)]))
        features = self.binding.regression or (self.model is not None and self.model.needs_features)
        return Reading([self.binding], [scale], others, features, judged=judged, few_labels=True)

    def key(self, others: pl.DataFrame, strata: pl.Series | None) -> list[IntArray]:
        """The group of each row in each column, its stratum, and its unit, which is a hash."""
        key = [group_codes(others[column], one) for column, one in self.distinct.items()]
        if self.request.strata is not None and strata is not None:
            key.append(group_codes(others[self.request.strata], strata))
        if self.request.resample_by is not None:
            key.append((others[self.request.resample_by].hash().to_numpy() >> np.uint64(1)).astype(np.int64))
        return key


@dataclass(frozen=True)
class _Labelled:
    """The rows that have labels."""

    known: LabelledRows
    prob: FloatArray
    """The scores as they are."""

    strata: pl.Series | None
    """The strata in their order."""

    key: Sequence[IntArray]
    """The columns of each row's key."""

    @property
    def unit_values(self) -> IntArray | None:
        """The units that have labels; None without units."""
        return None if self.known.units is None else np.unique(self.key[-1])


_Part: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
"""Of some rows what is calibrated, the score as it is, the label, and the weight."""


@dataclass(slots=True)
class LabelTotal:
    """The labelled rows so far, and their other columns."""

    parts: list[_Part] = field(default_factory=list)
    others: list[pl.DataFrame] = field(default_factory=list)

    def __iadd__(self, other: LabelTotal) -> Self:
        for part, others in zip(other.parts, other.others, strict=True):
            self.add(part, others)
        return self

    def add(self, part: _Part, others: pl.DataFrame) -> None:
        """Add rows."""
        self.parts.append(part)
        self.others.append(others)
        if sum(len(odds) for odds, *_ in self.parts) > MOST_LABELS:
            raise UsageError(f"more than {MOST_LABELS:,} rows have labels", hint="their mean needs no estimate")

    def labelled(self, rows: _Rows) -> _Labelled:
        """These rows, once they are all there."""
        odds, prob, value, weight = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        others, asked = pl.concat(self.others), rows.request
        drawn = None if asked.label_prob is None else as_numbers(others[asked.label_prob], "--label-prob")
        check_drawn(asked.label_prob, drawn)
        strata = None if asked.strata is None else others[asked.strata].drop_nulls().unique().sort()
        key, by = rows.key(others, strata), len(asked.by)
        unit = None if asked.resample_by is None else others[asked.resample_by].rank("dense").to_numpy()
        known = LabelledRows(odds, value, weight, drawn, None if strata is None else key[by], unit, key[:by])
        return _Labelled(known, prob, strata, key)


@dataclass(frozen=True)
class LabelPass(Pass[LabelTotal]):
    """Collects the rows that have labels."""

    rows: _Rows

    def reading(self) -> Reading:
        binding = self.rows.binding
        scale = Scale(binding.score) if binding.score.columns else None
        return self.rows.reading(scale, judged=True)

    def start(self) -> LabelTotal:
        return LabelTotal()

    def add(self, total: LabelTotal, batches: Sequence[Batch], others: pl.DataFrame) -> LabelTotal:
        (batch,) = batches
        labelled = is_labelled(batch)
        if labelled.any():
            some, others = _some(batch, others, labelled)
            prob, odds = judgement(some, self.rows.model, self.rows.name)
            total.add((odds, prob, values_of_labels(some), some.weights), others)
        return total


def _some(batch: Batch, others: pl.DataFrame, mask: NDArray[np.bool_]) -> tuple[Batch, pl.DataFrame]:
    """Some of the rows of a chunk."""
    if mask.all():
        return batch, others
    return batch.take(mask), others.filter(mask) if others.width else others


@dataclass(slots=True)
class Cells:
    """Sums over rows without labels, by key: the groups of a row, its stratum and its unit.

    The sums are the number of rows, and for each class those of the score and of `orders`.
    """

    orders: Sequence[tuple[int, int]]
    keys: IntArray
    """The key of each cell, shape (cells, columns)."""

    sums: FloatArray
    """Shape (sums, cells)."""

    labelled: IntArray | None
    """The units with labels, whose sums are always kept apart; None without units."""

    waiting: list[tuple[IntArray, FloatArray]] = field(default_factory=list)
    pooled: bool = False

    def __iadd__(self, other: Cells) -> Self:
        self.pooled |= other.pooled
        for keys, sums in ((other.keys, other.sums), *other.waiting):
            self.add(keys, sums)
        return self

    def add(self, keys: IntArray, sums: FloatArray) -> None:
        """Add the sums of cells."""
        self.waiting.append((keys, sums))
        if sum(len(part) for part, _ in self.waiting) > len(self.keys) + MOST_UNITS:
            self.compact()

    def compact(self) -> Cells:
        """These cells, each once."""
        if self.waiting:
            keys, sums = zip((self.keys, self.sums), *self.waiting, strict=True)
            self._merge(np.concatenate(keys), np.concatenate(sums, axis=1))
            self.waiting.clear()
        if self.labelled is not None and (self.pooled or len(self.keys) > MOST_UNITS):
            self.pooled, groups = True, len(_places(self.keys[:, :-1])[0])
            buckets = max(UNITS >> (groups - 1).bit_length(), FEWEST_BUCKETS)
            unit = self.keys[:, -1]
            unit = np.where(np.isin(unit, self.labelled), unit, unit % buckets)
            self._merge(np.column_stack([self.keys[:, :-1], unit]), self.sums)
        return self

    def _merge(self, keys: IntArray, sums: FloatArray) -> None:
        first, place = _places(keys)
        self.keys, self.sums = keys[first], np.stack([totals(place, one, len(first)) for one in sums])


def _places(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The first row with each key, and the place of each row's key among these."""
    if not keys.shape[1]:
        return np.zeros(min(len(keys), 1), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    mixed = np.zeros(len(keys), dtype=np.uint64)
    for column in keys.T:
        mixed = mixed * _ODD + column.astype(np.uint64)
    _, first, place = np.unique(mixed, return_index=True, return_inverse=True)
    return first, place


@dataclass(frozen=True)
class CellPass(Pass[Cells]):
    """Adds up the rows that have no labels."""

    rows: _Rows
    stand_ins: StandIns
    centres: Sequence[float]
    """For each class a stand-in from which others are measured, so that no large numbers are subtracted."""

    strata: pl.Series | None
    units: IntArray | None
    """The units with labels; None without units."""

    def reading(self) -> Reading:
        return self.rows.reading(None, judged=False)

    def start(self) -> Cells:
        orders = ORDERS if self.units is None else ((1, 0), (1, 1))
        columns = len(self.rows.distinct) + (self.strata is not None) + (self.units is not None)
        sums = np.zeros((1 + len(self.centres) * (1 + len(orders)), 0))
        return Cells(orders, np.zeros((0, columns), dtype=np.int64), sums, self.units)

    def add(self, total: Cells, batches: Sequence[Batch], others: pl.DataFrame) -> Cells:
        bare = ~is_labelled(batches[0])
        if not bare.any():
            return total
        batch, others = _some(batches[0], others, bare)
        prob, odds = judgement(batch, self.rows.model, self.rows.name)
        key = self.rows.key(others, self.strata)
        keys = np.column_stack(key) if key else np.zeros((len(batch), 0), dtype=np.int64)
        first, place = _places(keys)
        sums = [totals(place, None, len(first))]
        for score, stand_in, centre in zip(score_columns(prob), self.stand_ins.of(odds), self.centres, strict=True):
            sums.append(totals(place, score if batch.weight is None else score * batch.weight, len(first)))
            sums += _powers(batch.weight, stand_in - centre, total.orders, place, len(first))
        total.add(keys[first], np.stack(sums))
        return total


def _powers(
    weight: FloatArray | None, gap: FloatArray, orders: Sequence[tuple[int, int]], place: IntArray, count: int
) -> list[FloatArray]:
    """For each order (p, k) the sums of weight^p gap^k."""

    def total(*factors: FloatArray) -> FloatArray:
        column = np.ones(len(gap)) if weight is None else (weight > 0.0).astype(np.float64)
        for factor in factors:
            column *= factor
        return totals(place, column, count)

    if weight is None:  # 1 has no other powers
        found = [total(*[gap] * order) for order in range(orders[-1][1] + 1)]
        return [found[order] for _, order in orders]
    return [total(*[weight] * power, *[gap] * order) for power, order in orders]


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a sample of one class: labelled rows, then cells."""

    weight: FloatArray
    stand_in: FloatArray
    mean: FloatArray
    """The mean score of each."""

    moments: Moments

    @classmethod
    def of(
        cls,
        weights: FloatArray,
        prob: FloatArray,
        stand_in: FloatArray,
        sums: FloatArray,
        centre: float,
        orders: Sequence[tuple[int, int]],
    ) -> Self:
        """From weights, scores and stand-ins of labelled rows, and sums over cells, with stand-ins less `centre`."""
        powers = dict(zip(orders, sums[1:], strict=True))
        weight = powers[1, 0]
        score, gap = (
            np.divide(one, weight, out=np.zeros(len(weight)), where=weight > 0) for one in (sums[0], powers[1, 1])
        )
        moments = {}
        for power, order in orders:
            about = sum(comb(order, k) * (-gap) ** (order - k) * powers[power, k] for k in range(order + 1))
            row = np.zeros(len(prob)) if order else weights**power
            moments[power, order] = np.concatenate([row, about])
        whole = np.concatenate([weights, weight]), np.concatenate([stand_in, centre + gap])
        return cls(*whole, np.concatenate([prob, score]), moments)
