"""The samples of the systems that judged a table: their labelled rows, and sums over all others.

A first pass collects the labelled rows, on which calibrators are fitted; where a plan or a promise is asked for, it
collects all. A second one maps every other row through the calibrators, and adds up products of powers of its weight
and of its stand-in: estimates and intervals need no more of rows without a label. Sums are kept apart by group, stratum
and unit; those of two systems by the item that both have judged. Units and items are known by a hash; where there are
too many, those without a label share buckets at random, which changes no variance (see `calcli.metrics.gathered`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import comb
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray, IntArray
from calcli.errors import DataError, UsageError
from calcli.metrics.gathered import UNITS
from calcli.metrics.powered import ORDERS, Sample
from calcli.models.calibrator import CalibratorModel
from calcli.numeric.bins import totals
from calcli.reports.groups import group_names
from calcli.state import Json
from calcli.tables.checks import Tally
from calcli.tables.load import join_batches
from calcli.tables.passes import ClusterTable, GoodRows, LocalTable, Pass, Reading, read_rows
from calcli.tables.source import Source
from calcli.verbs.estimate_request import EstimateRequest
from calcli.verbs.judged_rows import (
    Labelled,
    Reader,
    RowPass,
    Rows,
    StandIns,
    bound,
    distinct,
    is_labelled,
    labels_of,
    rated_names,
    score_columns,
)

MOST_UNITS = 1 << 18
"""Up to so many sums are kept apart by unit; of more, those of rows without labels share buckets."""

FEWEST_BUCKETS = 1 << 10
"""Each group has so many buckets at least."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
"""The golden ratio in 64 bits: numbers of the same size, times this, lie far apart."""


class AtOnce(LocalTable):
    """A table whose rows are one chunk, for calibrators that need all of them at once."""

    def chunks(self, tally: Tally, wanted: Reading) -> Iterator[GoodRows]:
        rows = list(read_rows(tally, wanted))
        yield [join_batches([batch for (batch,), _ in rows])], pl.concat([others for _, others in rows])


@dataclass(frozen=True)
class System:
    """One system, and those of the rows which it has judged that are held."""

    table: LocalTable | ClusterTable
    source: Source
    """The table, or a small one with the same columns."""

    reader: Reader
    rows: Rows | None
    """The rows that have labels, or all where a plan or a promise needs them; None where there are none."""

    counts: tuple[int, int, int]
    """How many rows the table has, bad ones, and normalised ones."""

    units: Mapping[str, Json] | None
    """The units of the table, as a report has them."""

    name: str = ""
    """Empty where there is one system only."""

    value: object = None
    """The value of `versus` in its rows; None where all rows of the table are its own."""

    @classmethod
    def read(cls, table: LocalTable | ClusterTable, request: EstimateRequest, model: CalibratorModel | None) -> System:
        """The system that has judged a whole table."""
        if isinstance(table, LocalTable) and model is not None and model.calibrator.whole_table:
            table = AtOnce(table.tally)
        columns = [*request.by, *([] if request.versus is None else [request.versus])]
        source = table.example(request.flags, None if model is None else model.binding, columns)
        binding = table.with_weight_scale(bound(source, request, model))
        reader, unit = Reader.of(source, binding, request, model), request.resample_by
        units: dict[str, Json] | None = None
        if unit is not None:
            units = {"column": unit, "count": table.count_units(unit, "--resample-by"), "in_order": False}
        if request.item is not None:
            table.count_units(request.item, "--id")
        passed = table.run(RowPass(reader, request.every_row or (model is not None and binding.label is None)))
        rows = Rows.joined(passed.total) if passed.total else None
        return cls(table, source, reader, rows, passed.count.facts, units)

    def labelled(self) -> Labelled:
        """Its rows that have labels."""
        rows = None if self.rows is None else self.rows.taken(self.rows.labelled)
        if rows is None or not len(rows):
            raise DataError(
                f"no row of {self.source.name}{self.named} has a label",
                hint="label some rows, drawn at random (--choose N -o FILE draws them), or add --with ARTIFACT",
            )
        return Labelled.of(rows, self.reader)

    @property
    def named(self) -> str:
        """The system in messages about its rows."""
        return f" of system {self.name!r}" if self.name else ""


def told_apart(tables: Sequence[System]) -> list[System]:
    """The systems of two tables, of two values of a column, or the only one, by their names."""
    first, request = tables[0], tables[0].reader.request
    if len(tables) > 1:
        tie = str(request.tie)
        one, other = (table.source.typed([tie]).collect_schema()[tie] for table in tables)
        if one != other and not (one.is_integer() and other.is_integer()):  # whose hashes agree whatever their size
            raise DataError(f"{request.tie_flag}: {tie!r} is {one} in one table and {other} in the other")
        names = [table.source.stem or table.source.name for table in tables]
        names = names if names[0] != names[1] else ["first", "second"]
        return [replace(table, name=name) for table, name in zip(tables, names, strict=True)]
    if request.versus is None:
        return [first]
    values = distinct(first.source, request.versus, "--versus")
    if len(values) != 2 or values.null_count():
        raise UsageError(
            f"--versus: the column {request.versus!r} has {len(values)} values, and two systems are compared",
            hint="keep the rows of two systems",
        )
    held, systems = first.rows, []
    for name, value in zip(group_names(values), values, strict=True):
        rows = None if held is None else held.taken(first.reader.of_system(held.others, value))
        systems.append(replace(first, rows=rows, name=str(name), value=value))
    return systems


@dataclass(frozen=True, slots=True)
class Judged:
    """One system, with a sample of its rows for each class."""

    system: System
    classes: Sequence[str | None]
    """The classes whose rates are estimated: of two the positive one; None for amounts."""

    labelled: Rows
    samples: Sequence[Sample]
    stand_ins: StandIns
    groups: Mapping[str, tuple[tuple[str | None, ...], IntArray]]
    """For each column of groups their names, and the group of each entry of a sample."""


def judged(systems: Sequence[System]) -> list[Judged]:
    """The samples of each system, with sums over the rows of all."""
    known, request = [system.labelled() for system in systems], systems[0].reader.request
    ties = None if request.tie is None else np.unique(np.concatenate([one.key[-1] for one in known]))
    passes = [CellPass.of(place, *pair, ties) for place, pair in enumerate(zip(systems, known, strict=True))]
    cells, *others = [system.table.run(gathering).total for system, gathering in zip(systems, passes, strict=True)]
    for other in others:
        cells += other
    cells.compact()
    found = [_judged(*parts, cells) for parts in zip(systems, known, passes, strict=True)]
    if len(found) == 2:
        _check_items(request, found, apart=not cells.pooled)
    return found


def _judged(system: System, known: Labelled, gathering: CellPass, cells: Cells) -> Judged:
    """The samples of one system, from its labelled rows and its cells."""
    reader, rows, inside = gathering.reader, known.rows, cells.keys[:, 0] == gathering.place
    request, rate, count = reader.request, not reader.binding.regression, len(rows)
    keys = [np.concatenate(pair) for pair in zip(known.key, cells.keys[inside, 1:].T, strict=True)]
    strata = None if known.strata is None else keys[len(request.by)]
    if strata is not None and known.strata is not None and (strata < 0).any():
        total = system.table.count_units(str(request.strata), "--strata")
        raise DataError(
            f"--strata: {total - len(known.strata):,} of the {total:,} values of {request.strata!r} have no labelled "
            f"row{system.named}",
            hint="label some rows of each, or leave out --strata",
        )
    # Labelled rows are entries of their own.
    alone = gathering.sums(rows, gathering.stand_ins.held_out, known.key, np.arange(count), count)
    sums = np.concatenate([alone, cells.sums[:, inside]], axis=1)
    shared: dict[str, Any] = {
        "labelled": np.arange(count),
        "label_prob": known.label_prob,
        "strata": strata,
        "units": None if request.resample_by is None else np.unique(keys[-1], return_inverse=True)[1],
        "items": None if request.item is None else keys[-1],
        "counts": sums[0],
        "alike": reader.binding.weight is None or reader.binding.weight_kind == "counts",
        "rate": rate,
    }
    samples = []
    centres = gathering.centres.of(keys)
    several = len(centres) > 1
    of_classes = zip(centres, np.split(sums[1:], len(centres)), strict=True)
    for place, (centre, part) in enumerate(of_classes):
        index = place if several else 1  # of two classes the positive one
        value = (rows.value == index).astype(np.float64) if rate else rows.value
        samples.append(Sample(value=value, **_entries(part, centre, gathering.orders, ranks=reader.ranks), **shared))
    groups = {name: (group_names(one), keys[place]) for place, (name, one) in enumerate(reader.groups.items())}
    classes = rated_names(reader.binding) if rate else (None,)
    return Judged(system, classes, rows, samples, gathering.stand_ins, groups)


def _entries(sums: FloatArray, centre: FloatArray, orders: Sequence[tuple[int, int]], *, ranks: bool) -> dict[str, Any]:
    """The columns of a sample of one class, from the sums of its entries: stand-ins are less the `centre` of each."""
    powers = dict(zip(orders, sums[1:], strict=True))
    weight = powers[1, 0]
    score, gap = (
        np.divide(one, weight, out=np.zeros(len(weight)), where=weight > 0) for one in (sums[0], powers[1, 1])
    )
    moments = {
        (power, order): sum(comb(order, k) * (-gap) ** (order - k) * powers[power, k] for k in range(order + 1))
        for power, order in orders
    }
    return {
        "weight": weight,
        "stand_in": centre + gap,
        "score": None if ranks else score,
        "moments": moments if orders == ORDERS else None,
    }


def _check_items(request: EstimateRequest, found: Sequence[Judged], *, apart: bool) -> None:
    """Refuse items that are in one system only, or twice in one, which is seen where all are kept `apart`."""
    ties = [np.asarray(one.samples[0].items) for one in found]
    for one, tie in zip(found, ties, strict=True):
        twice = one.samples[0].rows - len(np.unique(tie))
        if request.resample_by is None and apart and twice:
            raise DataError(
                f"--id: {request.item!r} repeats in {twice:,} rows of one system",
                hint="an item has one row for each system: remove the others",
            )
    if not len(np.intersect1d(ties[0], ties[1])):
        raise DataError(
            f"{request.tie_flag}: no value of {request.tie!r} is in both systems",
            hint="name the column that both share",
        )


@dataclass(slots=True)
class Cells:
    """Sums over rows without labels, by key: the system of a row, its groups, its stratum, and its unit or item.

    The sums are the number of rows, and for each class those of the score and of powers.
    """

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

    def compact(self) -> None:
        """Have each cell once."""
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

    def _merge(self, keys: IntArray, sums: FloatArray) -> None:
        first, place = _places(keys)
        self.keys, self.sums = keys[first], np.stack([totals(place, one, len(first)) for one in sums])


def _places(keys: IntArray) -> tuple[IntArray, IntArray]:
    """The first row with each key, and the place of each row's key among these."""
    if not keys.shape[1]:
        return np.zeros(min(len(keys), 1), dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    _, first, place = np.unique(_mixed(keys.T), return_index=True, return_inverse=True)
    return first, place


def _mixed(columns: Sequence[IntArray] | IntArray) -> NDArray[np.uint64]:
    """A number for each key, of which there is a column at least."""
    mixed = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns[::-1]:  # the system last, so that equal systems have their cells, and roundings, in one order
        mixed = mixed * _ODD + column.astype(np.uint64)
    return mixed


@dataclass(frozen=True, slots=True)
class Centres:
    """Stand-ins from which others are measured, so that no large numbers are subtracted: amounts have one a group."""

    groups: int
    """How many columns of a key say the group; 0 for rates, all of which are near."""

    known: NDArray[np.uint64]
    """The groups that have labels, in order."""

    values: Sequence[FloatArray]
    """For each class the centre of each of them, and of all others."""

    @classmethod
    def at(cls, stand_ins: Sequence[FloatArray], key: Sequence[IntArray], groups: int) -> Centres:
        """The means of the stand-ins of labelled rows."""
        known, place = np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
        if groups:
            known, place = np.unique(_mixed(key[:groups]), return_inverse=True)
        values = []
        for one in stand_ins:
            means = totals(place, one, len(known)) / totals(place, None, len(known)) if groups else one[:0]
            values.append(np.append(means, one.mean()))
        return cls(groups, known, values)

    def of(self, key: Sequence[IntArray]) -> list[FloatArray]:
        """For each class the centre of each row with these keys, or one of all."""
        if not self.groups:
            return list(self.values)
        mixed = _mixed(key[: self.groups])
        place = np.minimum(np.searchsorted(self.known, mixed), len(self.known) - 1)
        place = np.where(self.known[place] == mixed, place, len(self.known))
        return [one[place] for one in self.values]


@dataclass(frozen=True)
class CellPass(Pass[Cells]):
    """Adds up the rows of one system that have no labels."""

    reader: Reader
    place: int
    """The place of the system."""

    system: object
    """The value of `versus` in its rows; None for all rows."""

    stand_ins: StandIns
    centres: Centres
    strata: pl.Series | None
    ties: IntArray | None
    """The units or items with labels; None without any."""

    @classmethod
    def of(cls, place: int, system: System, known: Labelled, ties: IntArray | None) -> CellPass:
        """The pass over the rows of a system, by its labelled rows."""
        reader = system.reader
        amounts = reader.binding.regression
        stand_ins = known.stand_ins(reader.request.seed, rate=not amounts)
        centres = Centres.at(stand_ins.held_out, known.key, len(reader.groups) if amounts else 0)
        return cls(reader, place, system.value, stand_ins, centres, known.strata, ties)

    @property
    def orders(self) -> Sequence[tuple[int, int]]:
        """The powers that are summed: the first ones of units, which are squared as a whole."""
        return ORDERS if self.reader.request.resample_by is None else ((1, 0), (1, 1))

    def reading(self) -> Reading:
        return self.reader.reading(judged=False)

    def start(self) -> Cells:
        columns = 1 + len(self.reader.groups) + (self.strata is not None) + (self.ties is not None)
        sums = np.zeros((1 + len(self.centres.values) * (1 + len(self.orders)), 0))
        return Cells(np.zeros((0, columns), dtype=np.int64), sums, self.ties)

    def add(self, total: Cells, batches: Sequence[Batch], others: pl.DataFrame) -> Cells:
        (batch,) = batches
        mask = ~is_labelled(labels_of(batch), batch.weights)
        if self.system is not None:
            mask &= self.reader.of_system(others, self.system)
        if mask.any():
            rows = self.reader.rows(batch, others, mask)
            key = self.reader.key(rows.others, self.strata)
            keys = np.column_stack(key) if key else np.zeros((len(rows), 0), dtype=np.int64)
            first, place = _places(keys)
            system = np.full(len(first), self.place)
            sums = self.sums(rows, self.stand_ins.of(rows.odds), key, place, len(first))
            total.add(np.column_stack([system, keys[first]]), sums)
        return total

    def sums(
        self, rows: Rows, stand_ins: Sequence[FloatArray], key: Sequence[IntArray], place: IntArray, count: int
    ) -> FloatArray:
        """The sums over the rows with each of `count` places."""
        sums = [totals(place, None, count)]
        parts = zip(score_columns(rows.prob), stand_ins, self.centres.of(key), strict=True)
        for score, stand_in, centre in parts:
            sums.append(totals(place, score if rows.weight is None else score * rows.weight, count))
            sums += _powers(rows.weight, stand_in - centre, self.orders, place, count)
        return np.stack(sums)


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
