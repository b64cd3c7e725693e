"""Rows as arrays, after every check, and the counts of bad rows by reason.

A row is bad if its label or weight is missing, its weight negative or infinite, its score missing or not finite, or its
probabilities outside [0, 1] or not adding up to 1. Bad rows keep their place in a chunk, with a score of 0, and are
marked; `load` refuses or drops them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calcli.batch import Batch, FloatArray, IntArray
from calcli.errors import DataError
from calcli.numeric.links import FARTHEST, drawn_in, logits, scores
from calcli.tables.arrays import (
    UNKNOWN,
    Levels,
    class_indices,
    feature_column,
    index_order,
    no_number,
    node_ids,
    numbers,
)
from calcli.tables.binding_types import Binding
from calcli.tables.labels import LOOKED_AT
from calcli.tables.paths import reading
from calcli.tables.scales import SLACK, SUM_SLACK, Scale
from calcli.tables.source import Source

Mask = NDArray[np.bool_]

SUMS = "the probabilities do not add up to 1"


def summary(wrong: Mapping[str, Mask]) -> tuple[Mask | None, dict[str, int], tuple[int, str] | None]:
    """`Checked.bad`, `why` and `first` of a chunk whose bad rows were marked."""
    if not wrong:
        return None, {}, None
    bad: Mask = np.logical_or.reduce(list(wrong.values()))
    row = int(bad.argmax())
    first = next(reason for reason, mask in wrong.items() if mask[row])
    return bad, {reason: int(mask.sum()) for reason, mask in wrong.items()}, (row, first)


@dataclass(frozen=True, kw_only=True)
class Checked:
    """A chunk of rows whose bad ones are known; `len` is the number of its rows."""

    bad: Mask | None = None
    """Which rows are bad; None if none is."""

    why: Mapping[str, int] = field(default_factory=dict)
    """How many rows are bad for each reason."""

    first: tuple[int, str] | None = None
    """The first bad row (from 0, in this chunk) and its reason."""

    normalised: int = 0
    """How many good rows have probabilities that were divided by their sum, because it was not 1."""

    def __len__(self) -> int:
        raise NotImplementedError


class Count:
    """Counts good and bad rows, chunk by chunk; counts of parts of a table can be added.

    `copies` are the rows that good rows stand for beyond themselves, where weights are counts; `keep_going` says
    whether there is a result in spite of bad rows. With `halved` each good row is two, as with soft labels.
    """

    def __init__(self, name: str, *, keep_going: bool) -> None:
        self.name = name
        self.keep_going = keep_going
        self.rows = 0
        self.rows_bad = 0
        self.copies = 0
        self.normalised = 0
        self.halved = False
        self.why: Counter[str] = Counter()
        self.first: tuple[int, str] | None = None

    def __add__(self, other: Count) -> Count:
        """The count of both parts; the first bad row is lost, because the order of the parts is not known."""
        both = Count(self.name, keep_going=self.keep_going)
        both.rows, both.rows_bad = self.rows + other.rows, self.rows_bad + other.rows_bad
        both.copies, both.why = self.copies + other.copies, self.why + other.why
        both.normalised = self.normalised + other.normalised
        return both

    def see(self, chunk: Checked) -> None:
        if chunk.bad is not None and chunk.first is not None:
            self.rows_bad += int(chunk.bad.sum())
            self.why.update(chunk.why)
            self.first = self.first or (self.rows + chunk.first[0], chunk.first[1])
        self.rows += len(chunk)
        self.normalised += chunk.normalised

    def repeat(self, counts: IntArray) -> None:
        """Note how many rows each good row of the last chunk stands for."""
        self.copies += int(counts.sum()) - len(counts)

    @property
    def facts(self) -> tuple[int, int, int]:
        """The numbers of rows, each as often as its count says, of bad and of normalised ones, as reports have them."""
        return self.rows + self.copies, self.rows_bad, self.normalised

    @property
    def hopeless(self) -> bool:
        """Whether the table will be refused: the rest of it is only counted, for the message."""
        return self.rows_bad > 0 and not self.keep_going

    def judge(self) -> None:
        """Refuse a table with bad rows, or without good ones."""
        if not self.rows:
            raise DataError(f"{self.name} has no rows")
        if self.hopeless or self.rows_bad == self.rows:
            raise self.error()

    def error(self) -> DataError:
        """The refusal, with the number of bad rows by reason."""
        bad, first = self.rows_bad, self.first
        reasons = ", ".join(
            f"{reason}: {count:,}" for reason, count in sorted(self.why.items(), key=lambda item: -item[1])
        )
        others = "or add --normalise, which divides them by their sum, " if SUMS in self.why else ""
        message = f"{self.name} has {bad:,} bad row{'' if bad == 1 else 's'} of {self.rows:,}"
        if len(self.why) == 1:
            message += f": {next(iter(self.why))}{f' (first in row {first[0] + 1})' if first else ''}"
        else:
            message += f" ({reasons}){f'; the first is row {first[0] + 1}: {first[1]}' if first else ''}"
        hint = (
            None
            if bad == self.rows
            else f"correct them, {others}or add --bad-rows null, which leaves them out (apply: writes null for them)"
        )
        return DataError(message, hint=hint)


def null_refused(flag: str, column: str, missing: int) -> DataError:
    """The error of a column in whose groups or order each row needs a place."""
    return DataError(
        f"{flag}: the column {column!r} is null in {missing:,} row{'' if missing == 1 else 's'}",
        hint="fill it in, or leave these rows out",
    )


class Tally(Count):
    """A `Count` of a table that is read in order: it also keeps which rows are bad."""

    def __init__(self, source: Source, *, keep_going: bool) -> None:
        super().__init__(source.name, keep_going=keep_going)
        self.source = source
        self._bad: list[IntArray] = []
        self._counts: list[IntArray] = []

    def see(self, chunk: Checked) -> None:
        if chunk.bad is not None:
            self._bad.append(self.rows + np.flatnonzero(chunk.bad))
        super().see(chunk)

    def repeat(self, counts: IntArray) -> None:
        self._counts.append(counts)
        super().repeat(counts)

    @property
    def row_numbers(self) -> IntArray | None:
        """The row numbers of the good rows, from 0, each as often as it counts; None if all are good and count once."""
        if not self.rows_bad and not self._counts and not self.halved:
            return None
        good = np.ones(self.rows, dtype=np.bool_)
        if self.rows_bad:
            good[np.concatenate(self._bad)] = False
        numbers = np.flatnonzero(good)
        if self.halved:
            return np.repeat(numbers, 2)
        return np.repeat(numbers, np.concatenate(self._counts)) if self._counts else numbers


@dataclass(frozen=True)
class Encoded(Checked):
    """One chunk of rows as arrays."""

    batch: Batch
    """All rows of the chunk, in their places."""

    trials: tuple[IntArray, IntArray] | None = None
    """The numbers of positive trials and of all, by row, where trials are counted; the labels are then all 0."""

    share: FloatArray | None = None
    """The label of each row, where labels are soft; the labels are then all 0, and the weights have no scale yet."""

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def is_bad(self) -> Mask:
        """`bad`, also where no row is."""
        return np.zeros(len(self.batch), dtype=np.bool_) if self.bad is None else self.bad

    @property
    def good(self) -> Batch:
        return self.batch if self.bad is None else self.batch.take(~self.bad)


def bound_columns(binding: Binding, *, label: bool, features: bool) -> list[str]:
    """The columns that `encode` reads, each once."""
    names = [*binding.score.columns, *(() if binding.node_id is None else (binding.node_id,))]
    if label:
        names += [name for name in (binding.label, binding.weight, binding.trials) if name is not None]
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
    values: FloatArray | None = None,
    few_labels: bool = False,
) -> Encoded:
    """One chunk, of typed columns or of the String columns of a text file, as arrays.

    `label` asks for labels and weights, `features` for features. `offset` rows stand before this chunk, whose category
    levels are `levels`; `values` are the `score_values`, where they are known already. With `few_labels` a row without
    a label is no bad row: its class index is `UNKNOWN`, its amount NaN.
    """
    wrong: dict[str, Mask] = {}  # reason: rows that are bad for it
    # 1. score, label or amount, weight, features, node ids; bad rows are marked
    score, prob, rough = _score(frame, score_values(frame, binding) if values is None else values, binding, wrong)
    indices = target = weight = trials = share = None
    if label and binding.label is not None and binding.trials is not None:
        trials = _trials(frame[binding.label], frame[binding.trials], wrong)
        indices = np.zeros(len(frame), dtype=np.int64)
    elif label and binding.label is not None and binding.soft:
        share = _amount(frame[binding.label], "label", wrong)
        mark(wrong, "the label is outside [0, 1]", (share < 0.0) | (share > 1.0))
        indices = np.zeros(len(frame), dtype=np.int64)
    elif label and binding.label is not None and binding.regression:
        target = _amount(frame[binding.label], "label", wrong, may_lack=few_labels)
    elif label and binding.label is not None:
        indices = class_indices(frame[binding.label], binding, offset)
        if not few_labels:
            mark(wrong, "the label is missing", indices == UNKNOWN)
    if label and binding.weight is not None:
        weight = _amount(frame[binding.weight], "weight", wrong)
        mark(wrong, "the weight is negative", weight < 0)
        weight = weight if binding.soft else binding.weight_scale.apply(weight)
    named = binding.features if features else ()
    columns = {feature.name: feature_column(frame[feature.name], feature, offset, levels) for feature in named}
    node = None if binding.node_id is None else node_ids(frame[binding.node_id])
    # 2. harmless values in place of those of bad rows
    bad, why, first = summary(wrong)
    if bad is not None:
        score = np.where(bad if score.ndim == 1 else bad[:, None], 0.0, score)
        prob = None if prob is None else np.where(bad if prob.ndim == 1 else bad[:, None], 0.5, prob)
        indices = None if indices is None else np.where(bad, 0, indices)
        weight = None if weight is None else np.where(bad, 0.0, weight)
        target = None if target is None else np.where(bad, 0.0, target)
    normalised = 0 if rough is None else int((rough if bad is None else rough & ~bad).sum())
    batch = Batch(score, indices, weight, columns, target, node, prob, ranks=binding.score.kind == "rank")
    return Encoded(batch, trials, share, bad=bad, why=why, first=first, normalised=normalised)


def score_values(frame: pl.DataFrame, binding: Binding) -> FloatArray:
    """The score columns as numbers: an array for one, a matrix for several; NaN where there is no number.

    Rows of a table without a score have zeros.
    """
    columns = binding.score.columns
    if len(columns) < 2:
        return numbers(frame[columns[0]]) if columns else np.zeros(len(frame))
    return np.column_stack([numbers(frame[name]) for name in columns])


def judge_scale(source: Source, binding: Binding) -> None:
    """Refuse logits that look like probabilities, and the reverse, by the first rows."""
    scale = Scale(binding.score)
    with reading(source.name):
        scale.see(
            score_values(source.raw.select(binding.score.columns).head(LOOKED_AT).collect(engine="streaming"), binding)
        )
    scale.judge()


def doubt_of_scale(source: Source, known: Binding) -> str | None:
    """The reason why an artifact's logits look like probabilities, by the first rows; they may be logits after all."""
    if known.score.kind != "logit":
        return None
    try:
        judge_scale(source, known)
    except DataError as error:
        return str(error)
    return None


def _score(
    frame: pl.DataFrame, values: FloatArray, binding: Binding, wrong: dict[str, Mask]
) -> tuple[FloatArray, FloatArray | None, Mask | None]:
    """The score, the probabilities that it was made of, if it was, and the rows in which they were divided by a sum."""
    if not binding.score.columns:
        return values, None, None
    if not np.isfinite(values).all():
        mark_missing(frame.select(binding.score.columns).get_columns(), values, "the score", wrong)
        mark(wrong, "the score is infinite", in_any(np.isinf(values)) & ~in_any(np.isnan(values)))
    if binding.score.kind == "prob":
        return _score_from_probabilities(values, binding, wrong)
    if binding.score.kind == "logit" and values.size and not max(-values.min(), values.max()) <= FARTHEST:
        values = np.clip(values, -FARTHEST, FARTHEST)  # NaN stays, in rows that are marked
    return (_two_columns(values, binding) if values.ndim == 2 and binding.binary else values), None, None


def in_any(mask: Mask) -> Mask:
    """For each row, whether the mask holds in any of its columns."""
    rows: Mask = np.logical_or.reduce(mask, axis=tuple(range(1, mask.ndim)))
    return rows


def mark(wrong: dict[str, Mask], reason: str, mask: Mask) -> None:
    """Add a reason, with the rows that are bad for it, if there are any."""
    if mask.any():
        wrong[reason] = mask


def mark_missing(columns: Sequence[pl.Series], values: FloatArray, name: str, wrong: dict[str, Mask]) -> None:
    """Mark the rows with a text that is not a number, and those in which a number is missing."""
    word = np.zeros(len(values), dtype=np.bool_)
    for column in columns:
        if column.dtype == pl.String:
            word |= no_number(column).to_numpy()
    mark(wrong, f"{name} is not a number", word)
    mark(wrong, f"{name} is missing", in_any(np.isnan(values)) & ~word)


def _score_from_probabilities(
    values: FloatArray, binding: Binding, wrong: dict[str, Mask]
) -> tuple[FloatArray, FloatArray, Mask | None]:
    """Log-odds or log-probabilities, and the probabilities; rows that hold none are marked, and those divided told."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        outside = (values < -SLACK) | (values > 1.0 + SLACK)
        if values.ndim == 1:
            mark(wrong, "the probability is outside [0, 1]", outside)
            return scores(values), np.clip(values, 0.0, 1.0), None
        whole = values.sum(axis=1)
        mark(wrong, "a probability is outside [0, 1]", in_any(outside))
        if binding.normalise:
            mark(wrong, "the probabilities are all 0", whole <= 0.0)
        else:
            mark(wrong, SUMS, np.abs(whole - 1.0) > SUM_SLACK)
        # float32 rounds sums by less than SLACK: such rows are taken as they are, others divided by their sum.
        prob = np.clip(values, 0.0, 1.0)
        rough = np.abs(whole - 1.0) > SLACK
        if rough.any():
            prob = np.where(rough[:, None], prob / prob.sum(axis=1, keepdims=True), prob)
        if not binding.binary:
            return scores(prob), prob, rough
        score = drawn_in(_two_columns(logits(values), binding))
        return score, prob if index_order(binding) == binding.classes else prob[:, ::-1], rough


def _two_columns(values: FloatArray, binding: Binding) -> FloatArray:
    """The log-odds z = v1 - v0, where v1 is the positive class."""
    positive = binding.classes.index(index_order(binding)[1])
    with np.errstate(invalid="ignore"):
        z: FloatArray = values[:, positive] - values[:, 1 - positive]
    return z


def _trials(positives: pl.Series, trials: pl.Series, wrong: dict[str, Mask]) -> tuple[IntArray, IntArray]:
    """The numbers of positive trials and of all; rows where they are no counts are marked, and have none."""
    hits, total = _amount(positives, "number of positives", wrong), _amount(trials, "number of trials", wrong)
    mark(wrong, "a count is negative", (hits < 0) | (total < 0))
    mark(wrong, "a count is no whole number", (hits % 1.0 > 0) | (total % 1.0 > 0))
    mark(wrong, "there are more positives than trials", hits > total)
    fine = np.isfinite(hits) & np.isfinite(total) & (hits >= 0) & (hits <= total)
    return np.where(fine, hits, 0.0).astype(np.int64), np.where(fine, total, 0.0).astype(np.int64)


def _amount(values: pl.Series, part: str, wrong: dict[str, Mask], *, may_lack: bool = False) -> FloatArray:
    """A column of finite numbers; rows where it has none are marked, unless they may lack one."""
    amount = numbers(values)
    if not np.isfinite(amount).all():
        if may_lack and values.dtype == pl.String:
            mark(wrong, f"the {part} is not a number", no_number(values).to_numpy())
        elif not may_lack:
            mark_missing([values], amount, f"the {part}", wrong)
        mark(wrong, f"the {part} is infinite", np.isinf(amount))
    return amount
