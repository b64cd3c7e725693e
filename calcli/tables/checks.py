"""Rows as arrays, after every check.

A bad row has no label or weight where they are wanted, a negative or infinite weight, a score that is missing or not
finite, or probabilities that are none. Bad rows keep their place in a chunk, with a score of 0, and are marked; `load`
refuses or drops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Batch, Column, FloatArray, IntArray
from calcli.errors import DataError
from calcli.numeric.links import CLIP, scores
from calcli.tables.arrays import (
    UNKNOWN,
    Levels,
    class_indices,
    count_reasons,
    feature_column,
    index_order,
    join_arrays,
    join_columns,
    no_number,
    node_ids,
    numbers,
)
from calcli.tables.parts import Binding, Score
from calcli.tables.source import Source
from calcli.tables.trouble import reading

Mask = NDArray[np.bool_]

SLACK = 1e-6
"""How far outside [0, 1] a probability may be: float32 rounds."""

SUM_SLACK = 1e-3
"""How far from 1 the probabilities of a row may add up to."""

LARGEST = float(np.finfo(np.float64).max)

ENOUGH = 20
"""So many rows must agree before logits are suspected to be probabilities."""


@dataclass(frozen=True)
class Encoded:
    """One chunk of rows.

    Attributes
    ----------
    batch
        All rows of the chunk, in their places.
    bad
        Which of them are bad; None where none is.
    why
        How many rows each reason holds for.
    first
        The first bad row (from 0, in this chunk) and what is wrong with it.
    """

    batch: Batch
    bad: Mask | None = None
    why: Mapping[str, int] = field(default_factory=dict)
    first: tuple[int, str] | None = None

    @property
    def is_bad(self) -> Mask:
        """A mark for each row."""
        return np.zeros(len(self.batch), dtype=np.bool_) if self.bad is None else self.bad

    @property
    def good(self) -> Batch:
        """The rows that are not bad."""
        return self.batch if self.bad is None else self.batch.take(~self.bad)


@dataclass(frozen=True)
class Loaded:
    """All rows of a table that are fit for use.

    Attributes
    ----------
    batch
        The good rows, in order.
    rows
        How many there are in the table, bad ones included.
    rows_bad
        How many were dropped.
    row_numbers
        Where the good rows stand in the table, from 0; None if they are all.
    """

    batch: Batch
    rows: int
    rows_bad: int = 0
    row_numbers: IntArray | None = None


def bound_columns(binding: Binding, *, label: bool, features: bool) -> list[str]:
    """The columns that `encode` reads, each once."""
    names = [*binding.score.columns, *(() if binding.node_id is None else (binding.node_id,))]
    if label:
        names += [name for name in (binding.label, binding.weight) if name is not None]
    if features:
        names += [feature.name for feature in binding.features]
    return list(dict.fromkeys(names))


def encode(
    frame: pl.DataFrame,
    binding: Binding,
    *,
    label: bool,
    features: bool,
    offset: int = 0,
    levels: Levels | None = None,
) -> Encoded:
    """One chunk as arrays.

    Parameters
    ----------
    frame
        Typed columns, or the String columns of a text file.
    binding
        Which column plays which part.
    label
        Whether labels and weights are wanted.
    features
        Whether features are wanted.
    offset
        How many rows stand before this chunk, for messages.
    levels
        Those that the table's categories had before this chunk.
    """
    values = score_values(frame, binding)
    return _encode(frame, values, binding, label=label, features=features, offset=offset, levels=levels)


def score_values(frame: pl.DataFrame, binding: Binding) -> FloatArray:
    """The score columns as numbers: an array for one, a matrix for several; NaN where there is no number.

    Rows of a table without a score have zeros.
    """
    columns = binding.score.columns
    if len(columns) < 2:
        return numbers(frame[columns[0]]) if columns else np.zeros(len(frame))
    return np.column_stack([numbers(frame[name]) for name in columns])


def _encode(
    frame: pl.DataFrame,
    values: FloatArray,
    binding: Binding,
    *,
    label: bool,
    features: bool,
    offset: int,
    levels: Levels | None,
) -> Encoded:
    wrong: dict[str, Mask] = {}
    score = _score(frame, values, binding, wrong)
    indices = target = weight = None
    if label and binding.label is not None and binding.regression:
        target = _amount(frame[binding.label], "label", wrong)
    elif label and binding.label is not None:
        indices = class_indices(frame[binding.label], binding, offset)
        _mark(wrong, "the label is missing", indices == UNKNOWN)
    if label and binding.weight is not None:
        weight = _weight(frame[binding.weight], wrong)
    named = binding.features if features else ()
    columns = {feature.name: feature_column(frame[feature.name], feature, offset, levels) for feature in named}
    node = None if binding.node_id is None else node_ids(frame[binding.node_id])
    bad = np.logical_or.reduce(list(wrong.values())) if wrong else None
    if bad is None:
        return Encoded(Batch(score, indices, weight, columns, target, node))
    score = np.where(bad if score.ndim == 1 else bad[:, None], 0.0, score)
    indices = None if indices is None else np.where(bad, 0, indices)
    weight = None if weight is None else np.where(bad, 0.0, weight)
    target = None if target is None else np.where(bad, 0.0, target)
    row = int(bad.argmax())
    reason = next(reason for reason, mask in wrong.items() if mask[row])
    return Encoded(Batch(score, indices, weight, columns, target, node), bad, count_reasons(wrong), (row, reason))


def _mark(wrong: dict[str, Mask], reason: str, mask: Mask) -> None:
    if mask.any():
        wrong[reason] = mask


def _score(frame: pl.DataFrame, values: FloatArray, binding: Binding, wrong: dict[str, Mask]) -> FloatArray:
    if not binding.score.columns:
        return values
    if not np.isfinite(values).all():
        _mark_not_finite(frame.select(binding.score.columns), values, wrong)
    if binding.score.kind == "prob":
        return score_from_probabilities(values, binding, wrong)
    return _two_columns(values, binding) if values.ndim == 2 and binding.binary else values


def _mark_not_finite(frame: pl.DataFrame, values: FloatArray, wrong: dict[str, Mask]) -> None:
    """Tell apart, now that it matters, what is missing, what is no number, and what is infinite."""
    word = np.zeros(len(frame), dtype=np.bool_)
    for column in frame:
        if column.dtype == pl.String:
            word |= no_number(column).to_numpy()
    missing, infinite = _any(np.isnan(values)), _any(np.isinf(values))
    _mark(wrong, "the score is not a number", word)
    _mark(wrong, "the score is missing", missing & ~word)
    _mark(wrong, "the score is infinite", infinite & ~missing)


def _any(mask: Mask) -> Mask:
    """Whether it holds in any column, for each row."""
    return mask if mask.ndim == 1 else np.logical_or.reduce(mask, axis=1)


def score_from_probabilities(values: FloatArray, binding: Binding, wrong: dict[str, Mask]) -> FloatArray:
    """Log-odds or log-probabilities, clipped; rows that are no probabilities are added to `wrong`."""
    with np.errstate(invalid="ignore", over="ignore"):
        outside = (values < -SLACK) | (values > 1.0 + SLACK)
        if values.ndim == 1:
            _mark(wrong, "the probability is outside [0, 1]", outside)
            return scores(values)
        _mark(wrong, "a probability is outside [0, 1]", _any(outside))
        _mark(wrong, "the probabilities do not add up to 1", np.abs(values.sum(axis=1) - 1.0) > SUM_SLACK)
        if binding.binary:
            return _two_columns(np.log(np.clip(values, CLIP, 1.0 - CLIP)), binding)
        return scores(values)


def _two_columns(values: FloatArray, binding: Binding) -> FloatArray:
    """The log-odds z = v1 - v0, where v1 is the positive class."""
    positive = binding.classes.index(index_order(binding)[1])
    with np.errstate(over="ignore", invalid="ignore"):
        z: FloatArray = values[:, positive] - values[:, 1 - positive]
    return np.clip(z, -LARGEST, LARGEST, out=z)  # of missing ones NaN, of infinite ones too: both are marked


def _weight(values: pl.Series, wrong: dict[str, Mask]) -> FloatArray:
    weight = _amount(values, "weight", wrong)
    _mark(wrong, "the weight is negative", weight < 0)
    return weight


def _amount(values: pl.Series, part: str, wrong: dict[str, Mask]) -> FloatArray:
    """A column of finite numbers; rows where it has none are added to `wrong`."""
    amount = numbers(values)
    if np.isfinite(amount).all():
        return amount
    if values.dtype == pl.String:
        _mark(wrong, f"the {part} is not a number", no_number(values).to_numpy())
    word = wrong.get(f"the {part} is not a number", np.zeros(len(amount), dtype=np.bool_))
    _mark(wrong, f"the {part} is missing", np.isnan(amount) & ~word)
    _mark(wrong, f"the {part} is infinite", np.isinf(amount))
    return amount


def load(
    source: Source,
    binding: Binding,
    *,
    features: bool,
    bad_rows: Literal["fail", "null"] = "fail",
    label: bool = True,
    check_scale: bool = True,
) -> Loaded:
    """All rows as one batch, read in chunks; only the bound columns are held.

    Parameters
    ----------
    source
        The table.
    binding
        Which column plays which part.
    features
        Whether features are wanted; without, a row costs 24 bytes for two classes.
    bad_rows
        ``fail`` refuses a table with bad rows; ``null`` drops them and counts.
    label
        Whether labels and weights are wanted.
    check_scale
        Whether logits that look like probabilities are refused, and the reverse.
    """
    tally = Tally(source.name, keep_going=bad_rows == "null")
    scale = Scale(binding.score) if check_scale and binding.score.columns else None
    names = bound_columns(binding, label=label, features=features)
    batches: list[Batch] = []
    levels = Levels()
    with reading(source.name):
        for frame in source.raw.select(names).collect_batches():
            values = score_values(frame, binding)
            if scale is not None:
                scale.see(values)
            chunk = _encode(frame, values, binding, label=label, features=features, offset=tally.rows, levels=levels)
            tally.see(chunk)
            if tally.hopeless:
                batches.clear()
            else:
                batches.append(chunk.good)
    if scale is not None:
        scale.judge()
    tally.judge()
    return Loaded(join_batches(batches), tally.rows, tally.rows_bad, tally.row_numbers)


class Count:
    """Counts good and bad rows as chunks go by. What parts of a table count adds up.

    Parameters
    ----------
    name
        What messages call the table.
    keep_going
        Whether there is a result in spite of bad rows.
    """

    def __init__(self, name: str, *, keep_going: bool) -> None:
        self.name = name
        self.keep_going = keep_going
        self.rows = 0
        self.rows_bad = 0
        self.why: Counter[str] = Counter()
        self.first: tuple[int, str] | None = None

    def __add__(self, other: Count) -> Count:
        """Of both parts; where a row stands in the table is not known then."""
        both = Count(self.name, keep_going=self.keep_going)
        both.rows, both.rows_bad = self.rows + other.rows, self.rows_bad + other.rows_bad
        both.why = self.why + other.why
        return both

    def see(self, chunk: Encoded) -> None:
        if chunk.bad is not None and chunk.first is not None:
            self.rows_bad += int(chunk.bad.sum())
            self.why.update(chunk.why)
            self.first = self.first or (self.rows + chunk.first[0], chunk.first[1])
        self.rows += len(chunk.batch)

    @property
    def hopeless(self) -> bool:
        """Whether there will be no result, so that only the count still matters."""
        return self.rows_bad > 0 and not self.keep_going

    def judge(self) -> None:
        """Refuse a table with bad rows, or without good ones."""
        if not self.rows:
            raise DataError(f"{self.name} has no rows")
        if self.hopeless or self.rows_bad == self.rows:
            raise bad_rows_error(self.name, self.rows_bad, self.rows, self.why, self.first)


class Tally(Count):
    """The same of a table that is read from its beginning; it knows which rows are bad."""

    def __init__(self, name: str, *, keep_going: bool) -> None:
        super().__init__(name, keep_going=keep_going)
        self._bad: list[IntArray] = []

    def see(self, chunk: Encoded) -> None:
        if chunk.bad is not None:
            self._bad.append(self.rows + np.flatnonzero(chunk.bad))
        super().see(chunk)

    @property
    def row_numbers(self) -> IntArray | None:
        """Where the good rows stand in the table, from 0; None if they are all."""
        if not self.rows_bad:
            return None
        good = np.ones(self.rows, dtype=np.bool_)
        good[np.concatenate(self._bad)] = False
        return np.flatnonzero(good)


def bad_rows_error(name: str, bad: int, rows: int, why: Mapping[str, int], first: tuple[int, str] | None) -> DataError:
    """What ``--bad-rows fail`` says."""
    reasons = ", ".join(f"{reason}: {count:,}" for reason, count in sorted(why.items(), key=lambda item: -item[1]))
    place = f"; the first is row {first[0] + 1}: {first[1]}" if first else ""
    hint = None if bad == rows else "mend them, or pass --bad-rows null to go on without them"
    return DataError(f"{name} has {bad:,} bad row{'' if bad == 1 else 's'} of {rows:,} ({reasons}){place}", hint=hint)


def join_batches(batches: list[Batch]) -> Batch:
    """Chunks as one batch; empties the list."""
    first = batches[0]
    names = list(first.features)
    score = [batch.score for batch in batches]
    label = [batch.label for batch in batches if batch.label is not None]
    weight = [batch.weight for batch in batches if batch.weight is not None]
    target = [batch.target for batch in batches if batch.target is not None]
    node = [batch.node for batch in batches if batch.node is not None]
    features: dict[str, list[Column]] = {name: [batch.features[name] for batch in batches] for name in names}
    batches.clear()
    return Batch(
        score=join_arrays(score),
        label=join_arrays(label) if label else None,
        weight=join_arrays(weight) if weight else None,
        features={name: join_columns(features.pop(name)) for name in names},
        target=join_arrays(target) if target else None,
        node=join_columns(node) if node else None,
    )


class Scale:
    """Whether logits look like probabilities, or probabilities like logits.

    `flags` is whether --logit and --prob could say which they are.
    """

    def __init__(self, score: Score, *, flags: bool = True) -> None:
        self.score = score
        self.flags = flags
        self.rows = 0
        self.least = np.inf
        self.greatest = -np.inf
        self.outside = 0
        self.sums_to_one = True

    def __add__(self, other: Scale) -> Scale:
        """What both have seen."""
        both = Scale(self.score, flags=self.flags)
        both.rows, both.outside = self.rows + other.rows, self.outside + other.outside
        both.least, both.greatest = min(self.least, other.least), max(self.greatest, other.greatest)
        both.sums_to_one = self.sums_to_one and other.sums_to_one
        return both

    def see(self, values: FloatArray) -> None:
        rows = values if values.ndim == 2 else values[:, None]
        if not np.isfinite(rows).all():
            rows = rows[np.isfinite(rows).all(axis=1)]
        if not len(rows):
            return
        self.rows += len(rows)
        self.least = min(self.least, float(rows.min()))
        self.greatest = max(self.greatest, float(rows.max()))
        if self.score.kind == "prob":
            self.outside += int(_any((rows < -SLACK) | (rows > 1.0 + SLACK)).sum())
        elif values.ndim == 2 and self.sums_to_one:
            self.sums_to_one = bool((np.abs(rows.sum(axis=1) - 1.0) <= SUM_SLACK).all())

    def judge(self) -> None:
        first = self.score.columns[0]
        inside = self.least >= 0.0 and self.greatest <= 1.0
        if self.score.kind == "logit" and self.rows >= ENOUGH and inside and self.sums_to_one:
            raise DataError(
                f"{first!r} looks like probabilities, not logits: all {self.rows:,} values lie in [0, 1]",
                hint=f"pass --prob {self._stem(first)}",
            )
        if self.score.kind == "prob" and self.outside > self.rows / 10:
            percent = self.least >= 0.0 and self.greatest <= 100.0
            raise DataError(
                f"{first!r} looks like {'percentages' if percent else 'logits'}, not probabilities: "
                f"{self.outside:,} of {self.rows:,} rows lie outside [0, 1]",
                hint="divide it by 100" if percent else self._instead(first),
            )

    def _instead(self, first: str) -> str:
        return f"pass --logit {self._stem(first)}" if self.flags else "a probability is wanted here"

    def _stem(self, first: str) -> str:
        return first if len(self.score.columns) == 1 else first.rpartition("_")[0]
